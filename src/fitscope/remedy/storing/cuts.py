"""Where a preprocessing can be cut, what its elements weigh there, and which cut serves them soonest."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import psutil

from fitscope import words
from fitscope.remedy.storing.elements import Layout, array_of
from fitscope.remedy.storing.fingerprint import Fingerprint
from fitscope.remedy.storing.stacking import Remainder
from fitscope.remedy.storing.writing import Column

Block = tuple[int, Sequence[Column]]
"""Several elements: how many, and their leaves."""

SAMPLE_SECONDS = 1.0
SAMPLE_MOST = 64
"""A sample ends after so much time, or so many elements."""

READING_SECONDS = 5e-6
"""What reading one element costs beside its bytes."""


@dataclass(frozen=True)
class Asked:
    """What the user says of a dataset, and what is known from before."""

    store: Path
    deterministic: bool | None
    inputs: list[Path]
    workers: int | None
    settled: int | None
    """The cut of a store that is there already: what lies before it was found to be deterministic."""


@dataclass(frozen=True)
class Cut:
    """A place where the preprocessing can be cut, as measured on a sample."""

    cut: int
    name: str
    layout: Layout
    length: int
    bytes: float
    """Of one element."""
    seconds: float
    """To make one element, from the source on."""

    @property
    def needed(self) -> float:
        """Bytes on disk, with some to spare."""
        return 1.1 * self.bytes * self.length + (1 << 20)


class Source(Protocol):
    """What `materialize` asks of a kind of dataset."""

    @property
    def batch_size(self) -> int | None:
        """Of the batches that examples come in."""
        ...

    @property
    def stopped(self) -> str:
        """Why the last cut is the last."""
        ...

    def cuts(self) -> list[Cut]:
        """Measures on a sample, and finds out there whether the elements are the same when they are made again."""
        ...

    def fingerprint(self, cut: int) -> Fingerprint | None:
        """Of code and inputs up to a cut; None where there is no such cut."""
        ...

    def blocks(self, cut: int, layout: Layout, start: int) -> Iterator[Block]:
        """The elements at a cut, in order, from one on."""
        ...

    def remainder(self, cut: int) -> Remainder | None:
        """The part of a pipeline behind a cut."""
        ...


def choose(cuts: list[Cut], warm: float, cold: float) -> tuple[Cut, str]:
    """The cut after which an element is had soonest: read, then taken through the stages that were not stored.

    Reading goes at the speed of memory where the store fits there, and at that of the disk otherwise.
    """
    memory = psutil.virtual_memory().available
    whole = cuts[-1].seconds

    def cost(cut: Cut) -> float:
        speed = warm if cut.bytes * cut.length < memory / 2 else cold
        return READING_SECONDS + cut.bytes / speed + max(0.0, whole - cut.seconds)

    least = min(map(cost, cuts))
    # Sizes are certain and times are not: among equals, the smaller store.
    chosen = min((cut for cut in cuts if cost(cut) <= 1.1 * least), key=lambda cut: (round(cut.bytes), -cut.cut))
    total = words.size(chosen.bytes * chosen.length)
    why = (
        f"Stored after {chosen.name}: {words.size(chosen.bytes)} per element, {total} in all; an element is had in "
        f"about {words.seconds(cost(chosen))} where it took {words.seconds(whole)}."
    )
    others = [
        f"after {cut.name} {words.size(cut.bytes)}, {words.seconds(cost(cut))}" for cut in cuts if cut != chosen
    ]
    return chosen, f"{why} Other cuts: {'; '.join(others)}." if others else why


def reading_speeds(file: Path) -> tuple[float, float]:
    """Bytes per second of a disk, read from memory and read from the disk itself; the file is made for it."""
    size = 4 << 20
    try:
        with file.open("wb+") as opened:
            opened.write(os.urandom(1 << 20) * (size >> 20))
            opened.flush()
            os.fsync(opened.fileno())
            speeds = []
            for cold in (True, False):
                if cold and hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                opened.seek(0)
                began = time.perf_counter()
                opened.read()
                speeds.append(size / (time.perf_counter() - began))
    finally:
        file.unlink(missing_ok=True)
    return speeds[1], speeds[0]


def same(first: list[Any], second: list[Any]) -> bool:
    """Whether two lists of arrays are equal bit by bit: not a number equals itself here."""
    return len(first) == len(second) and all(map(_equal, first, second))


def _equal(one: np.ndarray[Any, Any], two: np.ndarray[Any, Any]) -> bool:
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    return bool((one == two).all()) if one.dtype == object else one.tobytes() == two.tobytes()


def size_of(layout: Layout, element: Any) -> int:
    """The bytes that an element takes in a store."""
    total = 0
    for leaf, value in zip(layout.leaves, layout.flatten(element), strict=True):
        array = array_of(leaf, value)
        total += sum(len(item) + 8 for item in array.ravel()) if leaf.is_text else array.nbytes
        total += 0 if None not in leaf.static else 8 + 8 * leaf.rank
    return total
