"""`fitscope show`: a recorded run, in the form asked for."""

from __future__ import annotations

from pathlib import Path

import click

from fitscope import store
from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.report.to_json import to_json
from fitscope.report.to_terminal import console, to_terminal


@click.command("show", short_help="Show a recorded run.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
def command(run: Path | None, as_json: bool) -> None:
    """Show a recorded run: the last one if none is named."""
    found = store.read(store.find(run) if run is not None else store.latest())
    if as_json:
        click.echo(to_json(diagnose(found, account(found))))
    else:
        to_terminal(diagnose(found, account(found)), console())
