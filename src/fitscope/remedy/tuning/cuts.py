"""Which stage of a tf.data pipeline is slow: timed with all up to a stage free, its elements repeated from memory.

The pipeline that is free up to one stage more is faster by what that stage costs: in the pipeline as it is, with its
threads and buffers, not by itself.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from fitscope.remedy.tuning.pipeline import KEPT, Stage, build, read
from fitscope.remedy.tuning.rewrite import SHORT_BUFFER, join, trunk

REPLAYED = 64
"""Elements that are repeated where a stage is free: more than one, so that a filter lets some pass."""
MOST_BYTES = 64 << 20
FILLING = 0.3
"""Seconds in which these are made."""
WARM = 2
PASS_SECONDS = 0.35
ROUNDS = 3
IDLE = ("options", "prefetch", "repeat", "take", "skip")
"""Stages that do no work of their own."""


@dataclass(frozen=True)
class Cut:
    """A stage, and the seconds for each element of the pipeline if all up to and with this stage are free."""

    stage: Any
    """The user's dataset that is this stage."""
    kind: str
    seconds: float


def costs(dataset: Any, seconds: float) -> tuple[float, list[Cut]]:
    """Seconds for each element as it is, and with the pipeline free up to each stage; takes about so long."""
    line = _short(trunk(read(dataset)))
    first = max((place for place, stage in enumerate(line) if stage.kind == "cache"), default=-1)
    # What stands before a cache costs nothing once it is filled: the pipeline begins there.
    plans = [_free(line, first) if first >= 0 else join(line)]
    stages = [place for place in range(first + 1, len(line)) if line[place].kind not in IDLE]
    plans += [_free(line, place) for place in stages]
    each = min(PASS_SECONDS, seconds / (len(plans) * ROUNDS))
    built = [build(plan).repeat() for plan in plans]
    times: list[list[float]] = [[] for _ in built]
    for turn in range(ROUNDS):
        order = range(len(built)) if turn % 2 == 0 else reversed(range(len(built)))
        for place in order:
            times[place].append(_per_element(built[place], each))
    middle = [statistics.median(found) for found in times]
    return middle[0], [
        Cut(line[place].made, "source" if line[place].kind == KEPT else line[place].kind, found)
        for place, found in zip(stages, middle[1:], strict=True)
    ]


def _short(line: list[Stage]) -> list[Stage]:
    """Shuffles with small buffers: to fill a large one would take the time, and is no cost per element."""
    found: list[Stage] = []
    for stage in line:
        if stage.kind == "shuffle":
            stage = replace(stage, size=min(SHORT_BUFFER, max(1, int(stage.made._buffer_size))))
        found.append(stage)
    return found


def _free(line: list[Stage], place: int) -> Stage:
    """The pipeline with the elements behind one of its stages repeated from memory."""
    head = build(join(line[: place + 1]))
    kept = head.take(_number(head)).cache()
    for _ in kept:  # a cache gives back what it holds once it has seen the end
        pass
    rest = [stage for stage in line[place + 1 :] if stage.kind not in ("take", "skip")]
    return join([Stage(KEPT, kept.repeat()), *rest])


def _number(dataset: Any) -> int:
    """How many elements are to be repeated: as many as come within a moment, and fit into memory."""
    began = time.perf_counter()
    number = size = 0
    for element in dataset.take(REPLAYED):
        number += 1
        size += sum(int(tf.size(part)) * max(1, part.dtype.size) for part in tf.nest.flatten(element, True))
        if time.perf_counter() - began > FILLING or size > MOST_BYTES:
            break
    return max(1, number)


def _per_element(dataset: Any, seconds: float) -> float:
    iterator: Iterator[Any] = iter(dataset)
    for _ in range(WARM):
        next(iterator)
    began = time.perf_counter()
    number = 0
    while number < 2 or time.perf_counter() - began < seconds:
        next(iterator)
        number += 1
    return (time.perf_counter() - began) / number
