"""A run as the rules read it: its regions, what was set and what the source says, with the sums they need."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from fitscope.model import Account, Evidence, LayerAccount, Line, Part, Region, Run, Stage, Where
from fitscope.source import Script

LEAST = 0.03
"""Nothing is a cause that takes less than this share of the training."""

FOREIGN_CORES = 0.5
"""From so many processors used by other programs on, they are said to disturb."""

LEAST_WAIT = 0.08
"""A wait for data below this share is nobody's fault: some of it every training has."""

PAUSE = 0.003
COLD_SHARE, COLD_SECONDS = 0.5, 0.0015
"""After an idle pause of some milliseconds the next step is slower: by so many seconds, at most by that share."""

READ_AHEAD = {"tensorflow": 2}
"""Batches that Keras reads before it trains, to learn their shapes; one where nothing is said."""

CONTENDED = {"tensorflow": 0.6}
CONTENDED_ELSEWHERE = 0.3
"""The part of a step that goes to waiting for the interpreter or a core while other threads prepare data: on
TensorFlow 40 to 74 % of short steps were gone once the pipeline was light."""

BETWEEN = "your code between calls"
"""The part in which a loop written by hand makes its next batch."""
FEW_SAMPLES = 5
"""So few seconds do not show how much of the processors a training uses."""
FEW_LOOKS = 10
"""So few looks at code show no line that stands out."""
PYTHON_SOURCES = ("PyDataset", "generator", "DataLoader")


MORE = 1.2
"""What is left is faster, too, once a cause is gone: caches, cores and the interpreter are free for it. In the middle
of 58 pairs of scripts the gain was 1.4 times what the seconds alone say, in the rules' own examples 1.1 times."""


def usual_spread(gain: float) -> float:
    """How far a gain may be off, as a factor: 2, and less where the speedups would be more than 2 times apart.

    With intervals of a factor of 1.4, a third of the gains of the rules' own examples, run once each, lay outside.
    """
    if gain <= 0:
        return 1.0
    return min(2.0, 0.99 * (1 + math.sqrt(1 + 8 * gain * gain)) / (2 * gain))


