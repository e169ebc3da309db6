"""The report on one screen of a terminal, 80 columns wide; plain text where there is no terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from fitscope import words
from fitscope.model import Finding, Part, Region, Report, Run
from fitscope.report import bars, phrases
from fitscope.report.bars import WIDTH
from fitscope.report.layers import layers_in_brief
from fitscope.report.timeline import timeline_in_brief

MOST_PARTS = 12
SMALL = 0.005
COLORS = {
    "data": "yellow",
    "transfer": "yellow",
    "step": "green",
    "compile": "magenta",
    "callback": "red",
    "logs": "blue",
    "progress": "blue",
    "validation": "cyan",
    "checkpoint": "red",
    "epoch": "blue",
    "gc": "magenta",
    "setup": "blue",
    "unexplained": "white",
}


class _Console(Console):
    """A console whose terminal obeys no name."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """What is to be printed, harmless."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else words.harmless(text), style, control)


def console(stream: TextIO | None = None) -> Console:
    """A console on stderr that is colored only on a terminal, and 80 columns wide anywhere else."""
    stream = stream or sys.stderr
    plain = bool(os.environ.get("NO_COLOR")) or not stream.isatty()
    return _Console(
        file=stream,
        width=None if stream.isatty() else WIDTH,
        no_color=plain,
        color_system=None if plain else "auto",
        highlight=False,
        force_jupyter=False,
        soft_wrap=False,
    )


def to_terminal(report: Report, out: Console) -> None:
    """Prints the report."""
    run, account = report.run, report.account
    out.print(_headline(run))
    for note in account.notes:
        out.print(Text(note, style="yellow"))
    if not account.regions:
        out.print(Text(phrases.nothing(account)))
    shown = account.regions[:MOST_REGIONS]
    for region in shown:
        out.print()
        _region(region, out, alone=len(account.regions) == 1)
    if len(account.regions) > len(shown):
        rest = account.regions[len(shown) :]
        out.print()
        out.print(
            Text(
                f"and {words.count(len(rest), 'smaller region')}, "
                f"{words.seconds(sum(region.wall_seconds for region in rest))} in all"
            )
        )
    out.print()
    if report.trace is not None:
        timeline_in_brief(report.trace, out)
        out.print()
    if report.layers is not None:
        layers_in_brief(report.layers, out)
        out.print()
    if account.regions:
        _findings(report, out)
        out.print()
    _foot(report, out)


MOST_REGIONS = 3


def _headline(run: Run) -> Text:
    return Text("fitscope  ", style="bold").append(Text("  ·  ".join(phrases.headline(run)), style="not bold"))


def _region(region: Region, out: Console, *, alone: bool) -> None:
    title = Text(f"{region.call}", style="bold")
    if region.where is not None:
        title.append(f"  {words.place(region.where)}", style="not bold")
    out.print(title)
    out.print(Text("  " + ", ".join(phrases.facts(region))))
    table = bars.table()
    rows = _rows(region)
    big = [part for part in rows if part.share >= SMALL or part.phase == "unexplained"][:MOST_PARTS]
    small = [part for part in rows if part not in big]
    for part in big:
        _row(table, part)
    if small:
        seconds = sum(part.seconds for part in small)
        share = seconds / region.wall_seconds if region.wall_seconds else 0.0
        table.add_row("", words.share(share), words.seconds(seconds), f"{words.count(len(small), 'smaller part')}")
    table.add_row("", "100 %", words.seconds(region.wall_seconds), Text("in all", style="bold"))
    out.print(table)
    for line in phrases.remarks(region):
        out.print(Padding(Text(line), (0, 0, 0, 2)))


def _rows(region: Region) -> list[Part]:
    """The parts, with those of the validation below one row."""
    inside = [part for part in region.parts if part.phase == "validation"]
    rows = [part for part in region.parts if part.phase != "validation"]
    if inside:
        rows.append(
            Part(
                phase="validation",
                name="",
                where=None,
                seconds=sum(part.seconds for part in inside),
                share=sum(part.share for part in inside),
                count=max(part.count for part in inside),
                inner=tuple(inside),
            )
        )
    return sorted(rows, key=lambda part: -part.seconds)


