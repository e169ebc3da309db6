"""Findings as annotations of a GitHub workflow: they appear beside the lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterable

from fitscope.model import Finding


def to_github(findings: Iterable[Finding]) -> str:
    """One `::warning` command a line."""
    return "\n".join(_annotation(finding) for finding in findings)


def _annotation(finding: Finding) -> str:
    title = f"{finding.code} {finding.name}"
    if finding.where is None:
        return f"::warning title={value(title)}::{data(finding.says)}"
    file, _, cell = finding.where.file.partition(":cell ")
    # A notebook is shown to GitHub as the JSON that it is, where our line numbers mean nothing.
    line = 1 if cell else finding.where.line
    says = f"cell {cell}, line {finding.where.line}: {finding.says}" if cell else finding.says
    return f"::warning file={value(file)},line={line},title={value(title)}::{data(says)}"


def data(text: str) -> str:
    """The message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def value(text: str) -> str:
    """The value of a property of a workflow command."""
    return data(text).replace(":", "%3A").replace(",", "%2C")
