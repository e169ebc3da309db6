"""`fitscope prove`: findings put to the proof, on the user's own training."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from fitscope import words
from fitscope.alternate import Shown
from fitscope.cli.fix_ import project_of, say
from fitscope.cli.run_ import Duration
from fitscope.fixes.kind import Project
from fitscope.model import Finding, FitscopeError
from fitscope.prove import Proof, choose, prove, recorded
from fitscope.rules import find
from fitscope.verify import Bench

RECORDING = 1 / 3
"""The part of the budget that recording a first run may take."""


@click.command(
    "prove",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Show by experiment what each finding costs.",
)
@click.option("--cause", "causes", multiple=True, metavar="NAME", help="Only this cause; may be given several times.")
@click.option("--budget", type=Duration(), default=120.0, metavar="2m", help="The time that all of it may take.")
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(causes: tuple[str, ...], budget: float, script: Path, arguments: tuple[str, ...]) -> None:
    """Show by experiment what each finding costs: the training without its cause, next to the training as it is.

    \b
    fitscope prove train.py
    fitscope prove --cause blocking-callback --budget 30s train.py --epochs 3

    The findings are those of the last recorded run of the script, if it has not been changed since; without one, a
    run is recorded first. Where a cause can be taken away while the training runs (a callback's hooks, the
    validation, the input, a setting of compile), one process trains with it and without it by turns; otherwise the
    script and the edited script of `fitscope fix` run in turns. All runs are made in copies of the working folder.
    What was shown is kept with the run: `fitscope show` has it beside the estimate.

    What the script does outside of the machine, such as requests to a server, it does in every run.
    """
    project = without_other_arguments(project_of(script, arguments, "prove"), arguments)
    for cause in causes:
        if find(cause) is None:
            raise FitscopeError(f"there is no cause {cause}: `fitscope explain` lists them.")
    names = [rule.name for cause in causes if (rule := find(cause)) is not None]
    deadline = time.monotonic() + budget

    def progress(text: str) -> None:
        say(f"prove: {text}")

    bench = Bench(project, arguments, budget, progress)
    report = recorded(bench, RECORDING * budget)
    findings = choose(report, names)
    if not findings:
        say("fitscope: nothing to prove: there are no findings that promise a speedup.")
        return
    line = Line()
    left = deadline - time.monotonic()
    for proof in prove(bench, report, findings, left, line.draw):
        line.clear()
        tell(proof)
    command_line = " ".join([str(script), *arguments])
    say(f"next: fitscope fix --verify {command_line}")


def without_other_arguments(project: Project, arguments: tuple[str, ...]) -> Project:
    """A run with other arguments is another training: nothing that it shows need hold for this one."""
    if project.run is not None and project.run.argv != arguments:
        project.run = None
    return project


def tell(proof: Proof) -> None:
    """What an experiment says, in a few lines."""
    finding = proof.finding
    where = f" {finding.where.file}:{finding.where.line}" if finding.where is not None else ""
    say(f"{finding.name}{where}")
    if finding.estimated is not None:
        say(f"estimated: {words.speedup(finding.estimated)}", "  ")
    if proof.verified is not None:
        say(f"{'verified: ' * proof.confirmed}{words.verified(proof.verified)}", "  ")
    say(proof.says, "  ")


class Line:
    """How far an experiment is, in the last line of a terminal; silent anywhere else."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def draw(self, finding: Finding, shown: Shown) -> None:
        """Draws it anew."""
        if self._shown:
            so_far = f": {words.verified(shown.ratio)} so far" if shown.ratio is not None else ""
            text = shown.doubt if not shown.pairs and shown.doubt else f"{words.count(shown.pairs, 'pair')}{so_far}"
            click.echo(f"\r\x1b[2Kprove: {finding.name}: {text}"[:110], nl=False, err=True)

    def clear(self) -> None:
        """Takes it away."""
        if self._shown:
            click.echo("\r\x1b[2K", nl=False, err=True)