@dataclass(frozen=True)
class Case:
    """One recorded run, ready for the rules."""

    run: Run
    account: Account
    script_of: Callable[[str], Script | None] = field(default=lambda file: None)
    """Reads a source file of the user's, where it is at hand and unchanged."""
    layers: LayerAccount | None = None
    """What `fitscope layers` has measured of the same script."""

    @cached_property
    def seconds(self) -> float:
        """The training as a whole: all that estimates refer to."""
        return sum(region.wall_seconds for region in self.account.regions)

    @property
    def cores(self) -> int:
        """The processors that the run could use."""
        return int(self.run.machine.get("cores") or 1)

    @property
    def foreign_cores(self) -> float:
        """Processors that other programs used meanwhile, on average; 0 where too little was seen of them."""
        use = self.account.use
        return max(0.0, use.cores_busy - use.process_cpu) if use is not None and len(use.over_time) > 2 else 0.0

    @property
    def share_of_work(self) -> float:
        """The share of its time in which code that computes holds a processor, at the least.

        Where other programs use the processors, it is smaller: to want one and have none is not to wait for data.
        """
        if self.foreign_cores < FOREIGN_CORES:
            return 0.5
        return max(0.15, 0.5 * (1 - self.foreign_cores / self.cores))

    def matters(self, seconds: float, least: float = LEAST) -> bool:
        """Whether so many seconds are worth a finding."""
        return self.seconds > 0 and seconds >= least * self.seconds

    def saves(self, seconds: float, spread: float | None = None) -> tuple[float, float]:
        """What goes away if so many seconds do, give or take: the gain is right to a factor of `spread`."""
        left = max(self.seconds - seconds, 0.01 * self.seconds)
        gain = self.seconds / left - 1
        if spread is None:
            gain *= MORE
            spread = usual_spread(gain)
        return self.seconds * (1 - 1 / (1 + gain / spread)), self.seconds * (1 - 1 / (1 + gain * spread))

    def regions(self, *calls: str) -> list[Region]:
        """The regions of these calls; of all if none is named."""
        return [region for region in self.account.regions if not calls or region.call in calls]

    def facts(self, kind: str, region: Region) -> list[dict[str, Any]]:
        """What was noted of a kind in a region."""
        return [fact for fact in self.run.facts if fact["fact"] == kind and fact.get("root") in region.roots]

    def validates(self, region: Region) -> bool:
        """Whether a loop written by hand calls a model and changes no weights, beside another one that does."""
        if region.call != "loop" or self.facts("loop-updates", region):
            return False
        return any(self.facts("loop-updates", other) for other in self.regions("loop"))

    def settings(self, region: Region) -> dict[str, Any]:
        """What the training of a region was set to do; empty where nobody knows."""
        return next(iter(self.facts("settings", region)), {})

    def work(self, region: Region) -> float | None:
        """Floating point operations of a step for one example, forward and backward; None where that is not known."""
        settings = self.settings(region)
        if settings.get("multiplications"):
            return 6.0 * float(settings["multiplications"])  # backward is twice as much as forward
        return float(settings["work"]) if settings.get("costs_complete") else None

    def part_of_work(self, region: Region, kinds: Container[str]) -> float:
        """The share of a model's work that is in layers of some kinds; 0 where that is not known."""
        settings = self.settings(region)
        if not settings.get("work") or not settings.get("costs_complete"):
            return 0.0
        inside = sum(cost["flops"] for cost in settings.get("costs", ()) if cost["kind"] in kinds)
        return float(inside / settings["work"])

    @cached_property
    def inputs(self) -> list[Input]:
        """The input of every region that waits for it long enough to matter."""
        found = [Input(self, region) for region in self.account.regions]
        return sorted((each for each in found if self.matters(each.wait, LEAST_WAIT)), key=lambda each: -each.wait)

    def line(self, where: Where | None) -> str:
        """The text of a line of the user's source; empty where it is not at hand."""
        script = self.script_of(where.file) if where is not None else None
        return script.line(where.line) if script is not None and where is not None else ""

    def find(self, pattern: str, *, imported: bool = False) -> Where | None:
        """The first line of the user's source that matches, in the files that this run went through.

        `imported`: or in modules beside them that they import.
        """
        files = dict.fromkeys(node.where.file for node in self.run.nodes.values() if node.where is not None)
        scripts = {file: script for file in files if (script := self.script_of(file)) is not None}
        beside = [
            str(Path(file).with_name(f"{name}.py")) for file, script in scripts.items() for name in script.modules
        ]
        wanted = re.compile(pattern)
        for file in (*scripts, *(sorted(beside) if imported else ())):
            script = self.script_of(file)
            for number, text in enumerate(script.lines if script is not None else (), start=1):
                if wanted.search(text.split("#", 1)[0]):
                    return Where(file, number)
        return None

    def in_loop(self, where: Where | None) -> bool:
        """Whether a line of the user's source runs in a loop of its function (that over the batches is none)."""
        script = self.script_of(where.file) if where is not None else None
        return script is not None and where is not None and script.in_loop(where.line, but_yielding=True)


def seconds_of(region: Region, *phases: str) -> float:
    """What the parts of these phases took."""
    return sum(part.seconds for part in region.parts if part.phase in phases)


def parts_of(region: Region, *phases: str) -> list[Part]:
    """The parts of these phases, dearest first."""
    return [part for part in region.parts if part.phase in phases]


def cold(region: Region, paused: float) -> float:
    """What the steps of a region lose because something makes them pause for so long in all."""
    if paused < PAUSE * max(1, region.steps):
        return 0.0
    return min(COLD_SHARE * seconds_of(region, "step"), COLD_SECONDS * region.steps)


