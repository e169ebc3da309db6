"""What was recorded: the one value that is saved, and what it consists of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1
"""The number of the run file's format and of the JSON report."""

TRACE_ENDINGS = (".xplane.pb", ".pt.trace.json.gz")
"""How the names of device traces end; that of a run lies beside it, under the run's name."""

SCOPE = "fitscope."
"""Begins the scope that a layer's operations are traced in where layers are told apart: fitscope.12."""

UPDATE = "u"
"""Begins the number of a layer in the scope of its weights' update: fitscope.u12."""

PHASES = (
    "data",
    "transfer",
    "step",
    "compile",
    "callback",
    "logs",
    "progress",
    "validation",
    "checkpoint",
    "epoch",
    "gc",
    "setup",
    "unexplained",
)


class FitscopeError(Exception):
    """Something the user can put right: one sentence that says what is wrong and what to do."""


@dataclass(frozen=True)
class Where:
    """A line of source code; the file is relative to the folder that the script was started in."""

    file: str
    line: int

    @property
    def installed(self) -> bool:
        """Whether it is a line of an installed library, which is not the user's to change."""
        return "site-packages" in self.file or "dist-packages" in self.file


@dataclass(frozen=True)
class Node:
    """A place in the course of a training, with the time that it owned alone."""

    id: int
    parent: int
    phase: str
    name: str
    where: Where | None
    thread: int
    seconds: float
    count: int


@dataclass(frozen=True)
class Called:
    """How often a place in the code trained, with the duration of each step in seconds."""

    calls: int
    steps: int
    epochs: int
    durations: tuple[float, ...] = field(repr=False, default=())


@dataclass(frozen=True)
class Stage:
    """One stage of an input pipeline, or the user's own loading function."""

    name: str
    where: Where | None
    seconds_per_batch: float | None
    parallelism: int
    elements_per_batch: float | None = None
    buffered: float | None = None
    working: float | None = None
    """Of a Python function: the share of its time in which it held a processor."""
    batches: int | None = None
    """Of a stage of tf.data: the batches during which it was there; before a cache it is gone once that is full."""


@dataclass(frozen=True)
class Compile:
    """How often a function was traced or compiled, and why."""

    function: str
    cause: str
    detail: str
    count: int
    seconds: float
    where: Where | None = None


@dataclass(frozen=True)
class Inside:
    """A Python function of the user's that the compiled step calls back."""

    name: str
    where: Where | None
    seconds: float
    count: int


@dataclass(frozen=True)
class Line:
    """A line of the user's code, with the share of the looks at its part that found it there."""

    where: Where
    function: str
    samples: int
    share: float
    doing: str = ""
    """What most of these looks found it doing in a library: network, files, a Keras layer …"""


@dataclass(frozen=True)
class Sampled:
    """Samples of one line below one node; a negative node is another thread of that region."""

    node: int
    where: Where
    function: str
    samples: int
    doing: str = ""


@dataclass(frozen=True)
class MachineSample:
    """What the machine did in one second."""

    seconds: float
    cores: tuple[float, ...]
    process_cpu: float
    memory_bytes: int
    io_wait: float
    major_faults: int
    swap_bytes: int
    gpus: tuple[tuple[float, int], ...] = ()
    held_up: float | None = None
    """Of the time that threads of the training's own process wanted a core, the share in which they had none."""


@dataclass(frozen=True)
class Tick:
    """What was new when the recorder wrote, about once a second: seconds by node, steps by region."""

    seconds: float
    spent: dict[int, float]
    steps: dict[int, int]


@dataclass(frozen=True)
class Mark:
    """The end of an epoch: steps up to here, and seconds by node since the mark before."""

    root: int
    seconds: float
    epochs: int
    steps: int
    spent: dict[int, float]


@dataclass(frozen=True)
class Waits:
    """How long the training waited for some of its batches, and for how many."""

    seconds: float = 0.0
    count: int = 0


@dataclass(frozen=True)
class Run:
    """What was recorded of one run of a script: the waist of the program, saved as one file."""

    version: str
    script: str
    argv: tuple[str, ...]
    cwd: str
    started: float
    wall_seconds: float
    ended: str
    exit_code: int | None
    backend: str | None
    versions: dict[str, str]
    machine: dict[str, Any]
    nodes: dict[int, Node]
    called: dict[int, Called]
    stages: dict[int, tuple[Stage, ...]]
    compiles: dict[int, tuple[Compile, ...]]
    inside: dict[int, tuple[Inside, ...]]
    first_waits: dict[int, Waits]
    sampled: tuple[Sampled, ...]
    beside: dict[str, float]
    own: dict[str, float]
    facts: tuple[dict[str, Any], ...]
    unseparated: frozenset[int]
    samples: tuple[MachineSample, ...]
    path: str = ""
    git: str | None = None
    ticks: tuple[Tick, ...] = field(repr=False, default=())
    marks: tuple[Mark, ...] = field(repr=False, default=())
