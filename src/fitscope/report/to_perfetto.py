"""The run as a Chrome trace, which Perfetto opens.

A run file keeps sums and durations, not spans. What of the picture is measured and what is laid out stands in the
trace's own metadata, and in the name of each track.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fitscope.model import Region, Report, Run
from fitscope.report import phrases

MOST_STEPS = 50_000
EXACT = {
    "epochs": "the length of each epoch, and its end to the millisecond",
    "phases": "the seconds of each phase in each stretch of time",
    "steps": "the duration of each step, and their order",
    "counters": "what the machine did, measured once a second",
}
LAID_OUT = {
    "phases": "the order inside one stretch of time: a second, or longer where the wait for data was known later",
    "steps": "where a step begins: steps stand one after the other, in the second in which they were recorded; "
    f"of more than {MOST_STEPS:,} in one place only the first stand there",
}


def to_perfetto(report: Report) -> str:
    """The trace as JSON."""
    run = report.run
    events = list(_named(0, "process_name", run.script or "script"))
    for number, region in enumerate(report.account.regions):
        events += _region(run, region, first=10 * (number + 1))
    events += _counters(run)
    value = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "fitscope": run.version,
            "script": run.script,
            "backend": run.backend or "",
            "exact": EXACT,
            "laid out": LAID_OUT,
        },
    }
    return json.dumps(value, separators=(",", ":"))


def write(report: Report, path: Path) -> None:
    """Writes the trace; compressed where the name ends in .gz."""
    data = to_perfetto(report).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def _region(run: Run, region: Region, first: int) -> Iterator[dict[str, Any]]:
    title = phrases.title(region)
    names = ("epochs", "phases (order laid out)", "steps (place laid out)")
    epochs, phases, steps = (_Track(first + place) for place in range(len(names)))
    for track, name in zip((epochs, phases, steps), names, strict=True):
        yield from _named(track.number, "thread_name", f"{title}: {name}")
        yield from _sorted(track.number)
    for epoch in region.course.epochs:
        name = f"epoch {epoch.first}" if epoch.first == epoch.last else f"epochs {epoch.first} to {epoch.last}"
        yield epochs.slice(name, epoch.ended - epoch.wall_seconds, epoch.wall_seconds, steps=epoch.steps)
    for interval in region.course.intervals:
        at = interval.began
        for phase, seconds in interval.phases.items():
            if seconds > 0:  # time that was moved elsewhere later may leave less than nothing
                yield phases.slice(phase, at, seconds)
                at += seconds
    yield from _steps(run, region, steps)


def _steps(run: Run, region: Region, track: _Track) -> Iterator[dict[str, Any]]:
    """Steps of each second, one after the other up to its end; of very many, the first."""
    number = 0
    for root in region.roots:
        durations = run.called[root].durations if root in run.called else ()
        taken, last = 0, 0.0
        for tick in run.ticks:
            some = durations[taken : taken + tick.steps.get(root, 0)]
            taken += len(some)
            at = max(last, tick.seconds - sum(some))
            for seconds in some:
                number += 1
                if number > MOST_STEPS:
                    return
                yield track.slice(f"step {number}", at, seconds)
                at += seconds
            last = at if some else last


def _counters(run: Run) -> Iterator[dict[str, Any]]:
    for sample in run.samples:
        at = sample.seconds * 1e6
        values = {"cores used": sample.process_cpu, "memory in MB": sample.memory_bytes / 1e6}
        for index, (utilization, memory) in enumerate(sample.gpus):
            values[f"GPU {index} busy in %"] = utilization * 100
            values[f"GPU {index} memory in MB"] = memory / 1e6
        for name, value in values.items():
            yield {"ph": "C", "pid": 1, "name": name, "ts": at, "args": {"value": round(value, 3)}}


class _Track:
    """Slices one after the other, in whole microseconds: one that began before the last has ended, Perfetto drops."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._free = 0

    def slice(self, name: str, began: float, seconds: float, **args: Any) -> dict[str, Any]:
        """The next slice; it begins when it did, or as soon as the last has ended."""
        at, length = max(self._free, round(began * 1e6)), max(0, round(seconds * 1e6))
        self._free = at + length
        event = {"ph": "X", "pid": 1, "tid": self.number, "name": name, "ts": at, "dur": length}
        return {**event, "args": args} if args else event


def _sorted(track: int) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": 1, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track}}


def _named(track: int, kind: str, name: str) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": 1, "tid": track, "name": kind, "args": {"name": name}}
