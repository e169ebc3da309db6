"""`fitscope compare`: what got slower or faster from A to B."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import click

from fitscope import words
from fitscope.baseline import save
from fitscope.compare import LIMIT, SLOWER, UNKNOWN, compare, gate
from fitscope.model import Comparison, FitscopeError
from fitscope.report import comparison as forms
from fitscope.report.to_terminal import console

CODES = {SLOWER: 1, UNKNOWN: 3}


class Percent(click.ParamType[float]):
    """5%, as a share."""

    name = "percent"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """0.05 for 5%."""
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", str(value))
        if match is None or float(match[1]) <= 0:
            self.fail(f"{value!r} is no limit: write 5%.", param, ctx)
        return float(match[1]) / 100


@click.command("compare", short_help="Say what got slower or faster, noise taken into account.")
@click.argument("runs", nargs=-1, metavar="A B")
@click.option("--fail-above", "limit", type=Percent(), metavar="5%", help="Exit code 1 if B is slower by more.")
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
@click.option("--markdown", "as_markdown", is_flag=True, help="As Markdown on stdout.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Also as a page.")
@click.option(
    "--save-baseline",
    "baseline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare nothing: keep the runs named in a small file, to be committed.",
)
def command(
    runs: tuple[str, ...],
    limit: float | None,
    as_json: bool,
    as_markdown: bool,
    html: Path | None,
    baseline: Path | None,
) -> None:
    """Say what got slower or faster from A to B, with the noise taken into account.

    \b
    fitscope compare old.run new.run
    fitscope compare before/ after/ --fail-above 5%
    fitscope compare --save-baseline baseline.json before/
    fitscope compare baseline.json after/

    A and B are each a run, a folder or a quoted pattern of runs, or a baseline. With several runs of each side the
    noise between runs is known; with one it is assumed. --fail-above makes a gate: exit code 0 if B is not slower by
    more than that, 1 if it is slower beyond doubt and by more than that, 3 if these runs cannot say.
    """
    if baseline is not None:
        if not runs:
            raise FitscopeError("say which runs to keep: fitscope compare --save-baseline baseline.json RUN…")
        kept = save(baseline, runs)
        click.echo(f"{words.count(kept, 'run')} kept in {baseline}: commit it, and compare with it.", err=True)
        return
    if len(runs) != 2:
        raise FitscopeError("name two things to compare: fitscope compare old.run new.run (or two folders of runs).")
    found = compare(*runs, limit or LIMIT)
    outcome = (gate(found, limit), limit) if limit is not None else None
    if html is not None:
        _write_page(html, found, outcome)
    if as_json:
        click.echo(forms.to_json(found, outcome[0] if outcome else None))
    elif as_markdown:
        click.echo(forms.to_markdown(found, outcome), nl=False)
    else:
        forms.to_terminal(found, console(), outcome)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        _tell_github(found, outcome, err=as_json or as_markdown)
    if outcome is not None:
        sys.exit(CODES.get(outcome[0], 0))


def _write_page(path: Path, found: Comparison, outcome: tuple[str, float] | None) -> None:
    from fitscope.report.comparison_page import to_html

    try:
        if path.is_file() and path.read_bytes()[:16].startswith((b'{"fitscope_run"', b'{"fitscope_base')):
            raise FitscopeError(f"{path} is a run or a baseline: choose another name for the page.")
        path.write_text(to_html(found, outcome), encoding="utf-8")
    except OSError as error:
        raise FitscopeError(f"cannot write {path}: {error.strerror or error}.") from error
    click.echo(f"fitscope: wrote {path}", err=True)


def _tell_github(found: Comparison, outcome: tuple[str, float] | None, *, err: bool) -> None:
    """An annotation if there is a gate, and the summary of the step."""
    if outcome is not None:
        click.echo(forms.to_github(found, outcome), err=err)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        try:
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(forms.to_markdown(found, outcome))
        except OSError as error:
            click.echo(f"fitscope: the step summary cannot be written: {error.strerror}.", err=True)
