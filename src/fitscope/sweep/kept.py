"""What a sweep has measured, kept in .fitscope/ for the next one of the same script on the same machine."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fitscope import machine, store
from fitscope.model import SCHEMA, Measured
from fitscope.sweep.ran import MEASURED, NO_FIT, Ran

PACKAGES = ("keras", "tensorflow", "tensorflow-cpu", "jax", "jaxlib", "torch", "numpy", "grain")
SPEAKING = ("KERAS_", "TF_", "XLA_", "JAX_", "CUDA_", "HIP_", "OMP_", "MKL_", "OPENBLAS_", "TORCH", "PYTORCH_")
"""How the names of variables begin that may change how fast a training is."""


class Kept:
    """The runs of one script with some arguments, by settings; each is written as soon as it is there."""

    def __init__(self, script: Path, arguments: Sequence[str], folder: Path = Path(store.FOLDER)) -> None:
        self._circumstances = _circumstances(script, arguments)
        name = hashlib.sha256(_text(self._circumstances).encode()).hexdigest()[:12]
        safe = re.sub(r"[^\w.-]+", "_", script.name)
        self.path = folder / f"sweep-{safe}-{name}.json"
        self._files: dict[str, str] = {}
        self._runs: dict[str, list[Ran]] = {}

    def load(self) -> None:
        """Reads what was measured before, if no file that the script is made of has changed since."""
        try:
            value = json.loads(self.path.read_text(encoding="utf-8"))
            runs = {key: [_ran(each) for each in found] for key, found in value["runs"].items()}
            same = value["schema"] == SCHEMA and value["circumstances"] == self._circumstances
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return  # there is none, or it is damaged: everything is measured
        if same and all(_digest(Path(file)) == digest for file, digest in value["files"].items()):
            self._files, self._runs = value["files"], runs

    def runs(self, settings: Mapping[str, Any]) -> list[Ran]:
        """The runs with these settings that are worth keeping: measured undisturbed, or found not to fit."""
        return list(self._runs.get(_text(settings), ()))

    def forget(self, settings: Mapping[str, Any]) -> None:
        """The runs with these settings are to be made again."""
        self._runs.pop(_text(settings), None)

    def add(self, settings: Mapping[str, Any], ran: Ran) -> None:
        """Keeps one more run."""
        if not (ran.state == NO_FIT or (ran.state == MEASURED and ran.calm)):
            return
        self._runs.setdefault(_text(settings), []).append(ran)
        self._files.update({file: _digest(Path(file)) for file in ran.files if file not in self._files})
        value = {
            "schema": SCHEMA,
            "circumstances": self._circumstances,
            "files": self._files,
            "runs": {key: [asdict(each) for each in found] for key, found in self._runs.items()},
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            ignore = self.path.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
            spare = self.path.with_suffix(".part")
            spare.write_text(json.dumps(value, separators=(",", ":")), encoding="utf-8")
            spare.replace(self.path)
        except OSError:
            return  # a folder that cannot be written: the next sweep measures again


def _ran(value: dict[str, Any]) -> Ran:
    measured, place = value["measured"], value["place"]
    return Ran(
        **{
            **value,
            "measured": Measured(**measured) if measured is not None else None,
            "place": (str(place[0]), int(place[1])) if place is not None else None,
            "files": tuple(value["files"]),
        }
    )


def _circumstances(script: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """All that must be the same for a measurement to hold."""
    config = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras", "keras.json")
    described = machine.describe()
    return {
        "script": script.as_posix(),
        "content": _digest(script),
        "arguments": list(arguments),
        "machine": {name: described.get(name) for name in ("platform", "cpu", "cores", "usable_cores", "gpus")},
        "memory": [described.get("memory_bytes"), described.get("memory_limit_bytes")],
        "python": sys.version.split()[0],
        "versions": {name: found for name in PACKAGES if (found := _version(name)) is not None},
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(SPEAKING)},
        "keras.json": _digest(config),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)
