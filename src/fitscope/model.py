"""The values that travel between the stages: frozen, typed, and free of Keras."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1
"""The number of the run file's format and of the JSON report."""

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


@dataclass(frozen=True)
class Part:
    """One line of the account of a region."""

    phase: str
    name: str
    where: Where | None
    seconds: float
    share: float
    count: int
    lines: tuple[Line, ...] = ()
    inner: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Waits:
    """How long the training waited for some of its batches, and for how many."""

    seconds: float = 0.0
    count: int = 0


@dataclass(frozen=True)
class StepSeconds:
    """The time from the end of one step to the end of the next."""

    median: float
    p95: float


@dataclass(frozen=True)
class Region:
    """A place in the code that trains, evaluates or predicts, with where its time went."""

    call: str
    where: Where | None
    calls: int
    wall_seconds: float
    steps: int
    epochs: int
    step_seconds: StepSeconds | None
    parts: tuple[Part, ...]
    stages: tuple[Stage, ...]
    compiles: tuple[Compile, ...]
    inside: tuple[Inside, ...]
    first_waits: Waits
    """The wait for the first batch of each epoch."""
    forced_sync: tuple[str, ...]
    threads: tuple[Line, ...]
    workers: tuple[str, ...]
    notes: tuple[str, ...]
    durations: tuple[float, ...] = field(repr=False, default=())
    roots: tuple[int, ...] = ()
    """The nodes of the run that this region is made of: facts are joined by them."""


@dataclass(frozen=True)
class Use:
    """How much of the machine a run used, from samples taken once a second."""

    cores_busy: float
    process_cpu: float
    memory_peak_bytes: int
    memory_grown_bytes: int
    io_wait: float
    major_faults: int
    swap_bytes: int
    gpu_utilization: tuple[float, ...]
    gpu_memory_peak_bytes: tuple[int, ...]
    over_time: tuple[MachineSample, ...]


@dataclass(frozen=True)
class Account:
    """Where the time of a run went: every region's parts add up to its wall time."""

    regions: tuple[Region, ...]
    overhead_seconds: float
    overhead_share: float
    notes: tuple[str, ...]
    use: Use | None = None


@dataclass(frozen=True)
class Evidence:
    """One number of this run that a finding rests on; the unit is share, seconds, count, times or bytes."""

    what: str
    value: float
    unit: str


@dataclass(frozen=True)
class Speedup:
    """How many times faster the whole training is, as an interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Finding:
    """A cause of slow training: measured in a run, or read from the source alone (then without evidence)."""

    code: str
    name: str
    family: str
    says: str
    where: Where | None
    evidence: tuple[Evidence, ...]
    estimated: Speedup | None
    remedy: str
    fixable: bool = False
    verified: Speedup | None = None


@dataclass(frozen=True)
class Report:
    """All that is said of a run: where the time went, what is wrong, and what makes that uncertain."""

    run: Run
    account: Account
    findings: tuple[Finding, ...] = ()
    doubts: tuple[str, ...] = ()