def shorter_end(region: Region, saved: float) -> float:
    """What the end of a pipeline gives back if its passes get shorter: it blocks for about as long as they took."""
    closing = sum(part.seconds for part in parts_of(region, "epoch") if part.name.startswith("closing"))
    running = seconds_of(region, "data", "step", "callback", "logs", "progress", "checkpoint")
    return closing * min(1.0, saved / running) if running else 0.0


def with_end(region: Region, low: float, high: float) -> tuple[float, float]:
    """Seconds by which the steps get shorter, at the least and at the most, with what the end then gives back."""
    return low + shorter_end(region, low), high + shorter_end(region, high)


def with_validation(region: Region, low: float, high: float) -> tuple[float, float]:
    """What a change of the model saves: the steps of validations get shorter, too, in proportion."""
    step = seconds_of(region, "step")
    validating = sum(part.seconds for part in parts_of(region, "validation") if part.name.startswith("step"))
    times = validating / step if step else 0.0
    lower, higher = with_end(region, low, high)
    return lower + times * low, higher + times * high


def share(what: str, value: float) -> Evidence:
    """A part of the training."""
    return Evidence(what, value, "share")


def took(what: str, value: float) -> Evidence:
    """A duration."""
    return Evidence(what, value, "seconds")


def counted(what: str, value: float) -> Evidence:
    """A number of things."""
    return Evidence(what, value, "count")


