"""`fitscope doctor`: what the machine has, what the backends see, what they reach."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click
from rich.table import Table
from rich.text import Text

from fitscope import machine
from fitscope.doctor.examine import FINE, WRONG, Check, examine
from fitscope.model import SCHEMA
from fitscope.report.bars import WIDTH
from fitscope.report.to_terminal import console
from fitscope.version import __version__

LABEL = 18
STYLES = {FINE: "green", WRONG: "red"}


@click.command("doctor", short_help="Examine the machine.")
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
def command(as_json: bool) -> None:
    """Examine the machine: what it has, what the installed backends see of it, and what they reach.

    Each backend is asked in a process of its own. A GPU that another process uses is left alone. Exit code 1 says
    that something is wrong.
    """
    out = console(sys.stdout)
    checks = []
    for check in examine():
        checks.append(check)
        if not as_json:
            out.print(_row(check))
    wrong = [check for check in checks if check.state == WRONG]
    if as_json:
        value = {
            "schema": SCHEMA,
            "fitscope": __version__,
            "machine": machine.describe(),
            "fine": not wrong,
            "checks": [asdict(check) for check in checks],
        }
        click.echo(json.dumps(value, indent=1))
    else:
        names = ", ".join(check.name for check in wrong)
        out.print(Text(f"Wrong: {names}." if wrong else "Nothing wrong was found.", style="bold"))
    sys.exit(1 if wrong else 0)


def _row(check: Check) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(width=7)
    row.add_column(width=LABEL)
    row.add_column(width=WIDTH - LABEL - 9)
    row.add_row(Text(check.state, style=STYLES.get(check.state, "yellow")), Text(check.name), Text(check.says))
    return row
