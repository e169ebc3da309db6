"""`fitscope fix`: the edits that remove the causes found."""

from __future__ import annotations

import sys
import textwrap
import time
from pathlib import Path

import click

from fitscope import words
from fitscope.cli.run_ import Duration
from fitscope.fix import Applied, Fixes, apply, find_run, findings_of, fixes, write
from fitscope.fixes.kind import Project
from fitscope.model import Advice, Edit, Finding, FitscopeError
from fitscope.verify import Bench, Verified, phrase, verify

WIDTH = 80


@click.command(
    "fix",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Show or make the edits that remove the causes found.",
)
@click.option("--write", "writes", is_flag=True, help="Change the files.")
@click.option("--unsafe", is_flag=True, help="Also edits that may change results or leave out records.")
@click.option("--verify", "verifies", is_flag=True, help="Run the script with the edits and without, side by side.")
@click.option("--budget", type=Duration(), default=600.0, metavar="10m", help="The time that --verify may take.")
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    writes: bool, unsafe: bool, verifies: bool, budget: float, script: Path, arguments: tuple[str, ...]
) -> None:
    """Show the edits that remove the causes found, as a unified diff on stdout; --write makes them.

    \b
    fitscope fix train.py                 # the diff
    fitscope fix train.py | git apply     # is the same as --write

    The findings are those of the last recorded run of the script, if it has not been changed since; without one,
    those that the source alone shows. A safe edit leaves the batches and the losses equal at a fixed seed. Where no
    edit is surely right, the reason and what to change by hand are told on stderr.

    --verify runs the script with its arguments several times, as it is and edited, in copies of the working folder,
    and withdraws edits that do not make it faster or that change the training. What the script does outside of the
    machine, such as requests to a server, it does in every run.
    """
    project = project_of(script, arguments, "fix")
    found = fixes(project, findings_of(project), unsafe=unsafe)
    _tell_source(project, arguments)
    applied = apply(project, [edit for edit in found.edits if edit.safe or unsafe])
    _tell(found, applied, unsafe=unsafe)
    if verifies and applied.edits:
        bench = Bench(project, arguments, budget, lambda text: say(f"verify: {text}"))
        verified = verify(bench, applied.edits, budget)
        _tell_verified(verified)
        applied = apply(project, verified.kept)
    show_diff(applied)
    if not applied.edits:
        sys.exit(1)
    if writes:
        write(applied)
        files = words.count(len(applied.after), "file")
        click.echo(f"fitscope: {words.count(len(applied.edits), 'edit')} made in {files}.", err=True)


def show_diff(applied: Applied) -> None:
    """The changes as a unified diff on stdout, to the byte."""
    sys.stdout.flush()
    sys.stdout.buffer.write(applied.diff())
    sys.stdout.buffer.flush()


def project_of(script: Path, arguments: tuple[str, ...], command: str) -> Project:
    """A script with its last run; a sentence if it is none."""
    if str(script).startswith("-"):
        raise FitscopeError(f"there is no option {script}: `fitscope {command} --help` lists them.")
    if not script.exists():
        raise FitscopeError(f"there is no file {script}.")
    if script.is_dir():
        raise FitscopeError(f"{script} is a folder: name the script in it.")
    if script.suffix == ".ipynb":
        raise FitscopeError("notebooks are not edited: `fitscope lint` says what to change.")
    project = Project(script, find_run(script, arguments))
    project.text(script)
    return project


def _tell_source(project: Project, arguments: tuple[str, ...]) -> None:
    if project.run is not None:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(project.run.started))
        other = " (with other arguments)" if project.run.argv != arguments else ""
        say(f"fitscope: as measured in the run of {when}{other}, {project.run.path}")
    else:
        run = " ".join(["fitscope run", str(project.main), *arguments])
        say(f"fitscope: unmeasured, from the source alone: no run of {project.main} as it is now. `{run}` makes one.")


def _tell(found: Fixes, applied: Applied, *, unsafe: bool) -> None:
    for edit in applied.edits:
        tell_edit(edit)
    for edit, reason in applied.left_out:
        say(place(edit.finding))
        say(f"left out: {reason}", "  ")
    for each in found.advice:
        tell_advice(each)
    withheld = [edit for edit in found.edits if not edit.safe and not unsafe]
    for edit in withheld:
        tell_withheld(edit)
    if not found.findings:
        say("fitscope: nothing to fix: there are no findings.")
    elif not applied.edits:
        say("fitscope: nothing to fix: no edit is surely right.")


def _tell_verified(verified: Verified) -> None:
    for edit, reason in verified.withdrawn:
        say(f"{place(edit.finding)}: withdrawn, {reason}")
    if verified.kept and verified.outcome is not None:
        say(f"fitscope: verified: {phrase(verified.outcome)}; losses and weights: {verified.outcome.same}.")


def tell_edit(edit: Edit) -> None:
    """What an edit does, and what it may change."""
    say(place(edit.finding) + (": unsafe" if edit.unsafe else ""))
    say(edit.does, "  ")
    if edit.unsafe:
        say(f"but: {edit.unsafe}", "  ")


def tell_withheld(edit: Edit) -> None:
    """An edit that is made on demand only."""
    say(f"{place(edit.finding)}: not made without --unsafe")
    say(f"would change: {edit.does}", "  ")
    say(f"but: {edit.unsafe}", "  ")


def tell_advice(advice: Advice) -> None:
    """Why there is no edit, and what a person can do."""
    say(f"{place(advice.finding)}: no edit" + (f", {advice.why}" if advice.why else ""))
    if advice.finding.remedy:
        say(f"by hand: {advice.finding.remedy}", "  ")


def place(finding: Finding) -> str:
    """A cause and its line."""
    where = f" {finding.where.file}:{finding.where.line}" if finding.where is not None else ""
    return f"{finding.name}{where}"


def say(text: str, indent: str = "") -> None:
    """Prints a paragraph on stderr."""
    lines = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent or "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    click.echo("\n".join(lines), err=True)
