"""`fitscope speedup`: run, prove, fix and verify in one go."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from fitscope import words
from fitscope.cli.fix_ import place, project_of, say, show_diff, tell_advice, tell_edit, tell_withheld
from fitscope.cli.prove_ import Line, tell, without_other_arguments
from fitscope.cli.run_ import Duration
from fitscope.fix import write
from fitscope.prove import Proof, recorded
from fitscope.speedup import speedup
from fitscope.verify import Bench

RECORDING = 0.25
"""The part of the budget that recording a first run may take."""


@click.command(
    "speedup",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run, prove, fix and verify; ends with one diff.",
)
@click.option("--budget", type=Duration(), default=600.0, metavar="10m", help="The time that all of it may take.")
@click.option("--write", "writes", is_flag=True, help="Change the files.")
@click.option("--unsafe", is_flag=True, help="Also edits that may change results or leave out records.")
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(budget: float, writes: bool, unsafe: bool, script: Path, arguments: tuple[str, ...]) -> None:
    """Find what makes a training slow, change it, and keep what makes it faster and leaves the training the same.

    \b
    fitscope speedup train.py                 # the diff, and what it is worth
    fitscope speedup --write train.py         # the same, and the files are changed

    The last recorded run of the script is taken, if the script has not been changed since; without one, a run is
    recorded first. Causes are put to the proof (`fitscope prove`), the safe edits are made (`fitscope fix`), and the
    script runs with them and without, in turns, in copies of the working folder (`fitscope fix --verify`). What is
    left over is looked for in the edited script, once more. The diff of what holds goes to stdout.

    Edits that may change results are made with --unsafe only. Without it, they are named and, if there is time, it is
    measured what they would gain.
    """
    deadline = time.monotonic() + budget
    project = without_other_arguments(project_of(script, arguments, "speedup"), arguments)

    def progress(text: str) -> None:
        say(f"speedup: {text}")

    bench = Bench(project, arguments, budget, progress)
    report = recorded(bench, RECORDING * budget)
    found = ", ".join(dict.fromkeys(finding.name for finding in report.findings)) or "nothing"
    progress(f"found: {found}")
    for doubt in report.doubts:
        progress(doubt.removesuffix("."))
    left = deadline - time.monotonic()
    line = Line()

    def told(proof: Proof) -> None:
        line.clear()
        tell(proof)

    result = speedup(bench, report, left, told, line.draw, unsafe=unsafe)
    for edit in result.applied.edits:
        tell_edit(edit)
    for edit, reason in result.verified.withdrawn:
        say(f"{place(edit.finding)}: withdrawn, {reason}")
    for edit in result.withheld:
        tell_withheld(edit)
    for advice in result.advice:
        tell_advice(advice)
    show_diff(result.applied)
    if writes and result.applied.edits:
        write(result.applied)
        progress(f"{words.count(len(result.applied.after), 'file')} changed")
    say(f"fitscope: {result.sentence}.")
    if result.with_them is not None:
        say(f"next: fitscope fix --unsafe {' '.join([str(script), *arguments])}")
    if not result.applied.edits:
        sys.exit(1)
