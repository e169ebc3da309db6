"""Findings put to the proof: the user's own training with one cause removed, next to the training as it is."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fitscope import store, words
from fitscope.account import account
from fitscope.alternate import Pace, Shown, alternate, gain, of_whole
from fitscope.diagnose import diagnose, key_of
from fitscope.experiment import LEAST_PAIRS, TRAINED, Workspace, compare_versions, once
from fitscope.fix import fixes
from fitscope.locate import locate
from fitscope.model import Account, Around, Edit, Finding, FitscopeError, Region, Removal, Report, Speedup, Where
from fitscope.supervise import append, prepare
from fitscope.verify import ENDING, LEAST_TRAINED, Bench

RUNS = 2 * LEAST_PAIRS
"""Runs that a comparison of two versions takes at the least."""
TUNING = 18.0
"""Seconds that it takes to tune a pipeline and to see what that gains."""
LEAST_TURNS = 10.0
"""Seconds of a training that an experiment by turns takes at the least."""
LOCATING = 14.0
"""Seconds that it takes to time the stages of a pipeline."""


@dataclass(frozen=True)
class Proof:
    """What an experiment says of one finding."""

    finding: Finding
    verified: Speedup | None
    """How many times faster the whole training is without the cause; None without a verdict."""
    says: str
    """How it was shown, or why there is no verdict."""

    @property
    def confirmed(self) -> bool:
        """Whether the training is faster without the cause beyond doubt."""
        return self.verified is not None and self.verified.low > 1


def recorded(bench: Bench, budget: float) -> Report:
    """The report of the last run of the script as it is now; without one, of a run that is made in a copy."""
    project, tell = bench.project, bench.tell
    run = project.run
    if run is None:
        tell(f"there is no run of {project.main} as it is now: recording one")
        bench.announce()
        path = store.new_path(project.main.stem)
        with Workspace(bench.folder) as workspace:
            made = workspace.record(bench.version, time.monotonic() + budget, min(TRAINED, budget / 2))
            writable, reason = prepare(path)
            if not writable:
                tell(f"cannot write {path} ({reason}): the run is kept in {tempfile.gettempdir()}")
                path = Path(tempfile.gettempdir(), f"fitscope-{os.getpid()}-{path.name}")
            shutil.copy(made, path)
        tell(f"recorded {path}")
        project.run = run = store.read(path)
    return diagnose(run, account(run))


def choose(report: Report, causes: Sequence[str]) -> tuple[Finding, ...]:
    """The findings to prove: those of some causes, or all that promise something."""
    names = [finding.name for finding in report.findings]
    for cause in causes:
        if cause not in names:
            found = f"found were {', '.join(dict.fromkeys(names))}" if names else "there are no findings"
            raise FitscopeError(f"{cause} is not among the findings of this run: {found}.")
    if causes:
        return tuple(finding for finding in report.findings if finding.name in causes)
    return tuple(finding for finding in report.findings if finding.estimated is not None)


def prove(
    bench: Bench,
    report: Report,
    findings: Sequence[Finding],
    budget: float,
    progress: Callable[[Finding, Shown], None] = lambda finding, shown: None,
) -> Iterator[Proof]:
    """One experiment after the other, each with its part of what is left of the budget.

    Those that take one process come first: what they leave is for those that take many runs.
    """
    deadline = time.monotonic() + budget
    bench.announce()
    if not os.access(report.run.path, os.W_OK):
        bench.tell(f"{report.run.path} cannot be written: what is shown is not kept with it")
    for number, finding in enumerate(sorted(findings, key=_runs)):
        slice_ = (deadline - time.monotonic()) / (len(findings) - number)
        experiment = Experiment(bench, report, finding, progress)
        try:
            proof = experiment.run(slice_)
        except FitscopeError as error:
            proof = Proof(finding, None, f"no verdict: {str(error).removesuffix('.')}")
        save(report, proof)
        yield proof


def _runs(finding: Finding) -> int:
    """Whether an experiment takes one process, maybe more, or many."""
    if finding.removal is None:
        return 2
    return 1 if finding.removal.bound else 0


def save(report: Report, proof: Proof) -> None:
    """Keeps what was shown with the run: a line more in its file, which older readers pass over."""
    verified = proof.verified
    append(
        Path(report.run.path),
        {
            "fact": "proof",
            "finding": key_of(proof.finding),
            "low": verified.low if verified is not None else None,
            "high": verified.high if verified is not None else None,
            "says": proof.says,
            "when": time.time(),
        },
    )


def _is_per_batch(removal: Removal) -> bool:
    """Whether hooks of single batches are taken away; what an epoch's end leaves to a thread is done in the next."""
    return removal.kind == "hooks" and all("_batch_" in hook for _, hook in removal.arguments["hooks"])


def _reads_tfdata(region: Region) -> bool:
    return any(part.phase == "data" and part.name == "tf.data" for part in region.parts)


