"""The values that travel between the stages: frozen, typed, and free of Keras."""

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
class Removal:
    """How an experiment takes a cause away in every other stretch of a training, and leaves the rest as it is."""

    kind: str
    """hooks, saving, validation, replay, settings, tune or wrapped: what is below observe/removals."""
    does: str
    """What is different without the cause, in words."""
    where: Where | None
    """The fit that it is done to."""
    by: str = "epochs"
    """What a stretch consists of: steps, or whole epochs."""
    arguments: dict[str, Any] = field(default_factory=dict)
    bound: bool = False
    """Whether no remedy could gain more than this: the input is free."""


@dataclass(frozen=True)
class Patch:
    """The edit that removes a cause, as a unified diff."""

    diff: str
    unsafe: str = ""
    """What may be different afterwards; empty if the batches and the losses stay equal."""


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
    """What an experiment showed; where it holds 1, the cause was not confirmed."""
    proof: str = ""
    """How it was shown, or why an experiment could not say."""
    patch: Patch | None = None
    removal: Removal | None = field(repr=False, default=None)
    """How an experiment can take the cause away, where that is possible inside the training."""


@dataclass(frozen=True)
class Replacement:
    """A piece of a file's text, from one character up to another, and what is to stand there instead.

    Characters are counted in the text as the rules read it: without a byte order mark, and every line ended by one
    newline.
    """

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Around:
    """A remedy of fitscope's around a callback of some class."""

    callback: str
    remedy: str
    """Background or Every."""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Edit:
    """What to change in one file to remove the cause of a finding."""

    finding: Finding
    file: str
    replacements: tuple[Replacement, ...]
    does: str
    unsafe: str = ""
    """What may be different afterwards; empty if the batches and the losses stay equal."""
    imports: tuple[str, ...] = ()
    """Lines that the file needs among its imports."""
    around: Around | None = None
    """What it puts around a callback."""

    @property
    def safe(self) -> bool:
        """Whether the training stays the same: equal batches and, at a fixed seed, equal losses."""
        return not self.unsafe


@dataclass(frozen=True)
class Advice:
    """A finding without an edit, and why there is none."""

    finding: Finding
    why: str


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


@dataclass(frozen=True)
class LayerCost:
    """What a layer costs in one step, or what the optimizer, the loss, the metrics or the rest of the step do."""

    name: str
    part: str
    """layer, optimizer, loss, metrics or rest"""
    kind: str
    """The layer's class."""
    calls: int
    seconds: float
    """Forward, backward and update together."""
    share: float
    """Of the step."""
    plus_minus: float | None
    """Seconds that the measurement may be off, at 95 %; None where too few steps were seen to tell."""
    forward_seconds: float
    backward_seconds: float
    update_seconds: float
    """The optimizer's work on the layer's weights."""
    parameters: int
    activation_bytes: int
    """Of the layer's outputs."""
    flops: int | None
    """Of forward and backward together; None where the layer's kind does not tell."""
    forward_flops: int | None
    flops_per_second: float | None
    peak_share: float | None
    """Of what a matrix multiplication reaches here."""
    bound: str
    """compute, memory or dispatch: what the time is spent on"""
    output: tuple[int, ...]


@dataclass(frozen=True)
class LayerAccount:
    """What each layer costs in the real step of a training; the parts add up to the step."""

    script: str
    argv: tuple[str, ...]
    cwd: str
    started: float
    backend: str
    versions: dict[str, str]
    device: str
    model: str
    batch: tuple[tuple[int, ...], ...]
    """The shapes of the batch that was measured on."""
    jit_compile: bool
    step_seconds: float
    plus_minus: float | None
    steps: int
    """Steps that were timed."""
    profiled_steps: int
    profiled_seconds: float
    """A step on the profiler, before the profiler's own time is taken off."""
    peak_flops: float | None
    bandwidth: float | None
    """Floating point operations of a matrix multiplication, and bytes copied in memory, per second, here."""
    layers: tuple[LayerCost, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """All that is said of a run: where the time went, what is wrong, and what makes that uncertain."""

    run: Run
    account: Account
    findings: tuple[Finding, ...] = ()
    doubts: tuple[str, ...] = ()
    trace: Timeline | None = None
    layers: LayerAccount | None = None


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
