"""`fitscope list`: the recorded runs, script by script."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fitscope import store, words
from fitscope.baseline import digest
from fitscope.model import FitscopeError
from fitscope.report.to_terminal import console

SPARKS = "▁▂▃▄▅▆▇█"
MOST_SPARKS = 40
LEAST_RANGE = 1.25
"""A sparkline reaches from its lowest value to so many times that at least: noise should not look like a mountain."""


class _Row(NamedTuple):
    """One run."""

    file: str
    started: float
    commit: str
    wall_seconds: float
    per_step: float | None


@click.command("list", short_help="List the recorded runs.")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--keep", type=click.IntRange(min=1), metavar="N", help="First remove all but the newest N runs of each script."
)
def command(folder: Path | None, keep: int | None) -> None:
    """List the recorded runs of a folder by script, oldest first, with the time per step over time.

    `keep = 50` in [tool.fitscope] of pyproject.toml removes older runs after each `fitscope run`. Only files are
    removed that have the names which fitscope gives, as train-20261117-021133.run; one that you named with -o stays.
    """
    if folder is not None and not folder.is_dir():
        raise FitscopeError(f"{folder} is no folder: name the one that the runs are in.")
    folder = folder or Path(store.FOLDER)
    if keep is not None:
        removed = store.prune(folder, keep)
        click.echo(f"{words.count(removed, 'run')} removed from {folder}/.", err=True)
    scripts: dict[str, list[_Row]] = {}
    for path in store.files(folder):
        try:
            run = store.read(path)
        except FitscopeError as error:
            click.echo(f"fitscope: {error}", err=True)
            continue
        trained = max(digest(run).regions, key=lambda each: each.seconds, default=None)
        row = _Row(path.name, run.started, run.git or "", run.wall_seconds, trained.per_step if trained else None)
        scripts.setdefault(Path(run.script).name, []).append(row)
    if not scripts:
        click.echo(f"There are no runs in {folder}/: record one with `fitscope run train.py`.")
    out = console(sys.stdout)
    for number, (script, rows) in enumerate(scripts.items()):
        if number:
            out.print()
        _print(script, sorted(rows, key=lambda row: row.started), out)


def sparkline(values: list[float]) -> str:
    """One character for each value, the latest last."""
    shown = values[-MOST_SPARKS:]
    low = min(shown)
    height = max(max(shown), LEAST_RANGE * low) - low
    return "".join(SPARKS[min(7, int(8 * (value - low) / height))] if height else SPARKS[0] for value in shown)


def _print(script: str, rows: list[_Row], out: Console) -> None:
    steps = [row.per_step for row in rows if row.per_step is not None]
    title = Text(script, style="bold").append(f"  {words.count(len(rows), 'run')}", style="not bold")
    if len(steps) > 1:
        title.append(f"  {sparkline(steps)}  ", style="not bold cyan")
        title.append(f"{words.seconds(min(steps))} to {words.seconds(max(steps))} per step", style="not bold")
    out.print(title)
    table = Table.grid(padding=(0, 2))
    for _ in range(2):
        table.add_column(no_wrap=True)
    for _ in range(2):
        table.add_column(no_wrap=True, justify="right")
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(
            time.strftime("%Y-%m-%d %H:%M", time.localtime(row.started)),
            row.commit,
            words.seconds(row.wall_seconds),
            f"{words.seconds(row.per_step)}/step" if row.per_step is not None else "no training",
            Text(row.file),
        )
    out.print(table)
