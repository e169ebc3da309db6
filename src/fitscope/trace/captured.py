"""What a trace holds, in one form for all formats: devices with kernels and copies, host threads with events."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

MARKER = "fitscope:"
"""Begins the names of the events that `fitscope run --trace` adds: fitscope:data, fitscope:callback Name.hook."""


class Event(NamedTuple):
    """Something that took time, in seconds since the trace began."""

    name: str
    start: float
    seconds: float

    @property
    def end(self) -> float:
        """When it was over."""
        return self.start + self.seconds


class Copy(NamedTuple):
    """One copy to, from or between devices."""

    kind: str
    start: float
    seconds: float
    bytes: int


class HostEvent(NamedTuple):
    """Something a host thread did; `does` says what for, `operation` that it is one of the model's own."""

    name: str
    start: float
    seconds: float
    does: str
    operation: bool


@dataclass(frozen=True)
class Device:
    """One accelerator of a trace."""

    name: str
    model: str
    kernels: tuple[Event, ...]
    copies: tuple[Copy, ...]
    steps: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Thread:
    """One thread of the host."""

    name: str
    events: tuple[HostEvent, ...]


@dataclass(frozen=True)
class Captured:
    """One trace."""

    format: str
    devices: tuple[Device, ...]
    threads: tuple[Thread, ...]
    steps: tuple[Event, ...]
    rank: str = ""


DOES = (
    (
        "data",
        r"fitscope:data|DataLoader(?!::)|dataloader\.py\(\d+\): __next__|\bdata_?load|IteratorGetNext\w*Op::"
        r"|^IteratorGetNext|[Ii]nfeed",
    ),
    (
        "callback",
        r"fitscope:(callback|checkpoint|progress|logs)|\bon_(train_|test_|predict_|epoch_)?(batch_)?(begin|end)\b",
    ),
    ("compile", r"fitscope:compile|XlaCompile|backend_compile|[Cc]ompile(Module|ToExecutable)|TorchDynamo"),
    (
        "sync",
        r"Synchronize|cudaMemcpy$|cuMemcpy(HtoD|DtoH)_v|aten::item|_local_scalar_dense|BlockHostUntil|::Await"
        r"|block_until_ready|np\.asarray\(jax",
    ),
)
"""What an event of the host is for, by its name; the first that fits."""
COMMUNICATION = re.compile(
    r"nccl|rccl|all[-_]?reduce|all[-_]?gather|reduce[-_]?scatter|all[-_]?to[-_]?all|collective[-_]?permute",
    re.IGNORECASE,
)
_DOES = tuple((does, re.compile(pattern)) for does, pattern in DOES)
_COPIES = (
    (re.compile(r"H(ost)?(to|2)D", re.IGNORECASE), "host to device"),
    (re.compile(r"D(to|2)H", re.IGNORECASE), "device to host"),
    (re.compile(r"P(to|2)P", re.IGNORECASE), "device to device"),
    (re.compile(r"D(to|2)D", re.IGNORECASE), "device to device"),
)


@lru_cache(maxsize=65536)
def does(name: str) -> str:
    """What an event of the host is for; nothing where its name does not tell."""
    return next((what for what, pattern in _DOES if pattern.search(name)), "")


@lru_cache(maxsize=65536)
def is_communication(name: str) -> bool:
    """Whether a kernel moves data between devices for the training (all-reduce and its kin)."""
    return COMMUNICATION.search(name) is not None


@lru_cache(maxsize=1024)
def copy_kind(name: str) -> str:
    """Which way a copy goes, and whether from or to memory that the driver has to pin first."""
    way = next((way for pattern, way in _COPIES if pattern.search(name)), "other copies")
    return f"{way}, pageable" if "pageable" in name.lower() else way
