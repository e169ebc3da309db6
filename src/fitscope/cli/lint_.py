"""`fitscope lint`: causes that the source alone shows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from fitscope import words
from fitscope.lint import Linted, Selection, lint
from fitscope.manual import page
from fitscope.model import SCHEMA
from fitscope.report.to_github import to_github
from fitscope.report.to_json import finding_value
from fitscope.report.to_sarif import to_sarif
from fitscope.rules import CATALOG
from fitscope.version import __version__


@click.command("lint", short_help="Find causes that the source alone shows.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATHS...")
@click.option("--format", "form", type=click.Choice(["text", "json", "github", "sarif"]), default="text")
@click.option("--select", multiple=True, metavar="NAME,…", help="Look only for these causes, codes or families.")
@click.option("--ignore", multiple=True, metavar="NAME,…", help="Do not look for these.")
def command(paths: tuple[Path, ...], form: str, select: tuple[str, ...], ignore: tuple[str, ...]) -> None:
    """Find causes that the source alone shows, in scripts, notebooks and folders of them.

    \b
    fitscope lint train.py
    fitscope lint . --format github --ignore eager-execution

    Nothing is run and nothing is measured: `fitscope run` shows what a finding costs. Exit code 1 says that there
    are findings. A comment `# fitscope: allow NAME` silences one; [tool.fitscope] in pyproject.toml takes
    `select` and `ignore`.
    """
    linted = lint(paths, Selection(_names(select), _names(ignore)))
    for problem in linted.problems:
        click.echo(f"fitscope: {problem}", err=True)
    text = _written(linted, form)
    if text:
        click.echo(text)
    if form == "text" and linted.files and not linted.findings:
        click.echo(f"fitscope: nothing found in {words.count(linted.files, 'file')}.", err=True)
    sys.exit(2 if not linted.files else 1 if linted.findings else 0)


def _names(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for item in given for name in item.split(",") if name.strip())


def _written(linted: Linted, form: str) -> str:
    if form == "json":
        value = {
            "schema": SCHEMA,
            "fitscope": __version__,
            "files": linted.files,
            "problems": list(linted.problems),
            "findings": [finding_value(finding) for finding in linted.findings],
        }
        return json.dumps(value, indent=1)
    if form == "github":
        return to_github(linted.findings)
    if form == "sarif":
        return to_sarif(linted.findings, {rule.code: page(rule).title for rule in CATALOG})
    return "\n".join(
        f"{each.where.file}:{each.where.line}: {each.code} {each.name}: {each.says}"
        for each in linted.findings
        if each.where is not None
    )
