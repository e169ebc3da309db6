"""`fitscope trace`: reads a device trace made here or elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from fitscope.model import SCHEMA
from fitscope.report.timeline import timeline_to_terminal, timeline_value
from fitscope.report.to_terminal import console
from fitscope.trace.read import read
from fitscope.version import __version__


@click.command("trace", short_help="Read a device trace made here or elsewhere.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
def command(file: Path, as_json: bool) -> None:
    """Read a device trace made here or elsewhere: how busy the device was, and what it waited for.

    \b
    fitscope trace host.xplane.pb              TensorFlow, JAX (XSpace)
    fitscope trace trace.pt.trace.json.gz      torch.profiler
    fitscope trace logs/                       the newest trace in a folder

    No backend is needed to read it.
    """
    timeline = read(file)
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA, "fitscope": __version__, **timeline_value(timeline)}, indent=1))
    else:
        timeline_to_terminal(timeline, console(sys.stdout))