def _row(table: Table, part: Part) -> None:
    table.add_row(
        Text(bars.bar(part.share), style=COLORS.get(part.phase, "")),
        words.share(part.share),
        words.seconds(part.seconds),
        Text(phrases.label(part)),
    )
    if part.share < 0.02:
        return
    for detail in _details(part)[:3]:
        table.add_row("", "", "", Text(f"  {detail}", style="dim"))


def _details(part: Part) -> list[str]:
    """Where in the user's code, or what inside."""
    found = [
        f"{words.seconds(inner.seconds)} {inner.name} {words.place(inner.where)}".rstrip()
        for inner in part.inner
        if inner.share >= 0.01
    ]
    lines = [line for line in part.lines if line.share >= 0.2]
    if lines and part.phase in phrases.USER_CODE:
        found += [phrases.line_of_code(line, part) for line in lines]
    elif part.where is not None and part.phase in phrases.USER_CODE:
        found.append(words.place(part.where))
    return found


def _findings(report: Report, out: Console) -> None:
    """What is wrong, dearest first; or that nothing is."""
    for number, finding in enumerate(report.findings, start=1):
        if number > 1:
            out.print()
        title = Text(f"{number}. {finding.name}", style="bold").append(f"  {finding.code}", style="not bold dim")
        if finding.where is not None:
            title.append(f"  {words.place(finding.where)}", style="not bold")
        out.print(title)
        for label, text, style in _finding_lines(finding):
            grid = Table.grid(padding=(0, 1))
            grid.add_column(width=9, justify="right", style="dim")
            grid.add_column(width=WIDTH - 10)
            grid.add_row(label, Text(text, style=style))
            out.print(grid)
    if well := phrases.all_is_well(report):
        out.print(Text(well))
    for doubt in report.doubts:
        out.print(Text(doubt, style="yellow"))


def _finding_lines(finding: Finding) -> list[tuple[str, str, str]]:
    found = [("", finding.says, "")]
    if finding.evidence:
        found.append(("measured", "; ".join(words.evidence(each) for each in finding.evidence), "dim"))
    found.append(("change", finding.remedy, ""))
    if finding.estimated is not None:
        found.append(("estimated", words.speedup(finding.estimated), "green"))
    if finding.verified is not None:
        found.append(
            ("verified", words.verified(finding.verified), "green" if finding.verified.low > 1 else "yellow")
        )
    if finding.proof:
        found.append(("" if finding.verified is not None else "verified", finding.proof, "dim"))
    found.append(("more", f"fitscope explain {finding.name}", "dim"))
    return found


def _foot(report: Report, out: Console) -> None:
    run, account = report.run, report.account
    use = account.use
    if use is not None and len(use.over_time) > 2 and account.regions:
        cores = int(run.machine.get("cores") or 0)
        line = (
            f"machine: {use.process_cpu:.1f} of {cores} cores used, memory up to {words.size(use.memory_peak_bytes)}"
        )
        if use.io_wait >= 0.05:
            line += f", {words.share(use.io_wait)} waiting for I/O"
        for utilization in use.gpu_utilization:
            line += f", GPU {words.share(utilization)} busy"
        out.print(Text(line, style="dim"))
    if account.regions:
        overhead = f"{words.seconds(account.overhead_seconds)} ({words.share(account.overhead_share)})"
        out.print(Text(f"fitscope's own cost: {overhead}, by its own clock", style="dim"))
    if run.path and account.regions:
        out.print(Text(f"next: fitscope show {run.path} --open", style="dim"))
        gains = [finding for finding in report.findings if finding.estimated is not None]
        can_be_copied = run.script.endswith(".py") and Path(run.cwd, run.script).is_relative_to(run.cwd)
        if can_be_copied and gains and not any(finding.proof for finding in gains):
            out.print(Text(f"      fitscope prove {' '.join([run.script, *run.argv])}", style="dim"))
