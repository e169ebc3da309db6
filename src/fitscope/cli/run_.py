"""`fitscope run`: record an unmodified script."""

from __future__ import annotations

import importlib.machinery
import re
import sys
from pathlib import Path

import click

from fitscope import store
from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.live import Line, possible
from fitscope.model import FitscopeError
from fitscope.report.to_terminal import console, to_terminal
from fitscope.settings import settings
from fitscope.supervise import Finished, is_begun, pass_on, supervise


class Duration(click.ParamType[float]):
    """60s, 2m, 1.5h, or plain seconds."""

    name = "duration"
    UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|)\s*", str(value))
        if match is None or float(match[1]) <= 0:
            self.fail(f"{value!r} is no duration: write 60s, 2m or 1h.", param, ctx)
        return float(match[1]) * self.UNITS[match[2]]


@click.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Record an unmodified script.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to keep the run.")
@click.option("--for", "seconds", type=Duration(), metavar="60s", help="End the script after this much training.")
@click.option(
    "--repeat", type=click.IntRange(min=2), metavar="N", help="Run it N times, into the folder -o, to compare."
)
@click.option("--live", is_flag=True, help="Show in one line where the time goes, while the script runs.")
@click.option("--trace", is_flag=True, help="Capture a short window with the backend's own profiler.")
@click.option("-m", "module", metavar="MODULE", help="Run a module, as python -m does.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context,
    output: Path | None,
    seconds: float | None,
    repeat: int | None,
    live: bool,
    trace: bool,
    module: str | None,
    command_line: tuple[str, ...],
) -> None:
    """Record an unmodified script and say where its training time went.

    \b
    fitscope run train.py --epochs 3
    fitscope run -m package.train --epochs 3
    fitscope run -- python train.py --epochs 3

    The report goes to stderr; stdout, exit code and signals stay the script's own. With --live, or `live = true` in
    [tool.fitscope] of pyproject.toml, the last row of the terminal shows where the last seconds went.
    """
    words = python_command(module, list(command_line), foreign=_after_dashes(ctx))
    scripts = [word for word in command_line if word.endswith(".py")] or [*command_line, "run"]
    path = output or store.new_path(module or Path(scripts[0]).stem)
    wanted = settings(Path.cwd())
    live = live or wanted.live
    if repeat is not None:
        if trace:
            raise FitscopeError("runs that are traced are no measure: leave out --trace or --repeat.")
        pass_on(_repeat(words, output, repeat, seconds, live=live))
    finished = supervise(words, path, seconds=seconds, line=_line(live), trace=trace)
    show_finished(finished)
    if wanted.keep is not None and output is None:
        store.prune(path.parent, wanted.keep)
    pass_on(finished)


def _line(live: bool) -> Line | None:
    """The line below the progress bar, if it is wanted and there is a terminal to draw it on."""
    return Line(sys.stderr.fileno()) if live and possible(sys.stderr.fileno()) else None


def _repeat(words: list[str], folder: Path | None, times: int, seconds: float | None, *, live: bool) -> Finished:
    """Records a command several times; the first that fails is the last."""
    if folder is None:
        raise FitscopeError("say where to keep the runs: fitscope run --repeat 5 -o before train.py")
    if folder.exists() and not folder.is_dir():
        raise FitscopeError(f"{folder} is no folder: choose another name for the runs.")
    first = 1 + len(list(folder.glob("*.run")))
    for number in range(first, first + times):
        finished = supervise(words, folder / f"{number}.run", seconds=seconds, line=_line(live))
        click.echo(f"fitscope: recorded {finished.path}", err=True)
        if finished.exit_code:
            break
    click.echo(f"next: fitscope compare {folder} OTHER", err=True)
    return finished


def show_finished(finished: Finished) -> None:
    """Prints the report of a run that has just ended."""
    out = console()
    if finished.problem:
        click.echo(f"fitscope: {finished.problem}", err=True)
    if not is_begun(finished.path):
        click.echo(
            "fitscope: no training was seen: it was ended before one began, or no Python that fitscope could watch "
            "has run.",
            err=True,
        )
        return
    try:
        run = store.read(finished.path)
        out.print()
        to_terminal(diagnose(run, account(run)), out)
    except FitscopeError as error:
        click.echo(f"fitscope: {error}", err=True)


def python_command(module: str | None, arguments: list[str], *, foreign: bool) -> list[str]:
    """What to start, after a look whether it is there at all."""
    if module is not None:
        top = module.split(".")[0]
        if importlib.machinery.PathFinder.find_spec(top, ["", *sys.path]) is None:
            raise FitscopeError(f"there is no module {top} here.")
        return [sys.executable, "-m", module, *arguments]
    if not arguments:
        raise FitscopeError("say which script to run: fitscope run train.py")
    if foreign:
        return arguments
    if arguments[0].startswith("-"):
        raise FitscopeError(f"there is no option {arguments[0]}: `fitscope run --help` lists them.")
    script = Path(arguments[0])
    if not script.exists():
        raise FitscopeError(f"there is no file {script}.")
    if script.is_dir() and not (script / "__main__.py").exists():
        raise FitscopeError(f"{script} is a folder: name the script in it.")
    return [sys.executable, *arguments]


def _after_dashes(ctx: click.Context) -> bool:
    """Whether the command line came behind `--`: then it is a command, not a script."""
    words = sys.argv[1:]
    if "--" not in words:
        return False
    before = words[: words.index("--")]
    options_only = [word for word in before if word != "run"]
    skip = False
    for word in options_only:
        if skip:
            skip = False
        elif word in ("-o", "--output", "--for", "--repeat"):
            skip = True
        elif not word.startswith("-"):
            return False
    return "-m" not in before