class Input:
    """How the input of one region keeps it waiting."""

    def __init__(self, case: Case, region: Region) -> None:
        self.case = case
        self.region = region
        waits = parts_of(region, "data")
        waits = [part for part in waits if part.name != BETWEEN] or waits
        self.source = waits[0].name if waits else ""
        inside = [part for part in region.parts if part.phase == "validation" and part.name.startswith("data: ")]
        self.training_wait = sum(part.seconds for part in waits)
        self.validation_wait = sum(part.seconds for part in inside)
        self.wait = self.training_wait + self.validation_wait
        self.lines: tuple[Line, ...] = waits[0].lines if waits else ()
        self.python = [stage for stage in region.stages if stage.working is not None and stage.seconds_per_batch]
        self.native = [stage for stage in region.stages if stage.working is None and stage.seconds_per_batch]
        described: list[dict[str, Any]] = next((fact["stages"] for fact in case.facts("pipeline", region)), [])
        self.pipeline = described[::-1]
        """The stages as they were written, first to last."""
        self.injects_prefetch = all(fact.get("inject_prefetch", True) for fact in case.facts("pipeline", region))
        self.workers = max((fact["workers"] for fact in case.facts("workers", region)), default=0)

    @property
    def batches(self) -> int:
        """How many batches were trained on."""
        return max(1, self.region.steps)

    @property
    def share(self) -> float:
        """The wait as a part of the training."""
        return self.wait / self.case.seconds if self.case.seconds else 0.0

    @property
    def usual_wait(self) -> float:
        """What any batch but the first of an epoch is waited for."""
        firsts = self.region.first_waits
        return (self.training_wait - firsts.seconds) / max(1, self.region.steps - firsts.count)

    @property
    def beginning(self) -> float:
        """All that the first batches of epochs are waited for beyond that: filling buffers, starting workers."""
        firsts = self.region.first_waits
        return firsts.seconds - firsts.count * self.usual_wait

    @cached_property
    def function(self) -> Stage | None:
        """The user's Python function that takes the longest, if Python explains the wait."""
        slowest = max(self.python, key=self.busy, default=None)
        if slowest is None or sum(self.busy(stage) for stage in self.python) < 0.5 * self.wait:
            return None
        return slowest

    def busy(self, stage: Stage | None) -> float:
        """Seconds that a stage was at work, all its threads together."""
        return (stage.seconds_per_batch or 0.0) * self.batches * self.at_work(stage) if stage is not None else 0.0

    def at_work(self, stage: Stage) -> float:
        """The part of the batches for which a stage was there: before a cache it is gone once that is full."""
        kinds = [each["kind"] for each in self.pipeline]
        written = self.written(stage)
        if not stage.batches or written not in self.pipeline or "cache" not in kinds:
            return 1.0
        cache = len(kinds) - 1 - kinds[::-1].index("cache")
        if self.pipeline.index(written) > cache:
            return 1.0
        # At the end of the data a cache is gone as early as what is before it; that of a validation counts with it.
        behind = [each.get("where") for each in self.pipeline[cache + 1 :]]
        caches = [each.batches for each in self.native if "Cache" in each.name and each.batches]
        others = [each.batches for each in self.native if each.batches and each.where and each.where in behind]
        seen = min((max(each) for each in (caches, others) if each), default=0)
        return min(1.0, stage.batches / seen) if seen else 1.0

    @property
    def computes(self) -> bool:
        """Whether the Python function works for most of what is waited, rather than waiting itself."""
        busy = sum(self.busy(stage) for stage in self.python)
        worked = sum(self.busy(stage) * (stage.working or 0.0) for stage in self.python)
        if worked >= self.case.share_of_work * busy:
            return True
        # Threads that take turns at the interpreter each work for a part of their time only.
        return worked >= 0.5 * self.training_wait and worked >= 0.15 * busy

    @property
    def python_computes(self) -> bool:
        """Whether Python code works in the input: the user's function, or a generator that feeds tf.data."""
        return self.computes if self.function is not None else self.generates

    @property
    def generates(self) -> bool:
        """Whether tf.data waits for a Python generator, row by row."""
        return self.source == "tf.data" and self.slowest is not None and self.slowest.name == "Generator"

    @property
    def generator_waits(self) -> bool:
        """Whether that generator itself does nothing but wait."""
        return self.generates and self.function is not None and not self.computes

    @property
    def per_example(self) -> float:
        """How often the function is called for one batch."""
        stage = self.function
        return (stage.elements_per_batch or 1.0) if stage is not None else 1.0

    @cached_property
    def slowest(self) -> Stage | None:
        """The stage of a tf.data pipeline that takes the longest, if the stages explain the wait."""
        stage = max(self.native, key=self.busy, default=None)
        total = sum(self.busy(each) for each in self.native)
        return stage if stage is not None and total >= 0.4 * self.wait else None

    def written(self, stage: Stage | None) -> dict[str, Any]:
        """What was written for a stage of the model: the same kind at the same line."""
        if stage is None:
            return {}
        found = [each for each in self.pipeline if stage.where is not None and each.get("where") == stage.where]
        with_function = [each for each in found if "python" in each]
        return next(iter(with_function or found), {})

    @property
    def looked_at(self) -> tuple[Line, ...]:
        """The lines of the loading code: on the training's own thread, or on others where it is not there."""
        return self.region.threads if self.region.threads and not self.lines else self.lines

    def doing(self, what: str) -> float:
        """The share of looks at the loading code that found it doing something."""
        total = sum(line.samples for line in self.looked_at)
        return sum(line.samples for line in self.looked_at if line.doing == what) / total if total else 0.0

    @property
    def hot_line(self) -> Line | None:
        """The line of loading code that most looks found."""
        file = self.function.where.file if self.function is not None and self.function.where else None
        lines = [line for line in (*self.lines, *self.region.threads) if file in (None, line.where.file)]
        return max(lines, key=lambda line: line.samples, default=None)

    @property
    def between(self) -> Line | None:
        """Where the training waits for the user's own code between two steps: its line, if one stands out."""
        line = self.hot_line if self.source == BETWEEN else None
        total = sum(each.samples for each in self.lines)
        own = line is not None and line.where != self.region.where  # the line that calls the step says nothing
        return line if line is not None and own and total >= FEW_LOOKS and line.samples >= 0.3 * total else None

    @property
    def passes(self) -> float:
        """How often the data is gone through: epochs, times what the pipeline repeats."""
        repeats = [each.get("size") or 0 for each in self.pipeline if each["kind"] == "repeat"]
        if any(size < 0 for size in repeats):
            return 1  # repeated without end: nobody knows how much of it an epoch draws
        return max(1, self.region.epochs) * max([1, *repeats])

    def saved(self, remaining: float, *, busy_after: bool = False) -> float:
        """Seconds that go away if that share of the wait remains (`busy_after`: with workers beside the training).

        With the wait goes the time that the step loses to Python code in the pipeline's threads, and the end
        of a pipeline, which blocks for about as long as the pass before it took.
        """
        region = self.region
        saved = self.wait * (1 - remaining)
        step = seconds_of(region, "step")
        beside = self.case.run.backend == "tensorflow" or self.source == "tf.data"
        idle = self.function is not None and not self.computes and not busy_after
        slower = cold(region, self.training_wait) if idle else 0.0
        contended = step * CONTENDED.get(self.case.run.backend or "", CONTENDED_ELSEWHERE)
        if beside and self.python_computes:
            worked = sum(self.busy(stage) for stage in self.python) or self.busy(self.slowest)
            slower = max(slower, min(contended, 0.5 * worked))
        elif self.function is None:
            worked = sum(self.busy(stage) for stage in self.native)
            slower = max(slower, min(contended, 0.5 * worked))
        saved += slower * (1 - remaining)
        if self.function is not None and self.source in PYTHON_SOURCES:
            # Keras reads the first batches while it prepares, to learn their shapes.
            first = READ_AHEAD.get(self.case.run.backend or "", 1) * (self.function.seconds_per_batch or 0.0)
            saved += min(seconds_of(region, "setup"), first * region.calls) * (1 - remaining)
        saved = max(0.0, saved - self.hidden * (1 - remaining))
        return saved + shorter_end(region, saved)

    @cached_property
    def hidden(self) -> float:
        """Seconds of steps that are computed while the training thread loads, and come to light once it does not.

        JAX only dispatches a step. What the process used of the processors beside the loading function and the
        training thread was the steps'.
        """
        case, region, use, function = self.case, self.region, self.case.account.use, self.function
        if case.run.backend != "jax" or use is None or len(use.over_time) < FEW_SAMPLES or function is None:
            return 0.0
        one_thread = self.source in PYTHON_SOURCES and self.workers <= 1 and function.parallelism <= 1
        on_device = case.settings(region).get("device", "cpu") != "cpu"
        if not one_thread or on_device or case.facts("forced-sync", region):
            return 0.0
        used = median(sample.process_cpu for sample in use.over_time)
        loop = seconds_of(region, "data", "step", "transfer", "logs", "callback", "progress")
        loading = self.busy(function) * (function.working or 0.0)
        beside = used * loop - loading - (loop - self.training_wait)
        return min(self.training_wait, max(0.0, beside) / case.cores)

    @property
    def slack(self) -> float:
        """Seconds that the steps with all around them may lose before nothing is left but waiting for the loader.

        Where loading goes on beside the training, what is taken out of the loop is first waited for instead.
        """
        slowest = self.function or self.slowest
        beside = self.case.run.backend == "tensorflow" or self.source == "tf.data"
        if slowest is None or not (beside or self.workers or slowest.parallelism > 1):
            return math.inf
        loading = self.busy(slowest) / max(1, slowest.parallelism, self.workers)
        loop = seconds_of(self.region, "data", "step", "transfer", "callback", "logs", "progress", "checkpoint")
        return max(0.0, loop - loading)

    def evidence(self) -> tuple[Evidence, ...]:
        """What every finding on input rests on."""
        found = [share("of the training waits for data", self.share)]
        stage = self.function or self.slowest
        if stage is not None:
            found.append(took(f"of work per batch in {stage.name}", stage.seconds_per_batch or 0.0))
        return tuple(found)

    @property
    def claims(self) -> frozenset[str]:
        """The parts of the account that a cause of this wait explains."""
        return frozenset({f"{id(self.region)}:data"})

    @property
    def shares(self) -> dict[str, float]:
        """The wait inside the validation, which less validation would end, too."""
        only = self.region.call == "evaluate" or self.case.validates(self.region)
        wait = self.wait if only else self.validation_wait
        return {f"{id(self.region)}:validation:data": wait}
