"""What a device did, read from a trace of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Idle:
    """Time in which a device ran no kernel, by what the host was doing meanwhile."""

    cause: str
    seconds: float
    share: float
    count: int
    longest: float


@dataclass(frozen=True)
class Gap:
    """One stretch in which a device ran no kernel, with what the host did for most of it."""

    device: str
    start: float
    seconds: float
    cause: str
    host: str


@dataclass(frozen=True)
class DeviceUse:
    """What one device did in a trace: kernels and the gaps between them add up to its window."""

    name: str
    model: str
    window_start: float
    """Seconds after the first event of the trace."""
    window_seconds: float
    busy_seconds: float
    busy_share: float
    kernels: int
    communication_seconds: float
    exposed_seconds: float
    """Communication that no other kernel ran beside."""
    idle: tuple[Idle, ...]


@dataclass(frozen=True)
class Copied:
    """All copies of one kind."""

    kind: str
    count: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Spent:
    """All runs of one kernel or operation, with their share of all kernels' or operations' time."""

    name: str
    seconds: float
    share: float
    count: int


@dataclass(frozen=True)
class Timeline:
    """What a device trace shows."""

    file: str
    format: str
    rank: str
    seconds: float
    steps: int
    step_seconds: float | None
    busy_share: float | None
    """Of the devices that ran kernels, on average."""
    devices: tuple[DeviceUse, ...]
    host: tuple[Spent, ...]
    """What the host did, by its purpose: data, callback, compile, sync, operation. Shares are of the window."""
    gaps: tuple[Gap, ...]
    copies: tuple[Copied, ...]
    kernels: tuple[Spent, ...]
    operations: tuple[Spent, ...]
    verdict: str
    cause: str | None
    """What kept the device waiting most, where it waited: data, callback, dispatch, sync, copy, compile …"""
    notes: tuple[str, ...] = ()
