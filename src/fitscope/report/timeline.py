"""What a device trace shows, as text and as a value for JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fitscope import words
from fitscope.model import DeviceUse, Spent, Timeline
from fitscope.report.bars import bar, table

MOST_DEVICES, MOST_GAPS, MOST_NAMES, BRIEF = 8, 5, 8, 4
IDLE = {
    "copy": "idle: copies",
    "data": "idle: the host loads data",
    "callback": "idle: the host is in callbacks",
    "compile": "idle: the host compiles",
    "sync": "idle: the host waits for the device",
    "dispatch": "idle: the host launches operations",
    "other": "idle: host code that the trace does not name",
}
COLORS = {"data": "yellow", "callback": "red", "copy": "blue", "compile": "magenta"}


def timeline_value(timeline: Timeline) -> dict[str, Any]:
    """The whole timeline as a value."""
    return asdict(timeline)


def timeline_to_terminal(timeline: Timeline, out: Console) -> None:
    """Prints what a trace shows, verdict first."""
    facts = [timeline.format, *([timeline.rank] if timeline.rank else []), words.seconds(timeline.seconds)]
    if timeline.step_seconds is not None:
        facts.append(f"{words.count(timeline.steps, 'step')} of {words.seconds(timeline.step_seconds)}")
    title = Text("trace  ", style="bold").append(Path(timeline.file).name, style="not bold")
    out.print(title.append("  ·  " + "  ·  ".join(facts), style="not bold"))
    out.print(Text(timeline.verdict, style="bold"))
    working = [use for use in timeline.devices if use.kernels]
    for use in working[:MOST_DEVICES]:
        _device(use, out)
    if len(working) > MOST_DEVICES:
        out.print(Text(f"and {words.count(len(working) - MOST_DEVICES, 'device')} more: --json has them all"))
    _host(timeline, out)
    _gaps(timeline, out)
    _copies(timeline, out)
    _spent("kernels by time", timeline.kernels, out)
    _spent("operations by time, without those inside them", timeline.operations, out)
    for note in timeline.notes:
        out.print(Text(note, style="yellow"))


def timeline_in_brief(timeline: Timeline, out: Console) -> None:
    """Prints what belongs into the report of a run: the verdict, the devices, and where to read the rest."""
    title = Text("trace", style="bold")
    if timeline.steps:
        title.append(
            f"  of {words.count(timeline.steps, 'step')}, slower than others for being traced", style="not bold"
        )
    out.print(title)
    out.print(Padding(Text(timeline.verdict), (0, 0, 0, 2)))
    for use in [use for use in timeline.devices if use.kernels][:MOST_DEVICES]:
        _device(use, out)
    _spent("", (timeline.kernels or timeline.operations)[:BRIEF], out)
    for note in timeline.notes:
        out.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))
    out.print(Padding(Text(f"more: fitscope trace {timeline.file}", style="dim"), (0, 0, 0, 2)))


def _device(use: DeviceUse, out: Console) -> None:
    out.print()
    out.print(Text(use.name, style="bold").append(f"  {use.model}", style="not bold"))
    rows = table()
    kernels = f"{words.count(use.kernels, 'kernel')}"
    if use.communication_seconds:
        talk = words.seconds(use.communication_seconds)
        kernels += f"; {talk} communication, {words.seconds(use.exposed_seconds)} of it alone"
    rows.add_row(
        Text(bar(use.busy_share), style="green"),
        words.share(use.busy_share),
        words.seconds(use.busy_seconds),
        Text(kernels),
    )
    for idle in use.idle:
        rows.add_row(
            Text(bar(idle.share), style=COLORS.get(idle.cause, "")),
            words.share(idle.share),
            words.seconds(idle.seconds),
            Text(IDLE[idle.cause]),
        )
    rows.add_row("", "100 %", words.seconds(use.window_seconds), Text("in all", style="bold"))
    out.print(rows)


def _host(timeline: Timeline, out: Console) -> None:
    if not timeline.host:
        return
    out.print()
    out.print(Text("the host", style="bold"))
    rows = table()
    for spent in timeline.host:
        what = "operations of the model" if spent.name == "operation" else spent.name
        rows.add_row(
            Text(bar(spent.share), style=COLORS.get(spent.name, "")),
            words.share(spent.share),
            words.seconds(spent.seconds),
            Text(f"{what}, {words.count(spent.count, 'time')}"),
        )
    out.print(rows)


def _gaps(timeline: Timeline, out: Console) -> None:
    if not timeline.gaps:
        return
    out.print()
    out.print(Text("longest gaps", style="bold"))
    for gap in timeline.gaps[:MOST_GAPS]:
        host = f": {gap.host}" if gap.host else ""
        line = f"{words.seconds(gap.seconds)} on {gap.device} after {words.seconds(gap.start)}, {gap.cause}{host}"
        out.print(Padding(Text(line, no_wrap=True, overflow="ellipsis"), (0, 0, 0, 2)))


def _copies(timeline: Timeline, out: Console) -> None:
    if not timeline.copies:
        return
    out.print()
    out.print(Text("copies", style="bold"))
    for copied in timeline.copies:
        line = f"{copied.kind}: {copied.count:,}, {words.size(copied.bytes)} in {words.seconds(copied.seconds)}"
        if copied.seconds and copied.bytes:
            line += f", {words.size(copied.bytes / copied.seconds)}/s"
        out.print(Padding(Text(line), (0, 0, 0, 2)))


def _spent(title: str, names: tuple[Spent, ...], out: Console) -> None:
    if not names:
        return
    if title:
        out.print()
        out.print(Text(title, style="bold"))
    rows = table()
    for spent in names[:MOST_NAMES]:
        rows.add_row(
            Text(bar(spent.share), style="green"),
            words.share(spent.share),
            words.seconds(spent.seconds),
            Text(f"{spent.count:,} of {short(spent.name)}"),
        )
    out.print(rows)


def short(name: str) -> str:
    """A kernel's name without what every one of them begins with."""
    return name.removeprefix("void ").removeprefix("StatefulPartitionedCall/").replace("at::native::", "")
