"""`fitscope layers`: what each layer costs in the real step."""

from __future__ import annotations

import json
from pathlib import Path

import click

from fitscope import store
from fitscope.cli.run_ import Duration
from fitscope.layers import measure
from fitscope.model import SCHEMA, FitscopeError
from fitscope.report.layers import layers_to_terminal, layers_value
from fitscope.report.to_terminal import console
from fitscope.version import __version__


@click.command(
    "layers",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Say what each layer costs in the real step.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
@click.option("--budget", type=Duration(), default=30.0, metavar="30s", help="The time that measuring may take.")
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(as_json: bool, budget: float, script: Path, arguments: tuple[str, ...]) -> None:
    """Say what each layer costs in the real, compiled step of a script's first training.

    \b
    fitscope layers train.py --epochs 3

    The script runs in a copy of the working folder up to its first training step. That step is run again and again
    on its first batch, by the clock and on the backend's own profiler; then the script is ended. What the layers take
    forward, backward and for the update of their weights, loss, metrics and the rest add up to the step.

    The result is kept, and `fitscope show` of a run of the same script shows it.
    """
    if str(script).startswith("-"):
        raise FitscopeError(f"there is no option {script}: `fitscope layers --help` lists them.")
    if not script.is_file():
        raise FitscopeError(f"{script} is a folder: name the script in it." if script.is_dir() else _missing(script))
    account = measure(script, arguments, budget, lambda text: click.echo(f"fitscope: {text}", err=True))
    path = store.keep_layers(account)
    if as_json:
        value = {"schema": SCHEMA, "fitscope": __version__, **layers_value(account)}
        click.echo(json.dumps(value, indent=1))
    else:
        out = console()
        out.print()
        layers_to_terminal(account, out)
    if path is not None:
        click.echo(f"fitscope: kept in {path}", err=True)


def _missing(script: Path) -> str:
    return f"there is no file {script}."
