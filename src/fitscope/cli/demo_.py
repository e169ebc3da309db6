"""`fitscope demo`: record a bundled slow example."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import click

from fitscope import examples, store
from fitscope.cli.run_ import show_finished
from fitscope.model import FitscopeError
from fitscope.supervise import pass_on, supervise


@click.command("demo", short_help="Record a bundled slow example.")
def command() -> None:
    """Record a bundled slow example, with the Keras backend that is installed."""
    if find_spec("keras") is None or not any(map(find_spec, ("tensorflow", "jax", "torch"))):
        raise FitscopeError("the example needs Keras and a backend: pip install 'fitscope[tensorflow]'.")
    script = Path(examples.__file__).parent / "slow_training.py"
    click.echo(f"$ fitscope run {script}", err=True)
    finished = supervise([sys.executable, str(script)], store.new_path("demo"))
    show_finished(finished)
    pass_on(finished)
