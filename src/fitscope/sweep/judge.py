"""From runs to a curve: the rate of each point with the interval that noise leaves, and where the curve bends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NamedTuple

from fitscope.compare import TRUSTED, WEIGHT, student
from fitscope.model import Knee, Measured, Rate, SweepPoint
from fitscope.sweep.ran import FAILED, MEASURED, NO_FIT, Ran

CONFIDENCE = 0.95
GAIN = 0.10
"""The knee is the smallest value beyond which doubling gains less than this share."""
LEAST_DOUBLINGS = 0.5
"""Between values that lie closer, noise says more than the gain."""
BETWEEN_ALONE, BETWEEN = 0.05, 0.03
"""One standard deviation between runs of one point: as far as short runs on a shared virtual machine were seen to
differ, where no run was repeated; less, to begin with, where some were."""
DISTURBED, NOT_MEASURED = "disturbed", "not measured"


@dataclass(frozen=True)
class Noise:
    """How far the runs of one point lie apart, as a share (one standard deviation), and how well that is known."""

    spread: float
    freedom: int

    def half(self, *runs: int) -> float:
        """Half of the interval for the logarithm of a mean of so many runs, or of a ratio of such means."""
        return student(CONFIDENCE, self.freedom) * self.spread * math.sqrt(sum(1 / number for number in runs))


def noise(runs: Sequence[Sequence[Measured]]) -> Noise:
    """The noise that the runs of all points show together: relative to its rate, it is taken to be the same.

    What runs are known to differ by has some weight beside what few repetitions show; where nothing was repeated, it
    is all there is.
    """
    squares, freedom = 0.0, 0
    for each in runs:
        logs = [math.log(one.steps_per_second) for one in each]
        if len(logs) > 1:
            squares += sum((log - fmean(logs)) ** 2 for log in logs)
            freedom += len(logs) - 1
    if not freedom:
        return Noise(BETWEEN_ALONE, TRUSTED)
    return Noise(math.sqrt((squares + WEIGHT * BETWEEN**2) / (freedom + WEIGHT)), freedom + WEIGHT)


def unit_of(ran: Sequence[Sequence[Ran]]) -> str:
    """Examples, if the size of every measured batch is known; else steps."""
    found = [one.measured for each in ran for one in each if one.measured is not None]
    return "examples" if found and all(one.rows for one in found) else "steps"


def rate_of(measured: Measured, unit: str) -> float:
    """Examples per second, or steps."""
    return measured.steps_per_second * (measured.rows or 1.0 if unit == "examples" else 1.0)


def judged(
    ran: Sequence[tuple[Mapping[str, Any], Sequence[Ran]]], against: Mapping[str, Any] | None, unit: str
) -> tuple[SweepPoint, ...]:
    """The points of a sweep; `against` are the settings of the one that the others are held against."""
    counted = [[one.measured for one in each if one.calm and one.measured is not None] for _, each in ran]
    known = noise(counted)
    base = next((runs for (settings, _), runs in zip(ran, counted, strict=True) if settings == against), [])
    return tuple(
        _point(dict(settings), each, runs, base, known, unit, is_base=settings == against)
        for (settings, each), runs in zip(ran, counted, strict=True)
    )


def _point(
    settings: dict[str, Any],
    ran: Sequence[Ran],
    counted: Sequence[Measured],
    base: Sequence[Measured],
    known: Noise,
    unit: str,
    *,
    is_base: bool,
) -> SweepPoint:
    bad = next((one for one in ran if one.state in (NO_FIT, FAILED)), None)
    if bad is not None:
        return SweepPoint(settings, bad.state, bad.says, is_base)
    every = [one.measured for one in ran if one.measured is not None]
    if not every:
        return SweepPoint(settings, NOT_MEASURED, "the budget was spent", is_base)
    used = counted or every
    middle = _mean(used, unit)
    half = known.half(len(used))
    times = None
    if base and counted:
        ratio, apart = middle / _mean(base, unit), 0.0 if is_base else known.half(len(counted), len(base))
        times = Rate(ratio, ratio * math.exp(-apart), ratio * math.exp(apart))
    return SweepPoint(
        settings,
        MEASURED if counted else DISTURBED,
        "",
        is_base,
        len(used),
        Rate(middle, middle * math.exp(-half), middle * math.exp(half)),
        times,
        used[0].rows,
        median(1 / one.steps_per_second for one in used),
        max(one.memory_bytes for one in every),
        max((one.device_memory_bytes for one in every if one.device_memory_bytes), default=None),
        fmean(one.foreign_cores for one in used),
    )


def _mean(used: Sequence[Measured], unit: str) -> float:
    return math.exp(fmean(math.log(rate_of(one, unit)) for one in used))


# --- the knee ----------------------------------------------------------------------------------------------


def knee(curve: Sequence[tuple[float, Rate]]) -> Knee | None:
    """The smallest value beyond which no doubling gains 10 %, and between which values it lies if noise is generous.

    `curve` has values upward, each with its rate. The gain from one value to the next is taken per doubling.
    """
    gains = [_gain(curve, index) for index in range(len(curve))]
    if not any(gains):
        return None
    found = [
        _bend([(each.value + sign * each.half if each else None) for each in gains]) for sign in (-1.0, 0.0, 1.0)
    ]
    low, at, high = (curve[index][0] for index in found)
    return Knee(at, low, high, last=found[1] == len(curve) - 1)


class _Gain(NamedTuple):
    """What doubling gains, as a logarithm, and half of its interval."""

    value: float
    half: float


def _gain(curve: Sequence[tuple[float, Rate]], index: int) -> _Gain | None:
    """From a value to the first that is twice as large, or to the last if that is not much less."""
    value, rate = curve[index]
    later = [each for each in curve[index + 1 :] if each[0] >= 2 * value] or list(curve[-1:])
    doublings = math.log2(later[0][0] / value)
    if doublings < LEAST_DOUBLINGS:
        return None
    return _Gain(math.log(later[0][1].value / rate.value) / doublings, _half(rate, later[0][1]) / doublings)


def _half(one: Rate, other: Rate) -> float:
    """Half of the interval for the logarithm of the ratio of two rates."""
    return math.hypot(math.log(one.high / one.value), math.log(other.high / other.value))


def _bend(gains: Sequence[float | None]) -> int:
    """Behind the last gain that is large enough; at the end, if nothing is known of what is behind it."""
    worth = [index for index, gain in enumerate(gains) if gain is not None and gain >= math.log1p(GAIN)]
    if not worth:
        return 0
    return worth[-1] + 1 if any(gain is not None for gain in gains[worth[-1] + 1 :]) else len(gains) - 1
