"""A comparison in the forms that people and programs read: terminal, Markdown, JSON, GitHub annotation."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fitscope import words
from fitscope.model import SCHEMA, Change, Comparison, RegionChange, Side
from fitscope.report.to_github import data, value
from fitscope.report.to_markdown import escaped
from fitscope.version import __version__

COLORS = {"slower": "red", "faster": "green"}
MOST_PARTS = 10


def to_json(comparison: Comparison, gate: str | None = None) -> str:
    """All of it; `gate` is what the limit made of it, if there was one."""
    return json.dumps(comparison_value(comparison, gate), indent=1)


def comparison_value(comparison: Comparison, gate: str | None = None) -> dict[str, Any]:
    """All of it as a value."""
    value = {"schema": SCHEMA, "fitscope": __version__, "gate": gate, **asdict(comparison)}
    return {**value, "regions": [_region(region) for region in comparison.regions]}


def _region(region: RegionChange) -> dict[str, Any]:
    parts = [{**asdict(part), "change": _change(part.change)} for part in region.parts]
    return {**asdict(region), "per_step": _change(region.per_step), "parts": parts}


def _change(change: Change) -> dict[str, Any]:
    return {**asdict(change), "difference": change.difference}


def to_terminal(comparison: Comparison, out: Console, gate: tuple[str, float] | None = None) -> None:
    """Prints it, the verdict first."""
    out.print(Text("fitscope compare  ", style="bold").append(Path(comparison.b.script).name, style="not bold"))
    out.print()
    out.print(Text(verdict(comparison), style=f"bold {COLORS.get(comparison.verdict, '')}".strip()))
    for line in below(comparison, gate):
        out.print(Text(line))
    for region in comparison.regions:
        out.print()
        out.print(Text(region.call, style="bold").append(f"  {words.place(region.where)}", style="not bold"))
        out.print(_table(region))
    out.print()
    out.print(_sides(comparison))
    for line in comparison.differences:
        out.print(Text(f"different  {line}", style="yellow"))


def to_markdown(comparison: Comparison, gate: tuple[str, float] | None = None) -> str:
    """For a pull request, an issue, or the summary of a GitHub step."""
    lines = [f"### fitscope compare: {escaped(Path(comparison.b.script).name)}", "", f"**{verdict(comparison)}**"]
    lines += ["", *(escaped(line) + "  " for line in below(comparison, gate))]
    for region in comparison.regions:
        lines += ["", f"`{region.call}` {escaped(words.place(region.where))}".rstrip(), ""]
        lines += ["| | A | B | difference | seen |", "|---|--:|--:|--:|---|"]
        for cells in _rows(region):
            lines.append("| " + " | ".join(escaped(cell) for cell in cells) + " |")
    lines += ["", "| | runs | commit | recorded | script took |", "|---|--:|---|---|--:|"]
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        name, runs, commit, when, took = _side(side)
        lines.append(
            "| " + " | ".join(escaped(cell) for cell in (f"{letter} {name}", runs, commit, when, took)) + " |"
        )
    if comparison.differences:
        lines += ["", "Different:", "", *(f"- {escaped(line)}" for line in comparison.differences)]
    return "\n".join(lines) + "\n"


def verdict(comparison: Comparison) -> str:
    """The one sentence."""
    if comparison.times is None or comparison.low is None or comparison.high is None:
        why = comparison.doubts[-1] if comparison.doubts else "Too little was recorded."
        return f"Cannot say: {why[0].lower()}{why[1:]}"
    more = _percent(comparison.times)
    low, high = comparison.low, comparison.high
    if comparison.verdict == "no difference seen":
        possible = f"anything from {_percent(low)} to {_percent(high)} is possible"
        return f"No difference seen: {more} time per step; {possible}."
    if comparison.verdict == "cannot say":
        return f"Cannot say: at its calmest B takes {more} time per step, but its steps are uneven."
    ends = sorted((abs(low - 1), abs(high - 1)))
    side = "more" if low > 1 else "less"
    between = f"between {words.share(ends[0])} and {words.share(ends[1])} {side}"
    return f"B is {comparison.verdict}: {more} time per step, {between}."


def gate_sentence(comparison: Comparison, gate: tuple[str, float]) -> str:
    """What the limit made of it."""
    outcome, limit = gate
    allowed = f"more than {words.share(limit)} slower"
    if outcome == "slower":
        return f"Fails: {allowed}."
    if outcome == "no difference seen":
        return f"Passes: not {allowed}."
    if not comparison.same_machine:
        return f"Cannot say whether it is {allowed}: A and B ran on different machines."
    return f"Cannot say whether it is {allowed}."


def to_github(comparison: Comparison, gate: tuple[str, float]) -> str:
    """One annotation for the gate: an error if it fails, a warning if nobody can say, else a notice."""
    level = {"slower": "error", "cannot say": "warning"}.get(gate[0], "notice")
    where = next((region.where for region in comparison.regions if region.where is not None), None)
    place = f"file={value(where.file)},line={where.line}," if where and not Path(where.file).is_absolute() else ""
    text = f"{verdict(comparison)} {gate_sentence(comparison, gate)}"
    return f"::{level} {place}title=fitscope compare::{data(text)}"


def below(comparison: Comparison, gate: tuple[str, float] | None) -> Iterator[str]:
    """What has to be known with the verdict."""
    if gate is not None:
        yield gate_sentence(comparison, gate)
    if comparison.spread is not None:
        spread = words.share(comparison.spread)
        runs = f"{comparison.a.runs} and {words.count(comparison.b.runs, 'run')}"
        if comparison.spread_seen:
            yield f"Runs of this script differ by {spread} (one standard deviation; {runs})."
        else:
            yield f"One run of each, compared at their calmest: such runs are taken to differ by {spread}."
    if comparison.repeat is not None:
        yield f"To see more, record each side several times: fitscope run --repeat {comparison.repeat} -o FOLDER …"
    said = comparison.doubts if comparison.times is not None else comparison.doubts[:-1]
    yield from said


def _table(region: RegionChange) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()  # the only one that may become narrower
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_row("", Text("A", style="dim"), Text("B", style="dim"), "", "")
    for label, before, after, difference, said in _rows(region):
        style = COLORS.get(said, "dim" if said else "")
        table.add_row(
            Text(label, no_wrap=True, overflow="ellipsis"), before, after, difference, Text(said, style=style)
        )
    return table


def _rows(region: RegionChange) -> Iterator[tuple[str, str, str, str, str]]:
    """Per step, what that is made of, and what happens once."""
    yield ("per step", *_cells(region.per_step))
    steps = [part for part in region.parts if part.per == "step"]
    for part in steps[:MOST_PARTS]:
        yield (f"  {label(part.phase, part.name)}", *_cells(part.change))
    if len(steps) > MOST_PARTS:
        yield (f"  and {words.count(len(steps) - MOST_PARTS, 'smaller change')}", "", "", "", "")
    for part in region.parts:
        if part.per == "run":
            yield (f"{label(part.phase, part.name)}, once", *_cells(part.change))
    if region.steps[0] != region.steps[1]:
        yield ("steps", f"{region.steps[0]:,}", f"{region.steps[1]:,}", "", "")


def _cells(change: Change) -> tuple[str, str, str, str]:
    before, after, difference = words.seconds(change.before), words.seconds(change.after), change.difference
    return before, after, words.difference(difference), seen(change.verdict)


def seen(verdict: str) -> str:
    """A verdict in a cell of a table."""
    return verdict.removesuffix(" seen")


def label(phase: str, name: str) -> str:
    """A part in words."""
    return f"{phase}: {name}" if name not in ("", phase) else phase


def _sides(comparison: Comparison) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=30)
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        table.add_row(letter, *(Text(cell, style="dim") for cell in _side(side)))
    return table


def _side(side: Side) -> tuple[str, str, str, str, str]:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(side.started))
    commit = side.commits[-1] if side.commits else ""
    return side.name, words.count(side.runs, "run"), commit, when, words.seconds(side.wall_seconds)


def _percent(times: float) -> str:
    """10 % more, 4.2 % less."""
    return f"{words.share(abs(times - 1))} {'more' if times >= 1 else 'less'}"
