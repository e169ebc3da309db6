"""What got slower or faster between runs."""

from __future__ import annotations

from dataclasses import dataclass

from fitscope.model.run import Where


@dataclass(frozen=True)
class Side:
    """One side of a comparison: runs of one script, with what they ran on."""

    name: str
    runs: int
    script: str
    argv: tuple[str, ...]
    commits: tuple[str, ...]
    backend: str | None
    started: float
    wall_seconds: float
    """The whole script; of several runs the median."""


@dataclass(frozen=True)
class Change:
    """What something took on either side, in seconds, and the interval that the noise leaves for the difference."""

    before: float
    after: float
    low: float
    high: float
    verdict: str
    """slower, faster, or no difference seen"""

    @property
    def difference(self) -> float:
        """The best estimate, in seconds."""
        return self.after - self.before


@dataclass(frozen=True)
class PartChange:
    """One line of the account on both sides: per step, or per run where it happens once, as compiling does."""

    phase: str
    name: str
    where: Where | None
    per: str
    change: Change


@dataclass(frozen=True)
class RegionChange:
    """A place in the code that trains on both sides, with its time per step and what that is made of."""

    call: str
    where: Where | None
    steps: tuple[int, int]
    per_step: Change
    parts: tuple[PartChange, ...]


@dataclass(frozen=True)
class Comparison:
    """What got slower or faster from A to B, with the noise taken into account."""

    a: Side
    b: Side
    verdict: str
    """slower, faster, no difference seen, or cannot say"""
    times: float | None
    """How many times as long B takes per step, by best estimate; 1.1 is 10 % slower."""
    low: float | None
    high: float | None
    spread: float | None
    """How far runs of the same script are taken to lie apart, as a share (one standard deviation)."""
    spread_seen: bool
    """Whether repeated runs show the spread; otherwise it is what runs usually differ by."""
    repeat: int | None
    """How many runs of each side would settle it, where these do not."""
    regions: tuple[RegionChange, ...]
    same_machine: bool
    differences: tuple[str, ...]
    """What else is different: machine, backend, versions, arguments."""
    doubts: tuple[str, ...]
