"""What a training reaches over the values of a setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Measured:
    """What one short run of a script showed once it was under way."""

    steps_per_second: float
    rows: float | None
    """Examples in a step, on average; None where nobody knows."""
    seconds: float
    """That were measured."""
    memory_bytes: int
    device_memory_bytes: int | None
    foreign_cores: float
    """Processors that other programs used meanwhile."""


@dataclass(frozen=True)
class Rate:
    """Examples (or steps) per second, or times as many, with the interval that noise leaves."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class SweepPoint:
    """One value of a setting, or one combination of values, and what the training reaches with it."""

    settings: dict[str, Any]
    state: str
    """measured, does not fit, failed, disturbed (by other programs), or not measured"""
    says: str = ""
    """What went wrong, in one line."""
    base: bool = False
    """Whether it is the one that the others are held against: the script as it is, or the first value."""
    runs: int = 0
    rate: Rate | None = None
    times: Rate | None = None
    """How many times the rate of the base."""
    rows: float | None = None
    """Examples in a step, on average."""
    step_seconds: float | None = None
    memory_bytes: int | None = None
    device_memory_bytes: int | None = None
    foreign_cores: float | None = None


@dataclass(frozen=True)
class Knee:
    """The smallest value beyond which doubling gains little, as far as noise lets it be told."""

    value: float
    low: float
    high: float
    last: bool = False
    """Whether it is the largest value that was measured: the throughput still grows there."""


@dataclass(frozen=True)
class Sweep:
    """Throughput, step time and memory of a training over one setting, or over a grid of several."""

    script: str
    argv: tuple[str, ...]
    axes: tuple[str, ...]
    unit: str
    """examples, or steps where the size of a batch is not known"""
    own: dict[str, Any]
    """What the script itself says; empty where its arguments are swept."""
    points: tuple[SweepPoint, ...]
    knee: Knee | None
    doubts: tuple[str, ...]
    foreign_cores: float
    runs: int
    reused: int
    """How many of the runs were made before."""
    seconds: float
