"""Short timed passes over variants of a tf.data pipeline, in turn, so that one can be told from the other."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from fitscope.model import Speedup
from fitscope.remedy.tuning.pipeline import Stage, build
from fitscope.remedy.tuning.rewrite import sample

PASS_SECONDS = 0.1
"""A pass should be about as long as TensorFlow takes to prepare it, and not much longer."""

MOST_ROUNDS = 9

NOISE = 0.1
"""What the median of a few ratios may be off."""


@dataclass(frozen=True)
class Timing:
    """How long the passes of one variant took, next to those of the variant that it is compared with."""

    seconds: tuple[float, ...]
    others: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Its time over the other's, round by round."""
        return [mine / other for mine, other in zip(self.seconds, self.others, strict=True)]

    @property
    def ratio(self) -> float:
        """Its time over the other's: of the quickest passes (others on the machine only slow them down), or of the
        typical ones where these say less.
        """
        return max(min(self.seconds) / min(self.others), statistics.median(self.ratios) - NOISE)

    @property
    def gain(self) -> Speedup:
        """How many times faster, from the lower to the upper quarter of the rounds."""
        ordered = sorted(1 / ratio for ratio in self.ratios)
        quarter = len(ordered) // 4
        return Speedup(ordered[quarter], ordered[-1 - quarter])


class Trial:
    """Measures variants of one pipeline within a number of seconds."""

    def __init__(self, seconds: float) -> None:
        self._began = time.perf_counter()
        self.seconds = seconds

    @property
    def left(self) -> float:
        """Seconds that may still be spent."""
        return self.seconds - (time.perf_counter() - self._began)

    def elements(self, plan: Stage, most: int) -> int:
        """How many elements of its source make a pass over this pipeline long enough; at most so many."""
        number = min(32, most)
        end = time.perf_counter() + 0.15 * self.seconds
        before = 0.0
        while True:
            dataset = build(sample(plan, number))
            passed = one_pass(dataset)
            if passed < PASS_SECONDS:  # the first pass also prepares
                passed = min(passed, one_pass(dataset))
            is_all = number == most or passed < 1.2 * before
            if is_all or passed > PASS_SECONDS / 2 or time.perf_counter() > end:
                return max(1, round(number * min(1.0, 1.2 * PASS_SECONDS / passed)))
            before = passed
            number = min(most, round(number * min(16.0, max(2.0, PASS_SECONDS / max(passed, 1e-4)))))

    def compare(
        self, plans: Sequence[Stage], elements: int, seconds: float, rest: float = 0.0, least: int = 3
    ) -> list[Timing | None]:
        """The timings of all plans against the first one; None for one that failed or found no time.

        Each is built once: its first pass fills its caches and is not counted.
        """
        end = time.perf_counter() + seconds
        ready: list[Any] = []
        for plan in plans:
            try:
                dataset = build(sample(plan, elements))
                one_pass(dataset, rest)
            except (tf.errors.OpError, ValueError, TypeError):
                if not ready:
                    raise
                dataset = None
            ready.append(dataset)
        times: list[list[float]] = [[] for _ in plans]
        alive = [place for place, dataset in enumerate(ready) if dataset is not None]
        for turn in range(MOST_ROUNDS):
            if turn >= least and time.perf_counter() > end:
                break
            if turn >= least // 2 + 1 and all(_is_plain(times[place], times[0]) for place in alive[1:]):
                break
            first = turn % len(alive)
            for place in alive[first:] + alive[:first]:
                times[place].append(one_pass(ready[place], rest))
        return [self._timing(each, times[0]) for each in times]

    def _timing(self, own: list[float], others: list[float]) -> Timing | None:
        if len(own) < 2:
            return None
        return Timing(tuple(own), tuple(others))


def _is_plain(own: list[float], others: list[float]) -> bool:
    """Whether two or three rounds are enough to tell."""
    ratios = [mine / other for mine, other in zip(own, others, strict=True)]
    return min(ratios) > 1.15 or max(ratios) < 0.6


def one_pass(dataset: Any, rest: float = 0.0) -> float:
    """Seconds until the last element, with a consumer that rests after each."""
    iterator = iter(dataset)
    began = time.perf_counter()
    for _ in iterator:
        if rest:
            time.sleep(rest)
    return time.perf_counter() - began


def digests(plan: Stage, elements: int) -> list[bytes]:
    """The first elements of a pipeline as hashes of their bytes, its shuffles seeded."""
    found = []
    for element in build(sample(plan, elements, seed=1)):
        digest = hashlib.sha256()
        for part in tf.nest.flatten(element, expand_composites=True):
            value = part.numpy()
            raw = repr(value.tolist()).encode() if part.dtype == tf.string else value.tobytes()
            digest.update(repr((part.dtype.name, part.shape.as_list())).encode() + raw)
        found.append(digest.digest())
    return found


def count(source: Any, seconds: float) -> int:
    """How many elements there are, counted where TensorFlow does not know; -1 if the time does not suffice."""
    known = int(source.cardinality())
    if known != tf.data.UNKNOWN_CARDINALITY:
        return max(-1, known)
    end = time.perf_counter() + seconds
    found = 0
    for units in source.map(lambda *_: True).batch(64):
        found += len(units)
        if time.perf_counter() > end:
            return -1
    return found


def weight(dataset: Any, seconds: float) -> float:
    """Bytes in memory of an element, the mean of the first ones."""
    end = time.perf_counter() + seconds
    number = total = 0
    for element in dataset.take(64):
        number += 1
        total += sum(_bytes(part) + 128 for part in tf.nest.flatten(element, expand_composites=True))
        if time.perf_counter() > end:
            break
    return total / max(1, number)


def _bytes(part: Any) -> int:
    if part.dtype == tf.string:
        return int(tf.reduce_sum(tf.strings.length(part))) + 24 * int(tf.size(part))
    return int(part.dtype.size * tf.size(part).numpy())