class Experiment:
    """The experiment that fits a finding: the cause removed by turns in one process, or an edited script."""

    def __init__(
        self,
        bench: Bench,
        report: Report,
        finding: Finding,
        progress: Callable[[Finding, Shown], None],
    ) -> None:
        self._project = bench.project
        self._bench = bench
        self._account: Account = report.account
        self._finding = finding
        self._progress = progress
        self._cwd = Path(report.run.cwd)
        self._backend = report.run.backend

    def run(self, budget: float) -> Proof:
        """What it shows within a budget; of a tf.data pipeline also which stage is slow, if there is time for it."""
        region = self._region(self._finding.removal)
        extra = self._before + LOCATING
        if region is None or not _reads_tfdata(region) or not self._is_input or budget < 3 * extra:
            return self._main(budget)
        proof = self._main(budget - extra)
        found = locate(self._bench.folder, self._bench.version, self._where(region.where), extra)
        return replace(proof, says=f"{proof.says}; {found.says}") if found.says else proof

    def _main(self, budget: float) -> Proof:
        removal = self._finding.removal
        region = self._region(removal)
        edit = self._edit()
        if removal is not None and region is not None:
            worth = removal.bound and edit is not None and self._bench.affords(budget)
            if not worth and self._tunable(removal, region, edit, budget):
                return self._tuned(removal, region, budget)
            if not worth and edit is not None and edit.around is not None and _is_per_batch(removal):
                return self._off_and_around(removal, edit.around, region, budget)
            if not worth:
                return self._by_turns(removal, region, budget)
        if edit is None:
            return Proof(self._finding, None, "no experiment can take this cause away by itself")
        return self._edited(edit, budget)

    @property
    def _is_input(self) -> bool:
        return self._finding.removal is not None and self._finding.removal.bound

    def _region(self, removal: Removal | None) -> Region | None:
        if removal is None:
            return None
        found = [each for each in self._account.regions if each.call == "fit" and each.where == removal.where]
        return next(iter(found), None)

    def _where(self, where: Where | None) -> Where | None:
        """A line, its file relative to the folder that is copied."""
        if where is None:
            return None
        return Where(self._bench.inside(self._cwd / where.file).as_posix(), where.line)

    def _edit(self) -> Edit | None:
        return next(iter(fixes(self._project, [self._finding]).edits), None)

    def _tunable(self, removal: Removal, region: Region, edit: Edit | None, budget: float) -> bool:
        """Whether fitscope.tune can be put into the training, and there is time to see what that gains."""
        able = removal.bound and edit is None and self._backend == "tensorflow" and _reads_tfdata(region)
        return able and budget >= 2 * (self._before + TUNING)

    def _tuned(self, removal: Removal, region: Region, budget: float) -> Proof:
        """With the remedy in place; if it gains nothing, with a free input."""
        remedy = replace(removal, kind="tune", does="fitscope.tune(dataset) in place", bound=False)
        began = time.monotonic()
        proof = self._by_turns(remedy, region, budget / 2)
        if proof.confirmed:
            return proof
        bound = self._by_turns(removal, region, budget - (time.monotonic() - began))
        return replace(bound, says=f"{bound.says}; fitscope.tune did not show a gain") if bound.confirmed else bound

    def _off_and_around(self, removal: Removal, around: Around, region: Region, budget: float) -> Proof:
        """Without the hooks; if that gains anything and there is time, also with the remedy around the callback."""
        began = time.monotonic()
        enough = budget / 2 >= self._before + LEAST_TURNS
        proof = self._by_turns(removal, region, budget / 2 if enough else budget)
        left = budget - (time.monotonic() - began)
        if not proof.confirmed or left < self._before + LEAST_TURNS:
            return proof
        given = "".join(f", {name}={value}" for name, value in around.options.items())
        does = f"fitscope.{around.remedy}({around.callback}(…){given})"
        remedy = replace(removal, kind="wrapped", does=does, arguments=vars(around))
        with_it = self._by_turns(remedy, region, left)
        shown = words.verified(with_it.verified) if with_it.verified is not None else with_it.says
        return replace(proof, says=f"{proof.says}; with {does} in place: {shown}")

    def _by_turns(self, removal: Removal, region: Region, budget: float) -> Proof:
        shown = alternate(
            self._bench.folder,
            self._bench.version,
            replace(removal, where=self._where(removal.where)),
            Pace.of(region, self._account),
            budget,
            lambda shown: self._progress(self._finding, shown),
        )
        if shown.ratio is None:
            return Proof(self._finding, None, f"no verdict: {shown.doubt}")
        says = f"{removal.does}, in {words.count(shown.pairs, 'pair')} of stretches with and without"
        if removal.bound:
            says += "; no input can be faster than that"
        return Proof(self._finding, of_whole(shown, removal, region, self._account), says)

    # --- by an edit -------------------------------------------------------------------------------------------

    @property
    def _before(self) -> float:
        """Seconds of a run that are no training."""
        return self._account.outside_seconds + ENDING

    @property
    def _once(self) -> float:
        return once(self._account)

    @property
    def _trained(self) -> float:
        return sum(region.wall_seconds for region in self._account.regions)

    def _training(self, budget: float) -> float:
        """Seconds of training that each run may take."""
        return budget / RUNS - self._before

    def _edited(self, edit: Edit, budget: float) -> Proof:
        if not self._bench.affords(budget):
            need = RUNS * (self._before + min(self._trained, self._once + LEAST_TRAINED))
            reason = f"{RUNS} runs with the edit and without take about {words.seconds(need)}: try a larger --budget"
            return Proof(self._finding, None, f"no verdict: {reason}")
        outcome = compare_versions(
            self._bench.folder,
            self._bench.version,
            self._bench.edited([edit]),
            budget,
            lambda text: self._progress(self._finding, Shown(None, 0, text)),
            min(TRAINED, max(self._training(budget), self._once + LEAST_TRAINED)),
        )
        if outcome.speedup is None:
            return Proof(self._finding, None, f"no verdict: {outcome.doubt}")
        verified = outcome.speedup
        if outcome.early:
            verified = gain(verified, self._trained - self._once, self._trained)
        says = f"{edit.does}, in {words.count(outcome.pairs, 'pair')} of runs with the edit and without"
        return Proof(self._finding, verified, says)
