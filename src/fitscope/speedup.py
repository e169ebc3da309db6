"""The whole way alone: findings of a run, put to the proof, their edits made and verified; what holds is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fitscope import words
from fitscope.experiment import Outcome
from fitscope.fix import Applied, apply, findings_of, fixes
from fitscope.model import Edit, Finding, Report
from fitscope.prove import Proof, prove
from fitscope.verify import Bench, Verified, verify

PROVING = 0.3
"""The part of the budget in which causes are proved; the rest is for the edited script."""
NOTHING = 1.02
"""A cause without which the training is less than so many times as fast is none."""
SAME = {
    "equal": "same losses",
    "equal to rounding": "same losses, to rounding",
    "within noise": "losses within noise",
    "unknown": "no losses to compare",
    "different": "other losses, as the unsafe edits may have",
}


@dataclass(frozen=True)
class SpedUp:
    """A script made faster: the edits that hold, and what they are worth together."""

    proofs: tuple[Proof, ...]
    verified: Verified
    applied: Applied

    @property
    def sentence(self) -> str:
        """What came of it."""
        outcome = self.verified.outcome
        if not self.applied.edits or outcome is None or outcome.speedup is None:
            return "nothing verified: the script stays as it is"
        return f"{words.verified(outcome.speedup)}, {SAME[outcome.same]}"


def speedup(
    bench: Bench,
    report: Report,
    budget: float,
    told: Callable[[Proof], None] = lambda proof: None,
    *,
    unsafe: bool = False,
) -> SpedUp:
    """Proves what can be proved at little cost, and verifies the (safe) edits of what was not refuted."""
    deadline = time.monotonic() + budget
    project = bench.project
    edits = [edit for edit in fixes(project, findings_of(project), unsafe=unsafe).edits if edit.safe or unsafe]
    # An edit whose cause cannot be taken away otherwise is its own experiment: it is verified in any case.
    provable = [finding for finding in report.findings if _has_edit(finding, edits) and _is_cheap(finding)]
    proofs: list[Proof] = []
    if len(edits) > 1:  # a single edit is settled by its verification
        for proof in prove(bench, report, provable, PROVING * budget) if provable else ():
            proofs.append(proof)
            told(proof)
    refuted = [proof.finding for proof in proofs if proof.verified is not None and proof.verified.high < NOTHING]
    kept = [edit for edit in edits if not any(edit.finding.name == each.name for each in refuted)]
    applied = apply(project, kept)
    if not applied.edits:
        return SpedUp(tuple(proofs), Verified((), (), None), applied)
    verified = verify(bench, applied.edits, deadline - time.monotonic())
    if _gain(verified.outcome) is None:
        verified = Verified((), (*verified.withdrawn, *((edit, "no gain was shown") for edit in verified.kept)), None)
    return SpedUp(tuple(proofs), verified, apply(project, verified.kept))


def _has_edit(finding: Finding, edits: Sequence[Edit]) -> bool:
    return any(edit.finding.name == finding.name for edit in edits)


def _is_cheap(finding: Finding) -> bool:
    """Whether a proof takes one process; that the input is free says nothing about its edit."""
    return finding.removal is not None and not finding.removal.bound


def _gain(outcome: Outcome | None) -> float | None:
    return outcome.speedup.low if outcome is not None and outcome.speedup is not None and outcome.faster else None
