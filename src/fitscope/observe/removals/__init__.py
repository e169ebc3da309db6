"""A training from which one cause is taken away and put back, stretch by stretch: what an experiment runs inside it.

A process in which this happens is not recorded otherwise: nothing but the removal stands between Keras and the
script.
Standard library only, as all below `observe`. What may go wrong goes wrong in a process of its own, and is told.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from fitscope.observe import backends, tfdata, trial
from fitscope.observe.imports import Finder
from fitscope.observe.recorder import Recorder
from fitscope.observe.removals import hooks, locate, replay, settings, training, tuned, wrapped
from fitscope.observe.removals.stretches import Stretches
from fitscope.observe.seams import Seams

PLAN = "FITSCOPE_REMOVAL"
"""Environment of an experiment: what is taken away, where, and the file to write the stretches to, as JSON."""

KINDS = {
    "nothing": hooks.Nothing,
    "hooks": hooks.Hooks,
    "saving": hooks.Saving,
    "validation": hooks.Validation,
    "replay": replay.Replay,
    "settings": settings.Settings,
    "tune": tuned.Tuned,
    "wrapped": wrapped.Wrapped,
}


def begin() -> None:
    """Waits for Keras, then holds the training that the plan names."""
    plan = json.loads(os.environ[PLAN])
    if plan["kind"] != "tune":
        trial.begin(plan["seed"])  # a seed of ours would keep random maps from being tuned
    Finder({"keras": lambda: _hold(plan), "tensorflow": _note_stages}).watch()


def _note_stages() -> None:
    tfdata.hold_making(Seams(Recorder()))


def _hold(plan: dict[str, Any]) -> None:
    file = _File(plan["file"])
    try:
        name = sys.modules["keras"].config.backend()
        if name not in backends.NAMES:
            raise RuntimeError(f"the backend {name} is not known")
        if plan["kind"] == "locate":
            locate.hold(Seams(Recorder()), backends.load(name), plan, file.line)
            return
        stretches = Stretches(plan, file.line)
        removal = KINDS[plan["kind"]](plan, stretches)
        training.hold(Seams(Recorder()), backends.load(name), stretches, removal, training.Target(plan))
    except Exception as error:
        file.line({"impossible": f"{type(error).__name__}: {error}"})


class _File:
    """JSON lines, each written at once; only the process that the script is writes them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pid = os.getpid()

    def line(self, value: dict[str, Any]) -> None:
        if os.getpid() == self._pid:
            data = json.dumps(value).encode() + b"\n"
            file = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
            try:
                os.write(file, data)
            finally:
                os.close(file)
