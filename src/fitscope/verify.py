"""Edits put to the test: the script with them and without them, side by side; what does not hold is withdrawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fitscope import words
from fitscope.account import account
from fitscope.experiment import (
    LEAST_PAIRS,
    TRAINED,
    Outcome,
    Version,
    compare_versions,
    once,
    script_version,
    unguarded,
)
from fitscope.fix import apply
from fitscope.fixes.kind import Project
from fitscope.model import Edit, FitscopeError
from fitscope.rules.callbacks import SERVERS

LEAST_TRAINED = 5.0
"""Seconds of training that a run needs at the least to be worth comparing."""
ENDING = 1.0
"""Seconds that a process takes to end."""


@dataclass(frozen=True)
class Verified:
    """What is left of some edits after the experiment."""

    kept: tuple[Edit, ...]
    withdrawn: tuple[tuple[Edit, str], ...]
    outcome: Outcome | None
    """Of the kept edits together, or of those that were withdrawn if none is left."""


def verify(bench: Bench, edits: Sequence[Edit], budget: float) -> Verified:
    """Runs the script with all edits against the script as it is; if that fails, with each of them alone.

    Those that hold alone are tried together; if they do not hold then, the one that gains most stays.
    """
    deadline = time.monotonic() + budget
    bench.announce()
    outcome, reason = bench.judge(edits, budget if len(edits) == 1 else budget / 2)
    if not reason:
        return Verified(tuple(edits), (), outcome)
    undecided = outcome is not None and outcome.speedup is None
    if len(edits) == 1 or undecided:
        return Verified((), tuple((edit, reason) for edit in edits), outcome)
    bench.tell(f"together: {reason}; each edit alone")
    kept: list[tuple[Edit, Outcome | None]] = []
    withdrawn: list[tuple[Edit, str]] = []
    for number, edit in enumerate(edits):
        parts = len(edits) + (len(edits) > 2) - number  # of three or more, some may be left to be tried together
        left = (deadline - time.monotonic()) / parts
        alone, why = bench.judge([edit], left)
        if why:
            withdrawn.append((edit, why))
        else:
            kept.append((edit, alone))
    if len(kept) < 2:
        return Verified(tuple(edit for edit, _ in kept), tuple(withdrawn), kept[0][1] if kept else None)
    together, why = outcome, reason
    if len(kept) < len(edits):
        bench.tell("those that are left, together")
        together, why = bench.judge([edit for edit, _ in kept], deadline - time.monotonic())
    if why:
        # Together they do not hold: the one that gains most alone does.
        best = max(kept, key=lambda each: each[1].speedup.low if each[1] and each[1].speedup else 0.0)
        withdrawn += [(edit, f"with the others: {why}") for edit, _ in kept if edit is not best[0]]
        return Verified((best[0],), tuple(withdrawn), best[1])
    return Verified(tuple(edit for edit, _ in kept), tuple(withdrawn), together)


class Bench:
    """Compares a script with edited versions of itself."""

    def __init__(
        self, project: Project, arguments: Sequence[str], budget: float, tell: Callable[[str], None]
    ) -> None:
        self.project = project
        self._arguments = arguments
        self._budget = budget
        self.tell = tell
        self._announced = False
        self.folder = project.here.resolve()
        self.script = self.inside(Path(project.here, project.main))

    def beside(self, place: Path) -> Bench:
        """The same script in another folder; what is to be said before a run has been said."""
        other = Bench(Project(self.script, here=place), self._arguments, self._budget, self.tell)
        other._announced = True
        return other

    def announce(self) -> None:
        """Says before the first run what is about to happen, and what of it cannot be kept inside."""
        if self._announced:
            return
        self._announced = True
        command = " ".join(["python", self.script.as_posix(), *self._arguments])
        self.tell(
            f"`{command}` runs several times in copies of {self.folder}, for {words.seconds(self._budget)} at most"
        )
        if warning := unguarded():
            self.tell(warning)
        for text in self.project.texts():
            for call in text.script.calls:
                name = text.script.called(call)
                if name.startswith(SERVERS):
                    self.tell(f"{text.name}:{call.lineno} calls {name}: every run does")
                    return

    @property
    def version(self) -> Version:
        """The script as it is."""
        return script_version("the script as it is", self.script, self._arguments, {})

    def edited(self, edits: Sequence[Edit]) -> Version:
        """The script with these edits made."""
        applied = apply(self.project, edits)
        files = {str(self.inside(text.path)): text.encoded() for text in applied.after}
        return script_version("the edited script", self.script, self._arguments, files)

    def judge(self, edits: Sequence[Edit], budget: float) -> tuple[Outcome | None, str]:
        """What an experiment with these edits shows, and why they are to be withdrawn, if they are."""
        try:
            outcome = compare_versions(
                self.folder, self.version, self.edited(edits), budget, self.tell, self._trained_for(budget)
            )
        except FitscopeError as error:
            return None, str(error).removesuffix(".")
        return outcome, objection(outcome, safe=all(edit.safe for edit in edits))

    def affords(self, budget: float) -> bool:
        """Whether enough runs of two versions fit into a budget, as long as the recorded one took."""
        run = self.project.run
        if run is None:
            return True
        whole = account(run)
        trained = sum(region.wall_seconds for region in whole.regions)
        needed = min(trained, once(whole) + LEAST_TRAINED)
        return budget / (2 * LEAST_PAIRS) >= whole.outside_seconds + ENDING + needed

    def _trained_for(self, budget: float) -> float:
        """Seconds of training after which a run is ended: so many that three pairs of runs fit into the budget."""
        run = self.project.run
        if run is None:
            return TRAINED
        before = account(run).outside_seconds + ENDING
        return min(TRAINED, max(LEAST_TRAINED, budget / (2 * LEAST_PAIRS) - before))

    def inside(self, path: Path) -> Path:
        """A path relative to the folder that is copied; a sentence if it is not below it."""
        if not path.resolve().is_relative_to(self.folder):
            raise FitscopeError(f"{path} is not below {self.folder}: start fitscope in a folder above the script.")
        return path.resolve().relative_to(self.folder)


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
