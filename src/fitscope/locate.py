"""Which stage of a tf.data pipeline holds the training up: the pipeline made free up to each stage in turn."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fitscope import words
from fitscope.experiment import Version, Workspace
from fitscope.model import Where

SECONDS = 12.0
"""That the passes may take in all."""
MOST, MORE = 0.5, 2.0
"""A stage is the slow one if it costs so much of the whole, and so many times as much as any other."""


@dataclass(frozen=True)
class Cost:
    """What one stage adds to the time for a batch."""

    kind: str
    where: Where | None
    seconds: float

    @property
    def name(self) -> str:
        """As a person reads it."""
        return f"{self.kind} {words.place(self.where)}".rstrip()


@dataclass(frozen=True)
class Located:
    """What the stages cost, in the order in which a batch goes through them; or why nobody knows."""

    seconds: float
    costs: tuple[Cost, ...]
    doubt: str = ""

    @property
    def slow(self) -> Cost | None:
        """The one stage that holds the others up."""
        found = sorted(self.costs, key=lambda cost: -cost.seconds)
        if not found or found[0].seconds < MOST * self.seconds:
            return None
        others = found[1].seconds if len(found) > 1 else 0.0
        return found[0] if found[0].seconds >= MORE * others else None

    @property
    def says(self) -> str:
        """What was found, in one sentence; nothing where no stage stands out."""
        slow = self.slow
        if slow is None:
            return ""
        taken = f"{words.seconds(slow.seconds)} of {words.seconds(self.seconds)} per batch"
        return f"the slow stage is {slow.name}, {taken}"


def locate(folder: Path, version: Version, where: Where | None, budget: float) -> Located:
    """Times the pipeline of a fit, free up to each of its stages, in a process of its own."""
    plan: dict[str, Any] = {
        "kind": "locate",
        "where": [where.file, where.line] if where is not None else [],
        "seconds": min(SECONDS, budget / 2),
    }

    def look(path: Path, samples: object) -> bool:
        return path.is_file() and path.read_bytes().endswith(b"\n")

    with Workspace(folder) as workspace:
        path, _, failed = workspace.alternate(version, plan, time.monotonic() + budget, look)
        value = json.loads(path.read_bytes()) if look(path, None) else {}
    if "whole" not in value:
        return Located(0.0, (), value.get("impossible") or f"the stages were not timed{failed}")
    return located(value)


def located(value: dict[str, Any]) -> Located:
    """What the times of a pipeline that is free up to each stage say: a stage costs what the next cut saves."""
    times = [value["whole"], *(each["seconds"] for each in value["cuts"])]
    costs = [
        Cost(each["kind"], _where(each), max(0.0, before - after))
        for each, (before, after) in zip(value["cuts"], pairwise(times), strict=True)
    ]
    return Located(value["whole"], tuple(costs))


def _where(cut: dict[str, Any]) -> Where | None:
    return Where(cut["file"], cut["line"]) if cut["file"] else None
