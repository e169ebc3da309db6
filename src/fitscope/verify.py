"""Edits put to the test: the script with them and without them, side by side; what does not hold is withdrawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fitscope import words
from fitscope.experiment import Outcome, Version, compare_versions, script_version
from fitscope.fix import apply
from fitscope.fixes.kind import Project
from fitscope.model import Edit, FitscopeError
from fitscope.rules.callbacks import SERVERS


@dataclass(frozen=True)
class Verified:
    """What is left of some edits after the experiment."""

    kept: tuple[Edit, ...]
    withdrawn: tuple[tuple[Edit, str], ...]
    outcome: Outcome | None
    """Of the kept edits together; None if none is left."""


def verify(
    project: Project, edits: Sequence[Edit], arguments: Sequence[str], budget: float, tell: Callable[[str], None]
) -> Verified:
    """Runs the script with all edits against the script as it is; if that fails, with each of them alone."""
    deadline = time.monotonic() + budget
    bench = _Bench(project, arguments, tell)
    bench.announce(budget)
    outcome, reason = bench.judge(edits, budget if len(edits) == 1 else budget / 2)
    if not reason:
        return Verified(tuple(edits), (), outcome)
    undecided = outcome is not None and outcome.speedup is None
    if len(edits) == 1 or undecided:
        return Verified((), tuple((edit, reason) for edit in edits), outcome)
    tell(f"together: {reason}; each edit alone")
    kept: list[tuple[Edit, Outcome | None]] = []
    withdrawn: list[tuple[Edit, str]] = []
    for number, edit in enumerate(edits):
        left = (deadline - time.monotonic()) / (len(edits) - number)
        alone, why = bench.judge([edit], left)
        if why:
            withdrawn.append((edit, why))
        else:
            kept.append((edit, alone))
    return Verified(tuple(edit for edit, _ in kept), tuple(withdrawn), kept[0][1] if len(kept) == 1 else None)


class _Bench:
    """Compares a script with edited versions of itself."""

    def __init__(self, project: Project, arguments: Sequence[str], tell: Callable[[str], None]) -> None:
        self._project = project
        self._arguments = arguments
        self._tell = tell
        self._folder = project.here.resolve()
        self._script = self._inside(Path(project.here, project.main))

    def announce(self, budget: float) -> None:
        """Says what is about to happen, and what of it cannot be kept inside."""
        command = " ".join(["python", self._script.as_posix(), *self._arguments])
        self._tell(f"`{command}` runs several times in copies of {self._folder}, for {words.seconds(budget)} at most")
        for text in self._project.texts():
            for call in text.script.calls:
                name = text.script.called(call)
                if name.startswith(SERVERS):
                    self._tell(f"{text.name}:{call.lineno} calls {name}: every run does")
                    return

    def judge(self, edits: Sequence[Edit], budget: float) -> tuple[Outcome | None, str]:
        """What an experiment with these edits shows, and why they are to be withdrawn, if they are."""
        applied = apply(self._project, edits)
        files = {str(self._inside(text.path)): text.encoded() for text in applied.after}
        one = script_version("the script as it is", self._script, self._arguments, {})
        other = script_version("the edited script", self._script, self._arguments, files)
        try:
            outcome = self._compare(one, other, budget)
        except FitscopeError as error:
            return None, str(error).removesuffix(".")
        return outcome, objection(outcome, safe=all(edit.safe for edit in edits))

    def _compare(self, one: Version, other: Version, budget: float) -> Outcome:
        return compare_versions(self._folder, one, other, budget, self._tell)

    def _inside(self, path: Path) -> Path:
        if not path.resolve().is_relative_to(self._folder):
            raise FitscopeError(f"{path} is not below {self._folder}: start fitscope in a folder above the script.")
        return path.resolve().relative_to(self._folder)


def objection(outcome: Outcome, *, safe: bool) -> str:
    """Why edits with this outcome do not stay; empty if they do."""
    if outcome.speedup is None:
        return f"no verdict: {outcome.doubt}"
    if safe and not outcome.keeps_training:
        return "the training is not the same: its losses or weights differ"
    if not outcome.faster:
        return f"not faster beyond doubt: {phrase(outcome)}"
    return ""


def phrase(outcome: Outcome) -> str:
    """The speedup as a person reads it."""
    assert outcome.speedup is not None
    low, high = outcome.speedup.low, outcome.speedup.high
    pairs = words.count(outcome.pairs, "pair")
    return f"{low:.2g} to {high:.2g} times as fast in {pairs} of runs"
