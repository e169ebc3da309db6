"""How a region went on: its epochs, its steps with the ones that stand out, and what it did at each time."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean, median

from fitscope.model import Calmest, Course, Epoch, Interval, Mark, Outlier, Run, Steps, Tick

MOST_EPOCHS = 60
MOST_INTERVALS = 120
MOST_STEPS = 240
MOST_OUTLIERS = 8
FAR = 3.0
"""A step that took so many times the median stands out …"""
NOTICED, LONG = 0.002, 0.25
"""… if what it took beyond that is this share of its region, or so many seconds."""
STRETCH, LEAST_STRETCH = 0.15, 3
"""Seconds of a stretch, and its steps at the least: shorter, and what one step hands on to the next matters."""
CALM, LEAST_CALM, LEAST_STRETCHES = 0.02, 3, 20
"""The part of the stretches that are the calmest, how many at the least, and of how many."""
BETWEEN_EPOCHS = ("epoch", "setup")
"""Phases that lie inside a step only if it is the first of its epoch."""

Owner = Callable[[int], tuple[str, str] | None]
"""The phase and the name of the part that a node belongs to, if it belongs to this region."""


def course(run: Run, roots: Sequence[int], owner: Owner, wall: float) -> Course:
    """The course of the region that is made of these roots."""
    marks = [mark for mark in run.marks if mark.root in roots]
    durations = {root: run.called[root].durations for root in roots if root in run.called}
    every = [duration for root in durations.values() for duration in root]
    return Course(
        epochs=tuple(_epochs(marks, owner)),
        steps=tuple(_steps(every, _apart(run, roots))),
        outliers=tuple(_outliers(run, durations, marks, owner, wall)),
        intervals=tuple(_intervals(run, roots, owner)),
        calmest=_calmest(every),
    )


def _epochs(marks: list[Mark], owner: Owner) -> Iterator[Epoch]:
    """One for each mark; where there are many, neighbors together."""
    each = -(-len(marks) // MOST_EPOCHS) or 1
    epochs = steps = 0
    for at in range(0, len(marks), each):
        some = marks[at : at + each]
        phases = _phases((mark.spent for mark in some), owner)
        yield Epoch(
            first=epochs + 1,
            last=some[-1].epochs,
            ended=some[-1].seconds,
            wall_seconds=sum(phases.values()),
            steps=some[-1].steps - steps,
            phases=phases,
        )
        epochs, steps = some[-1].epochs, some[-1].steps


def _phases(spent: Iterable[dict[int, float]], owner: Owner) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for each in spent:
        for node, seconds in each.items():
            part = owner(node)
            if part is not None:
                found[part[0]] += seconds
    return {phase: seconds for phase, seconds in found.items() if abs(seconds) > 1e-9}


def _apart(run: Run, roots: Sequence[int]) -> float:
    """Steps between two durations that were kept: more than one with steps_per_execution, or past four million."""
    steps = sum(run.called[root].steps for root in roots if root in run.called)
    kept = sum(len(run.called[root].durations) for root in roots if root in run.called)
    return max(1.0, steps / kept) if kept else 1.0


def _steps(durations: list[float], apart: float) -> Iterator[Steps]:
    each = -(-len(durations) // MOST_STEPS) or 1
    for at in range(0, len(durations), each):
        some = durations[at : at + each]
        first, last = round(at * apart) + 1, round((at + len(some)) * apart)
        yield Steps(first, last, min(some), median(some), max(some))


def _calmest(durations: list[float]) -> Calmest | None:
    each = max(LEAST_STRETCH, round(STRETCH / max(1e-6, median(durations)))) if durations else 1
    number = len(durations) // each
    if number < LEAST_STRETCHES:
        return None
    stretches = sorted(fmean(durations[at * each : (at + 1) * each]) for at in range(number))
    return Calmest(
        seconds=fmean(stretches[: max(LEAST_CALM, round(CALM * number))]), usual=median(stretches), stretches=number
    )


def _outliers(
    run: Run, durations: dict[int, tuple[float, ...]], marks: list[Mark], owner: Owner, wall: float
) -> Iterator[Outlier]:
    every = [duration for each in durations.values() for duration in each]
    if len(every) < 10:
        return
    usual = median(every)
    far = max(FAR * usual, usual + min(NOTICED * wall, LONG))
    found = sorted(
        ((seconds, root, at) for root, each in durations.items() for at, seconds in enumerate(each) if seconds > far),
        reverse=True,
    )
    apart, before = _apart(run, list(durations)), _before(durations)
    seconds_of = {root: _Seconds(run.ticks, root, each, owner, usual, far) for root, each in durations.items()}
    for seconds, root, at in sorted(found[:MOST_OUTLIERS], key=lambda item: (before[item[1]], item[2])):
        first = round(at * apart) in {0, *(mark.steps for mark in marks if mark.root == root)}
        phase, name, extra = seconds_of[root].blamed(at, first=first)
        yield Outlier(
            step=round((before[root] + at) * apart) + 1,
            first=first,
            epoch=next((mark.epochs for mark in marks if mark.root == root and mark.steps > at * apart), None),
            seconds=seconds,
            times=seconds / usual if usual else 0.0,
            phase=phase,
            name=name,
            extra_seconds=extra,
        )


def _before(durations: dict[int, tuple[float, ...]]) -> dict[int, int]:
    """How many durations stand before those of each root."""
    found, total = {}, 0
    for root, each in durations.items():
        found[root] = total
        total += len(each)
    return found


class _Seconds:
    """The seconds in which the steps of a root ended, each with its parts, and what these usually take per step.

    Seconds in which none ended go with the next: a step may take several, and where the device works on alone, what
    steps took is known only when somebody waits for it.
    """

    def __init__(
        self, ticks: Sequence[Tick], root: int, durations: tuple[float, ...], owner: Owner, usual: float, far: float
    ) -> None:
        self._ends: list[int] = []
        self._parts: list[dict[tuple[str, str], float]] = []
        self._counts: list[int] = []
        self._excess = [duration - usual if duration > far else 0.0 for duration in durations]
        parts: dict[tuple[str, str], float] = defaultdict(float)
        ordinary: dict[tuple[str, str], float] = defaultdict(float)
        every: dict[tuple[str, str], float] = defaultdict(float)
        steps = ordinary_steps = 0
        for tick in ticks:
            count = tick.steps.get(root, 0)
            for node, seconds in tick.spent.items():
                part = owner(node)
                if part is not None and _within_steps(*part):
                    parts[part] += seconds
                    every[part] += seconds
            if not count:
                continue
            if max(durations[steps : steps + count], default=0.0) <= far:
                ordinary_steps += count
                for part, seconds in parts.items():
                    ordinary[part] += seconds
            steps += count
            self._ends.append(steps)
            self._parts.append(parts)
            self._counts.append(count)
            parts = defaultdict(float)
        known, number = (ordinary, ordinary_steps) if ordinary_steps else (every, steps)
        rare = ("compile", *BETWEEN_EPOCHS)
        self._usual = {part: seconds / number for part, seconds in known.items() if number and part[0] not in rare}

    def blamed(self, at: int, *, first: bool) -> tuple[str, str, float]:
        """The part that took more than usual when a step ended, if it explains at least half of the excess.

        A step that ended early in a second may have spent its time in the one before. Of several slow steps each has
        its share in what was more. What grew by more than twice their excess grew for other steps, too, and tells
        nothing of these.
        """
        index = bisect_right(self._ends, at)
        for start in (index, index - 1):
            if not 0 <= start <= index < len(self._ends):
                continue
            here: dict[tuple[str, str], float] = defaultdict(float)
            for parts in self._parts[start : index + 1]:
                for part, seconds in parts.items():
                    here[part] += seconds
            count, ended = sum(self._counts[start : index + 1]), self._ends[index]
            excess = sum(self._excess[ended - count : ended])
            extra = {
                part: spent - self._usual.get(part, 0.0) * count
                for part, spent in here.items()
                if first or part[0] not in BETWEEN_EPOCHS
            }
            fitting = [part for part in extra if 0.5 * excess <= extra[part] <= 2 * excess]
            if fitting:
                blamed = max(fitting, key=lambda part: extra[part])
                return *blamed, extra[blamed] * self._excess[at] / excess
        return "", "", 0.0


def _within_steps(phase: str, name: str) -> bool:
    """Whether the time of such a part can lie inside a step."""
    if phase in ("callback", "checkpoint", "progress"):
        return "_batch_" in name
    return phase != "validation"


def _intervals(run: Run, roots: Sequence[int], owner: Owner) -> list[Interval]:
    """Stretches of the run. What was moved from one part to another later makes one stretch with what went before."""
    found: list[Interval] = []
    began, apart = 0.0, _apart(run, roots)
    for tick in run.ticks:
        phases = _phases([tick.spent], owner)
        if phases and not any(interval.phases for interval in found):
            # It began somewhere in this second.
            found, began = [], max(began, tick.seconds - sum(phases.values()))
        steps = round(apart * sum(tick.steps.get(root, 0) for root in roots))
        interval = Interval(began, tick.seconds, phases, steps)
        began = tick.seconds
        while found and any(seconds < 0 for seconds in interval.phases.values()):
            interval = _joined([found.pop(), interval])
        found.append(interval)
    each = -(-len(found) // MOST_INTERVALS) or 1
    joined = [_joined(found[at : at + each]) for at in range(0, len(found), each)]
    return [interval for interval in joined if interval.phases]


def _joined(intervals: list[Interval]) -> Interval:
    phases: dict[str, float] = defaultdict(float)
    for interval in intervals:
        for phase, seconds in interval.phases.items():
            phases[phase] += seconds
    return Interval(
        intervals[0].began,
        intervals[-1].ended,
        {phase: s for phase, s in phases.items() if abs(s) > 1e-9},
        sum(interval.steps for interval in intervals),
    )
