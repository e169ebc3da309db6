"""Step times and shares as TensorBoard scalars, at the steps and the times at which they were measured."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fitscope.model import FitscopeError, Report
from fitscope.report import phrases


class Scalar(NamedTuple):
    """One value at a training step, with the clock's time if that is known."""

    tag: str
    step: int
    value: float
    time: float


def scalars(report: Report) -> Iterator[Scalar]:
    """What each region is said to have taken, by steps and by epochs; a step is what Keras counts as one."""
    started = report.run.started
    for region in report.account.regions:
        title = phrases.title(region)
        for some in region.course.steps:
            yield Scalar(f"fitscope/{title}/seconds per step", some.last, some.median, started)
        steps = 0
        for epoch in region.course.epochs:
            steps += epoch.steps
            ended = started + epoch.ended
            yield Scalar(f"fitscope/{title}/seconds per epoch", steps, epoch.wall_seconds, ended)
            for phase, seconds in epoch.phases.items() if epoch.wall_seconds else ():
                yield Scalar(f"fitscope/{title}/share of {phase}", steps, seconds / epoch.wall_seconds, ended)


def write(report: Report, folder: Path) -> int:
    """Writes an event file into the folder; how many scalars it holds.

    The file is put together from tensorboard's own records: its writer would import TensorFlow.
    """
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError:
        raise FitscopeError("tensorboard is not installed: `pip install tensorboard`.") from None
    folder.mkdir(parents=True, exist_ok=True)
    started = report.run.started
    path = folder / f"events.out.tfevents.{started:.0f}.{socket.gethostname()}.{os.getpid()}.fitscope"
    found = list(scalars(report))
    with path.open("wb") as file:
        records = RecordWriter(file)
        records.write(Event(wall_time=started, file_version="brain.Event:2").SerializeToString())
        for scalar in found:
            summary = Summary(value=[Summary.Value(tag=scalar.tag, simple_value=scalar.value)])
            records.write(Event(wall_time=scalar.time, step=scalar.step, summary=summary).SerializeToString())
    return len(found)
