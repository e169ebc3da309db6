"""Sets of instants as sorted, disjoint intervals: union, overlap and difference in one pass each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Intervals = list[tuple[float, float]]


def union(spans: Iterable[tuple[float, float]]) -> Intervals:
    """The instants that any of the spans covers."""
    found: Intervals = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def both(first: Intervals, second: Intervals) -> Intervals:
    """The instants that both cover."""
    return list(_both(first, second))


def _both(first: Intervals, second: Intervals) -> Iterator[tuple[float, float]]:
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            yield start, end
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1


def without(first: Intervals, second: Intervals) -> Intervals:
    """The instants that the first covers and the second does not."""
    found: Intervals = []
    j = 0
    for start, end in first:
        while j < len(second) and second[j][1] <= start:
            j += 1
        at, k = start, j
        while k < len(second) and second[k][0] < end:
            if second[k][0] > at:
                found.append((at, second[k][0]))
            at = max(at, second[k][1])
            k += 1
        if at < end:
            found.append((at, end))
    return found


def total(intervals: Intervals) -> float:
    """How long they are together."""
    return sum(end - start for start, end in intervals)
