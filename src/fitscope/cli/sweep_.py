"""`fitscope sweep`: throughput, step time and memory over a setting."""

from __future__ import annotations

from pathlib import Path

import click

from fitscope.cli.run_ import Duration
from fitscope.model import FitscopeError
from fitscope.report.sweep import to_json, to_terminal
from fitscope.report.to_terminal import console
from fitscope.sweep.grid import axes
from fitscope.sweep.sweep import sweep


@click.command(
    "sweep",
    context_settings={"ignore_unknown_options": True},
    short_help="Measure throughput and memory over a setting.",
)
@click.option("--batch-size", metavar="16,32,…", help="Batch sizes.")
@click.option("--steps-per-execution", metavar="1,8,…", help="Steps that Keras runs in one go.")
@click.option("--jit-compile", metavar="on,off", help="Compilation by XLA or torch.compile.")
@click.option("--precision", metavar="float32,…", help="float32, mixed_bfloat16, mixed_float16.")
@click.option("--backend", metavar="tensorflow,…", help="tensorflow, jax, torch.")
@click.option("--values", metavar="A,B,…", help="Values for the place {} in the script's own arguments.")
@click.option("--budget", type=Duration(), default=300.0, metavar="5m", help="The time that all runs may take.")
@click.option("--again", is_flag=True, help="Measure again what was measured before.")
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    batch_size: str | None,
    steps_per_execution: str | None,
    jit_compile: str | None,
    precision: str | None,
    backend: str | None,
    values: str | None,
    budget: float,
    again: bool,
    as_json: bool,
    script: Path,
    arguments: tuple[str, ...],
) -> None:
    """Measure throughput, step time and memory of a training over a setting, and mark where the curve bends.

    \b
    fitscope sweep train.py --batch-size 16,32,64,128,256
    fitscope sweep train.py --jit-compile on,off --precision float32,mixed_bfloat16
    fitscope sweep train.py --backend tensorflow,jax,torch --epochs 3
    fitscope sweep train.py --values 16,32,64 -- --batch {}

    Each point is some short runs of the unmodified script with its arguments, in copies of the working folder, with
    the setting changed inside; several settings make a grid. The points take turns. What does not fit in memory is a
    point, too. Behind -- everything is the script's; --values puts a value in the place of {} there, which is the way
    for loops written by hand and for whatever else the script has an argument for.

    Results are kept in .fitscope/: the same sweep goes on where the last one ended, as long as script, arguments,
    machine and versions are the same. What the script does outside of the machine, such as requests to a server, it
    does in every run.
    """
    given = {
        "value": values,
        "batch_size": batch_size,
        "steps_per_execution": steps_per_execution,
        "jit_compile": jit_compile,
        "precision": precision,
        "backend": backend,
    }
    _check(script)
    found = sweep(
        script,
        arguments,
        axes(given, arguments),
        budget,
        lambda text: click.echo(f"fitscope sweep: {text}", err=True),
        again=again,
    )
    out = console()
    out.print()
    to_terminal(found, out)
    if as_json:
        click.echo(to_json(found))


def _check(script: Path) -> None:
    if str(script).startswith("-"):
        raise FitscopeError(f"there is no option {script}: `fitscope sweep --help` lists them.")
    if not script.exists():
        raise FitscopeError(f"there is no file {script}.")
    if script.is_dir():
        raise FitscopeError(f"{script} is a folder: name the script in it.")
