"""Where the time of a run went."""

from __future__ import annotations

from dataclasses import dataclass, field

from fitscope.model.run import Compile, Inside, Line, MachineSample, Stage, Waits, Where


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
class StepSeconds:
    """The time from the end of one step to the end of the next."""

    median: float
    p95: float


@dataclass(frozen=True)
class Epoch:
    """One epoch, or several in a row where there were many: its seconds by phase."""

    first: int
    last: int
    ended: float
    wall_seconds: float
    steps: int
    phases: dict[str, float]


@dataclass(frozen=True)
class Steps:
    """Some steps in a row: the shortest, the median and the longest of them, in seconds."""

    first: int
    last: int
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Outlier:
    """A step that took far longer than the others, with the part that took more than usual meanwhile."""

    step: int
    epoch: int | None
    seconds: float
    times: float
    first: bool = False
    """The first step of its epoch."""
    phase: str = ""
    name: str = ""
    extra_seconds: float = 0.0


@dataclass(frozen=True)
class Interval:
    """A stretch of the run, in seconds since its start, with what it was spent on and the steps that ended in it."""

    began: float
    ended: float
    phases: dict[str, float]
    steps: int = 0


@dataclass(frozen=True)
class Calmest:
    """What a step takes where nothing disturbs it: steps in a row, cut into stretches, the shortest of these."""

    seconds: float
    """A step of the calmest stretches."""
    usual: float
    """A step of the stretch in the middle."""
    stretches: int


@dataclass(frozen=True)
class Course:
    """How a region went on: by epoch, by step and by the clock."""

    epochs: tuple[Epoch, ...] = ()
    steps: tuple[Steps, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    intervals: tuple[Interval, ...] = ()
    calmest: Calmest | None = None
    """Unknown of few steps."""


@dataclass(frozen=True)
class Cost:
    """What a line of the user's code costs: measured, or by sampling; of the training, or beside it per batch."""

    where: Where
    function: str
    what: str
    seconds: float
    share: float | None
    kind: str
    """measured, sampled, or per batch (beside the training)"""


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
    phases: tuple[Part, ...] = ()
    """The parts of each phase as one."""
    pipeline: tuple[Stage, ...] = ()
    """The stages of the input in the order in which a batch goes through them."""
    course: Course = field(repr=False, default=Course())


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
    held_up: float | None = None
    """Of the time that threads of the training's own process wanted a core, the share in which they had none."""


@dataclass(frozen=True)
class Account:
    """Where the time of a run went: every region's parts add up to its wall time."""

    regions: tuple[Region, ...]
    overhead_seconds: float
    overhead_share: float
    notes: tuple[str, ...]
    use: Use | None = None
    lines: tuple[Cost, ...] = ()
    outside_seconds: float = 0.0
    """The script's time in which nothing trained."""
