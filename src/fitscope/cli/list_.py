"""`fitscope list`: the recorded runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from fitscope import store, words
from fitscope.account import account
from fitscope.report.to_terminal import console


@click.command("list", short_help="List the recorded runs.")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
def command(folder: Path | None) -> None:
    """List the recorded runs of a folder, oldest first."""
    folder = folder or Path(store.FOLDER)
    out = console(sys.stdout)
    table = Table.grid(padding=(0, 2))
    rows = 0
    for path, run in store.runs(folder):
        regions = account(run).regions
        steps = next((region.step_seconds for region in regions if region.step_seconds), None)
        table.add_row(
            time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
            Text(Path(run.script).name),
            run.git or "",
            words.seconds(run.wall_seconds),
            f"{words.seconds(steps.median)}/step" if steps else "no training",
            Text(path.name),
        )
        rows += 1
    if rows:
        out.print(table)
    else:
        click.echo(f"There are no runs in {folder}/: record one with `fitscope run train.py`.")
