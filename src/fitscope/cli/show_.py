"""`fitscope show`: a recorded run, in the form asked for."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from pathlib import Path

import click

from fitscope import store
from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.model import FitscopeError
from fitscope.patches import with_patches
from fitscope.report.to_json import to_json
from fitscope.report.to_terminal import console, to_terminal

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("show", short_help="Show a recorded run.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
@click.option("--html", type=FILE, help="As a page, one file that needs no network.")
@click.option("--open", "open_it", is_flag=True, help="As a page, in the browser.")
@click.option(
    "--markdown", "as_markdown", is_flag=True, help="As Markdown on stdout, for a pull request or an issue."
)
@click.option("--perfetto", type=FILE, help="As a trace for ui.perfetto.dev; compressed if the name ends in .gz.")
@click.option("--tensorboard", type=click.Path(path_type=Path, file_okay=False), help="As scalars in a log folder.")
def command(
    run: Path | None,
    as_json: bool,
    html: Path | None,
    open_it: bool,
    as_markdown: bool,
    perfetto: Path | None,
    tensorboard: Path | None,
) -> None:
    """Show a recorded run: the last one if none is named."""
    if as_json and as_markdown:
        raise FitscopeError("--json and --markdown both go to stdout: ask for one of them.")
    found = store.read(store.find(run) if run is not None else store.latest())
    report = diagnose(found, account(found))
    if html is not None or open_it or as_markdown or as_json:
        report = with_patches(report)
    if html is not None or open_it:
        from fitscope.report.to_html import write as write_page

        html = html or Path(found.path).with_suffix(store.PAGE_ENDING)
        _write(html, lambda path: write_page(report, path))
    if perfetto is not None:
        from fitscope.report.to_perfetto import write as write_trace

        _write(perfetto, lambda path: write_trace(report, path))
    if tensorboard is not None:
        from fitscope.report.to_tensorboard import write as write_scalars

        _write(tensorboard, lambda path: write_scalars(report, path))
    if open_it and html is not None and not webbrowser.open(html.resolve().as_uri()):
        click.echo(f"fitscope: no browser was found here: open {html} yourself.", err=True)
    if as_json:
        click.echo(to_json(report))
    elif as_markdown:
        from fitscope.report.to_markdown import to_markdown

        click.echo(to_markdown(report), nl=False)
    elif html is None and perfetto is None and tensorboard is None:
        to_terminal(report, console())


def _write(path: Path, write: Callable[[Path], object]) -> None:
    try:
        write(path)
    except OSError as error:
        raise FitscopeError(f"cannot write {path}: {error.strerror or error}.") from error
    click.echo(f"fitscope: wrote {path}", err=True)
