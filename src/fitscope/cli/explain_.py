"""`fitscope explain`: the manual page of one cause."""

from __future__ import annotations

import difflib

import click

from fitscope.manual import page
from fitscope.model import FitscopeError
from fitscope.rules import CATALOG, find


@click.command("explain", short_help="Explain a cause: what it is, how it is seen, what to change.")
@click.argument("cause", required=False)
def command(cause: str | None) -> None:
    """Explain a cause, by its name or its code; without one, list them all."""
    if cause is None:
        for each in CATALOG:
            click.echo(f"{each.code}  {each.name:26s} {page(each).title}")
        return
    rule = find(cause)
    if rule is None:
        close = difflib.get_close_matches(cause.lower(), [each.name for each in CATALOG], n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise FitscopeError(f"there is no cause {cause!r}.{hint} `fitscope explain` lists them all.")
    click.echo(page(rule).text)
