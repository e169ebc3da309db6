"""The whole way alone: findings of a run, put to the proof, their edits made and verified; what holds is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fitscope import store, words
from fitscope.account import account
from fitscope.alternate import Shown
from fitscope.experiment import TRAINED, Outcome, Workspace
from fitscope.fix import Applied, apply, findings_of, fixes
from fitscope.fixes.kind import Project
from fitscope.model import Advice, Edit, Finding, FitscopeError, Report, Speedup
from fitscope.prove import Proof, prove
from fitscope.verify import Bench, Verified, objection, verify

PROVING = 0.3
"""The part of the budget in which causes are proved; the rest is for the edited script."""
WITHHELD = 0.4
"""The part of what is left then that is kept for edits that are not made unasked, to say what they would gain."""
RECORDED = 6
"""The edited script is recorded for a part of the time that is left: one of so many, compiling and starting apart."""
WHOLE = 0.95
"""A training that was recorded for less than this part of that time came to its end by itself."""
NOTHING = 1.02
"""A cause without which the training is less than so many times as fast is none."""
SAME = {
    "equal": "same losses",
    "equal to rounding": "same losses, to rounding",
    "equal in the end": "same weights in the end",
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
    withheld: tuple[Edit, ...] = ()
    """Edits that may change results, and that were not asked for."""
    with_them: Outcome | None = None
    """What is gained with these, too, if that was seen to be more."""
    advice: tuple[Advice, ...] = ()
    """Findings that there is no edit for, and why; not those that the edits of others have made an end of."""

    @property
    def sentence(self) -> str:
        """What came of it."""
        outcome = self.verified.outcome
        more = f"; with --unsafe {_worth(self.with_them)}" if self.with_them is not None else ""
        if self.applied.edits and outcome is not None:
            return f"{_worth(outcome)}{more}"
        if more:
            return f"no edit was verified that surely leaves the training the same{more}"
        return "nothing verified: the script stays as it is"


def _worth(outcome: Outcome) -> str:
    assert outcome.speedup is not None
    return f"{words.verified(outcome.speedup)}, {SAME[outcome.same]}"


def speedup(
    bench: Bench,
    report: Report,
    budget: float,
    told: Callable[[Proof], None] = lambda proof: None,
    progress: Callable[[Finding, Shown], None] = lambda finding, shown: None,
    *,
    unsafe: bool = False,
) -> SpedUp:
    """Proves what can be proved at little cost, and verifies the edits of what was not refuted: safe ones first."""
    deadline = time.monotonic() + budget
    project = bench.project
    findings = findings_of(project)
    found, all_of_them = fixes(project, findings, unsafe=unsafe), fixes(project, findings, unsafe=True)
    edits = [edit for edit in found.edits if edit.safe or unsafe]
    withheld = [] if unsafe else [edit for edit in all_of_them.edits if not edit.safe]
    # An edit whose cause cannot be taken away otherwise is its own experiment: it is verified in any case.
    provable = [finding for finding in report.findings if _has_edit(finding, edits) and _is_cheap(finding)]
    proofs: list[Proof] = []
    if len(edits) > 1:  # a single edit is settled by its verification
        for proof in prove(bench, report, provable, PROVING * budget, progress) if provable else ():
            proofs.append(proof)
            told(proof)
    refuted = {proof.finding.name for proof in proofs if proof.verified is not None and proof.verified.high < NOTHING}
    kept = apply(project, [edit for edit in edits if edit.finding.name not in refuted]).edits
    withheld = [edit for edit in withheld if edit.finding.name not in refuted]
    verified = Verified((), (), None)
    if kept:
        left = deadline - time.monotonic()
        verified = verify(bench, kept, left * (1 - WITHHELD) if withheld else left)
    if _gain(verified.outcome) is None:
        verified = Verified((), (*verified.withdrawn, *((edit, "no gain was shown") for edit in verified.kept)), None)
    first = verified.kept
    applied, advice = apply(project, first), found.advice
    if first:
        tried = refuted | {edit.finding.name for edit, _ in verified.withdrawn}
        left = (deadline - time.monotonic()) * (1 - WITHHELD if withheld else 1)
        verified, applied, causes = _once_more(bench, verified, applied, tried, left, unsafe=unsafe)
        advice = tuple(each for each in advice if causes is None or each.finding.name in causes)
    with_them = None
    # Where a safe edit holds, one that may change results is not needed.
    withheld = [edit for edit in withheld if not any(_is_about(edit, each) for each in first)]
    # What they gain is not measured beside edits of a second look: those are edits of another text.
    if withheld and verified.kept == first and bench.affords(deadline - time.monotonic()):
        without = verified.outcome if first else None
        with_them = _with_withheld(bench, [*withheld, *first], without, deadline - time.monotonic())
    return SpedUp(tuple(proofs), verified, applied, tuple(withheld), with_them, advice)


def _once_more(
    bench: Bench, first: Verified, applied: Applied, tried: set[str], budget: float, *, unsafe: bool
) -> tuple[Verified, Applied, set[str] | None]:
    """What is left to find in the edited script, now that what took most of the time is gone; its edits, verified.

    With them come the causes that are left, if that was looked for. The script is compared with itself as it was
    after the first edits; the two speedups are multiplied.
    """
    deadline = time.monotonic() + budget
    if first.outcome is None or not bench.affords(budget):
        return first, applied, None
    bench.tell("the edited script is recorded, to see what is left")
    with Workspace(bench.folder) as workspace, workspace.copied(bench.edited(first.kept)) as place:
        second = bench.beside(place)
        project = second.project
        try:
            with Workspace(place) as inner:
                seconds = min(TRAINED, budget / RECORDED)
                project.run = store.read(inner.record(second.version, time.monotonic() + budget / 2, seconds))
        except FitscopeError as error:
            bench.tell(str(error).removesuffix("."))
            return first, applied, None
        every = findings_of(project)
        trained = sum(region.wall_seconds for region in account(project.run).regions)
        # What was recorded for a while only may lack causes that show late.
        causes = {finding.name for finding in every} if trained < WHOLE * seconds else None
        findings = [finding for finding in every if finding.name not in tried]
        edits = [edit for edit in fixes(project, findings, unsafe=unsafe).edits if edit.safe or unsafe]
        edits = list(apply(project, edits).edits)
        if not edits or not second.affords(deadline - time.monotonic()):
            bench.tell(f"found: {', '.join(dict.fromkeys(each.name for each in findings)) or 'nothing more'}")
            return first, applied, causes
        bench.tell(f"found: {', '.join(dict.fromkeys(edit.finding.name for edit in edits))}")
        more = verify(second, edits, deadline - time.monotonic())
        withdrawn = (*first.withdrawn, *((_as_here(edit, place), why) for edit, why in more.withdrawn))
        if _gain(more.outcome) is None or not more.kept or more.outcome is None:
            return Verified(first.kept, withdrawn, first.outcome), applied, causes
        kept = tuple(_as_here(edit, place) for edit in more.kept)
        both = Verified((*first.kept, *kept), withdrawn, _after(first.outcome, more.outcome))
        return both, _over(bench.project, applied, apply(project, kept)), causes


def _as_here(edit: Edit, place: Path) -> Edit:
    """An edit in a copy of the folder, its finding named as if it were in the folder itself."""
    where = edit.finding.where
    if where is None or not Path(where.file).is_relative_to(place.resolve()):
        return edit
    here = replace(where, file=Path(where.file).relative_to(place.resolve()).as_posix())
    return replace(edit, finding=replace(edit.finding, where=here))


def _after(first: Outcome, second: Outcome) -> Outcome:
    """What two experiments show together, the second of which began where the first ended."""
    assert first.speedup is not None
    assert second.speedup is not None
    return Outcome(
        Speedup(first.speedup.low * second.speedup.low, first.speedup.high * second.speedup.high),
        max(first.same, second.same, key=list(SAME).index),
        first.pairs + second.pairs,
        early=first.early or second.early,
    )


def _over(project: Project, first: Applied, second: Applied) -> Applied:
    """Edits made to files to which others had been made, as edits of the files as they are."""
    after = {text.name: text for text in (*first.after, *second.after)}
    before = tuple(project.text(name) for name in after)
    return Applied(before, tuple(after.values()), (*first.edits, *second.edits), first.left_out)


def _with_withheld(bench: Bench, edits: Sequence[Edit], without: Outcome | None, budget: float) -> Outcome | None:
    """What edits gain some of which may change results; None if that is not more than without these."""
    bench.announce()
    bench.tell("with the edits that may change results, to see what they would gain")
    outcome, _ = bench.judge(apply(bench.project, edits).edits, budget)
    if outcome is None or objection(outcome, safe=False):
        return None
    return outcome if (_gain(outcome) or 0.0) > NOTHING * (_gain(without) or 1.0) else None


def _is_about(one: Edit, other: Edit) -> bool:
    return one.finding.name == other.finding.name and one.finding.where == other.finding.where


def _has_edit(finding: Finding, edits: Sequence[Edit]) -> bool:
    return any(edit.finding.name == finding.name for edit in edits)


def _is_cheap(finding: Finding) -> bool:
    """Whether a proof takes one process; that the input is free says nothing about its edit."""
    return finding.removal is not None and not finding.removal.bound


def _gain(outcome: Outcome | None) -> float | None:
    return outcome.speedup.low if outcome is not None and outcome.speedup is not None and outcome.faster else None
