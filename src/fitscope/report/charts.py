"""Where things stand in a picture: coordinates in a box of 1000 by 100, from the numbers of the report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fitscope import words

WIDTH, HEIGHT = 1000.0, 100.0
ORDER = ("step", "data", "transfer", "callback", "checkpoint", "validation", "compile", "logs", "progress")
"""From the bottom of a stack to its top; the other phases come last."""


@dataclass(frozen=True)
class Piece:
    """A piece of a bar."""

    phase: str
    x: float
    width: float


def bar(phases: Iterable[tuple[str, float]], whole: float) -> list[Piece]:
    """Seconds by phase as pieces of one bar; `whole` seconds are as wide as the picture."""
    pieces, x = [], 0.0
    for phase, seconds in phases:
        width = max(0.0, seconds) / whole * WIDTH if whole else 0.0
        if width >= 0.5:
            pieces.append(Piece(phase, round(x, 1), round(width, 1)))
        x += width
    return pieces


def region_bar(region: Any) -> list[Piece]:
    """A region as one bar."""
    return bar(((phase["phase"], phase["seconds"]) for phase in region["phases"]), region["wall_seconds"])


def epoch_bar(epoch: Any, epochs: Sequence[Any]) -> list[Piece]:
    """An epoch as a bar; the longest is as wide as the picture."""
    longest = max(each["wall_seconds"] for each in epochs)
    return bar(sorted(epoch["phases"].items(), key=lambda item: _rank(item[0])), longest)


@dataclass(frozen=True)
class Dot:
    """A point that is marked, with the hundredth of the width that it stands at; no number where there is no room."""

    x: float
    percent: int
    number: int | None


@dataclass(frozen=True)
class Curve:
    """Step times: the middle as a line, the range as an area; what is beyond the top is marked there."""

    line: str
    band: str
    dots: list[Dot]
    rules: list[float]
    top: str
    first: str
    last: str


def steps(region: Any) -> Curve | None:
    """Step time over the steps of a region."""
    points = region["course"]["steps"]
    if len(points) < 3:
        return None
    usual = region["step_seconds"]
    highest = max(float(point["high"]) for point in points)
    top = nice(min(highest, max(2.0 * usual["p95"], 3.0 * usual["median"])))
    last = float(points[-1]["last"])

    def x(step: float) -> float:
        return round((step - 0.5) / last * WIDTH, 1)

    def y(seconds: float) -> float:
        return round(HEIGHT * (1 - min(1.0, seconds / top)), 1) if top else HEIGHT

    middles = [x((point["first"] + point["last"]) / 2) for point in points]
    line = [(at, y(point["median"])) for at, point in zip(middles, points, strict=True)]
    upper = [(at, y(point["high"])) for at, point in zip(middles, points, strict=True)]
    lower = [(at, y(point["low"])) for at, point in zip(middles, points, strict=True)]
    outliers = region["course"]["outliers"]
    ends, rules = 0.0, []
    for epoch in region["course"]["epochs"][:-1]:
        ends += epoch["steps"]
        rules.append(round(ends / last * WIDTH, 1))
    return Curve(
        line=_path(line),
        band=_path([*upper, *reversed(lower)]) + "z"
        if any(point["first"] != point["last"] for point in points)
        else "",
        dots=list(_dots([x(outlier["step"]) for outlier in outliers])),
        rules=rules,
        top=words.seconds(top),
        first="step 1",
        last=f"step {int(last):,}",
    )


def _dots(places: list[float]) -> Iterator[Dot]:
    """From left to right, numbered where the number does not stand on the one before."""
    free = 0.0
    for number, at in enumerate(places, start=1):
        room = at >= free
        yield Dot(at, round(at / WIDTH * 100), number if room else None)
        free = at + 0.03 * WIDTH if room else free


def stack(intervals: Sequence[Any], whole: float) -> dict[str, str]:
    """What each stretch of time was spent on, as one path for each phase."""
    paths: dict[str, list[str]] = {}
    for interval in intervals:
        began, ended = float(interval["began"]), float(interval["ended"])
        if ended <= began or not whole:
            continue
        x, width = began / whole * WIDTH, (ended - began) / whole * WIDTH
        y = HEIGHT
        for phase, seconds in sorted(interval["phases"].items(), key=lambda item: _rank(item[0])):
            height = min(y, seconds / (ended - began) * HEIGHT)
            y -= height
            if height >= 0.2:
                paths.setdefault(phase, []).append(f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z")
    return {phase: "".join(pieces) for phase, pieces in sorted(paths.items(), key=lambda item: _rank(item[0]))}


@dataclass(frozen=True)
class Series:
    """One measure of the machine over time."""

    name: str
    line: str
    area: str
    top: str


def machine(samples: Sequence[Any], whole: float, cores: int) -> list[Series]:
    """Processors, memory and, where there is one, the GPU."""

    def series(name: str, values: Iterable[float], top: float | None = None, label: str = "") -> Series:
        found = list(values)
        highest = top or nice(max(found)) or 1.0
        points = [
            (
                round(min(1.0, sample["seconds"] / whole) * WIDTH, 1),
                round(HEIGHT * (1 - min(1.0, value / highest)), 1),
            )
            for sample, value in zip(samples, found, strict=True)
        ]
        base = [(points[-1][0], HEIGHT), (points[0][0], HEIGHT)]
        return Series(name, _path(points), _path([*points, *base]) + "z", label or words.size(highest))

    found = [
        series("cores used", (sample["process_cpu"] for sample in samples), float(cores or 1), f"{cores or 1} cores"),
        series("memory", (sample["memory_bytes"] for sample in samples)),
    ]
    waits = [sample["io_wait"] for sample in samples]
    if max(waits) >= 0.05:
        found.append(series("waiting for I/O", waits, 1.0, "100 %"))
    for number in range(min(len(sample["gpus"]) for sample in samples)):
        name = f"GPU {number}" if number else "GPU"
        found.append(series(f"{name} busy", (sample["gpus"][number][0] for sample in samples), 1.0, "100 %"))
        found.append(series(f"{name} memory", (sample["gpus"][number][1] for sample in samples)))
    return found


def nice(value: float) -> float:
    """The next round number: 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten."""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8) if step * power >= value), 10 * power)


def _path(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


def _rank(phase: str) -> int:
    return ORDER.index(phase) if phase in ORDER else len(ORDER)
