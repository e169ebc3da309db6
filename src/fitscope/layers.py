"""What each layer costs in the real step of a script's training: measured in a copy of its folder.

The step is timed by the clock and, in turns, profiled (`observe/dissect.py`). The profile says how the step's time is
divided (`trace/scopes.py`), the clock how long it is. What the profiler itself adds is taken off again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from fitscope import limits, store, words
from fitscope.compare import student
from fitscope.doctor import speed
from fitscope.doctor.examine import ask
from fitscope.experiment import Attempt, Workspace, script_version, unguarded
from fitscope.model import UPDATE, FitscopeError, LayerAccount, LayerCost, Run
from fitscope.observe import start
from fitscope.rules.case import FOREIGN_CORES
from fitscope.trace import scopes
from fitscope.trace.scopes import Scope, Spent, Step

CONFIDENCE = 0.95
WAIT = 600.0
"""Seconds until the script's first step."""
MANY_STEPS = 50
"""Steps of a loop written by hand after which nothing else is waited for."""
HELD_UP = 1.3
"""A profiled step that takes so many times as long as the fast ones was held up."""
PER_EVENT = 5e-6
"""Seconds that the profiler needs for one operation, at most."""
MOSTLY = 0.5
NUMBER_BYTES = 4
PASSES_OVER_WEIGHTS, PASSES_OVER_TENSORS = 8, 3
"""How often a step goes over weights (forward, backward, and the optimizer with its slots) and over inputs and
outputs: an estimate, for the question what bounds a layer."""


def measure(
    script: Path, arguments: Sequence[str], seconds: float, tell: Callable[[str], None] = lambda text: None
) -> LayerAccount:
    """Runs a script up to its first training step, measures that, and ends it."""
    folder = Path.cwd()
    began = time.time()
    version = script_version(script.name, script, arguments, {})
    with Workspace(folder) as workspace:
        if warning := unguarded():
            tell(warning)
        tell(f"{script.name} runs up to its first training step")
        deadline = time.monotonic() + WAIT + 4 * seconds
        watch = _Progress(script.name, tell).look
        run, fact = _measured(workspace.attempt(version, deadline, {start.LAYERS: repr(seconds)}, watch), script.name)
        tell("reading the profiles")
        rounds = [scopes.read(Path(run.path).parent / str(name)) for name in fact["traces"]]
    tell("measuring what this machine reaches on a matrix multiplication")
    peak, bandwidth = _machine(run.backend or "")
    costs = Costs(fact, rounds, peak, bandwidth)
    return LayerAccount(
        script=str(script),
        argv=tuple(arguments),
        cwd=str(folder),
        started=began,
        backend=run.backend or "",
        versions=run.versions,
        device=str(fact["device"]),
        model=str(fact["model"]),
        batch=tuple(tuple(shape) for shape in fact["batch"]),
        jit_compile=bool(fact["jit_compile"]),
        step_seconds=costs.step.middle,
        plus_minus=costs.step.plus_minus,
        steps=sum(len(each) for each in fact["by_clock"]),
        profiled_steps=sum(len(each) for each in costs.usual),
        profiled_seconds=costs.profiled,
        peak_flops=peak,
        bandwidth=bandwidth,
        layers=tuple(costs.layers()),
        notes=(*fact["notes"], *costs.notes, *_disturbed(run)),
    )


def _measured(attempt: Attempt, script: str) -> tuple[Run, dict[str, Any]]:
    """The run and what was measured in it, or a sentence about why that is nothing."""
    run = attempt.run
    fact = next((fact for fact in run.facts if fact["fact"] == "layers"), None) if run is not None else None
    if run is not None and fact is not None:
        if "problem" in fact:
            raise FitscopeError(f"the step of {script} could not be measured: {fact['problem']}.")
        return run, fact
    if attempt.code is None:
        raise FitscopeError(f"{script} made no training step within {words.seconds(attempt.seconds)}.")
    if attempt.code:
        last = (attempt.output.strip().splitlines() or [""])[-1].strip()[:200]
        raise FitscopeError(f"{script} ended with exit code {attempt.code}" + (f": {last}." if last else "."))
    raise _nothing_to_measure(script)


class _Progress:
    """Passes on what the measurement says of itself."""

    def __init__(self, script: str, tell: Callable[[str], None]) -> None:
        self._script = script
        self._tell = tell
        self._follower: store.Follower | None = None
        self._said = 0

    def look(self, path: Path) -> None:
        """Says what is new; ends the wait for a step where a loop trains that has none of Keras' own."""
        if not path.is_file():
            return
        self._follower = self._follower or store.Follower(path)
        run = self._follower.read()
        if run is None:
            return
        said = [str(fact["says"]) for fact in run.facts if fact["fact"] == "progress"]
        for text in said[self._said :]:
            self._tell(text)
        self._said = len(said)
        loops = [number for number, node in run.nodes.items() if (node.phase, node.name) == ("region", "loop")]
        if not said and any(run.called[number].steps >= MANY_STEPS for number in loops if number in run.called):
            raise _nothing_to_measure(self._script)


def _nothing_to_measure(script: str) -> FitscopeError:
    return FitscopeError(
        f"{script} made no step that could be measured: layers are measured in the first fit or train_on_batch of a "
        "Keras model, not in loops written by hand."
    )


def _machine(backend: str) -> tuple[float | None, float | None]:
    """Operations per second of a matrix multiplication with this backend, and bytes per second copied in memory."""
    flops = ask(backend, without_device=False).get("flops")
    found = limits.limits()
    threads = max(1, min(8, int(limits.may_use(found["usable_cores"], found["quota_cores"]))))
    try:
        copied = speed.copy_rate(threads)
    except (OSError, MemoryError):
        copied = None
    return (float(flops) if flops else None), copied


def _disturbed(run: Run) -> Iterable[str]:
    cores = len(run.samples[0].cores) if run.samples else 0
    used = [sum(sample.cores) - sample.process_cpu for sample in run.samples if sample.process_cpu is not None]
    if cores and len(used) > 2 and fmean(used) >= FOREIGN_CORES:
        yield f"Other programs used {fmean(used):.1f} processors meanwhile: times may be longer than they need be."


@dataclass(frozen=True)
class Measured:
    """A number that was measured in several rounds."""

    middle: float
    plus_minus: float | None

    @classmethod
    def of(cls, rounds: Sequence[Sequence[float]], middle: Callable[[Sequence[float]], float]) -> Measured:
        """The middle of the rounds' middles, and Student's interval; if there is one round only, of its steps."""
        each = [middle(found) for found in rounds] if len(rounds) > 1 else list(rounds[0])
        if len(each) < 2:
            return cls(each[0], None)
        half = student(CONFIDENCE, len(each) - 1) * stdev(each) / math.sqrt(len(each))
        return cls(middle(each), half)


@dataclass
class Taken:
    """What one row of the account took of a step: by way, and how sure that is."""

    forward: float = 0.0
    backward: float = 0.0
    update: float = 0.0
    waiting: float = 0.0
    variance: float = 0.0

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.forward + self.backward + self.update

    def add(self, way: str, spent: Spent, half: float) -> None:
        """Something more."""
        setattr(self, way, getattr(self, way) + spent.seconds)
        self.waiting += spent.waiting
        self.variance += half * half


PARTS = {"optimizer": "optimizer", "loss": "loss", "metrics": "metrics", "": "rest"}
REST = "rest of the step"


@dataclass
class Costs:
    """From what was measured to the rows of the account."""

    fact: dict[str, Any]
    rounds: Sequence[Sequence[Step]]
    peak: float | None
    bandwidth: float | None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Brings step and parts together."""
        each = int(self.fact["steps_per_execution"])
        steps = [step for found in self.rounds for step in found]
        if not steps:
            raise FitscopeError("the profile of the step holds no steps: the backend's profiler has seen nothing.")
        self.step = Measured.of([[long / each for long in found] for found in self.fact["by_clock"]], median)
        self.usual = _usual(self.rounds)
        self.profiled = median(step.seconds for found in self.usual for step in found) / each
        self.parts = self._divided()
        slower = self.profiled / self.step.middle
        if slower > 1.3:
            self.notes.append(
                f"The profiler made the step {slower:.1f} times as long: the times of small operations are rough."
            )
        if self.fact.get("updates_at_once"):
            self._share_update()

    def _divided(self) -> dict[Scope, tuple[Spent, float]]:
        """Seconds of every scope in a step as long as the clock says, with half of its interval."""
        corrected = [_without_profiler(found, self.step.middle, self.profiled) for found in self.usual]
        names = {scope for found in corrected for shares in found for scope in shares}
        result = {}
        for scope in names:
            share = Measured.of([[each.get(scope, Spent()).seconds for each in found] for found in corrected], fmean)
            waiting = fmean([fmean([each.get(scope, Spent()).waiting for each in found]) for found in corrected])
            whole = self.step.middle
            result[scope] = (Spent(share.middle * whole, waiting * whole, 0), (share.plus_minus or 0.0) * whole)
        return result

    def _share_update(self) -> None:
        """Divides an update of all weights at once by their number."""
        spent, half = self.parts.pop(("optimizer", False), (Spent(), 0.0))
        rows = [row for row in self.fact["rows"] if row["trainable"]]
        total = sum(row["trainable"] for row in rows)
        for row in rows:
            part = row["trainable"] / total
            key = (f"{UPDATE}{row['number']}", False)
            self.parts[key] = (Spent(spent.seconds * part, spent.waiting * part, 0), half * part)
        if total:
            self.notes.append("The optimizer updates all weights at once: its time is divided by their number.")
        else:
            self.parts["optimizer", False] = (spent, half)

    def layers(self) -> Iterable[LayerCost]:
        """The rows, dearest first; the rest of the step is the last."""
        rows = {str(row["number"]): row for row in self.fact["rows"]}
        taken: dict[str, Taken] = {}
        for (name, back), (spent, half) in self.parts.items():
            update = name.startswith(UPDATE) and name[len(UPDATE) :] in rows
            key = name[len(UPDATE) :] if update else name if name in rows or name in PARTS else ""
            way = "update" if update else "backward" if back else "forward"
            taken.setdefault(key, Taken()).add(way, spent, half)
        costs = []
        for key, found in taken.items():
            row = rows.get(key)
            if row is None:
                costs.append(self._part(key, found))
            elif found.seconds > 0 or row["parameters"]:
                costs.append(self._layer(row, found))
        for key, row in rows.items():
            if key not in taken and not row["group"] and row["calls"]:
                costs.append(self._layer(row, Taken()))
        return sorted(costs, key=lambda cost: (cost.part == "rest", -cost.seconds))

    def _part(self, key: str, found: Taken) -> LayerCost:
        part = PARTS[key]
        name = str(self.fact["optimizer"]) if part == "optimizer" else REST if part == "rest" else part
        parameters = self.fact["parameters"] if part == "optimizer" else 0
        bound = "dispatch" if found.waiting >= MOSTLY * found.seconds else "memory"
        return self._cost(name, part, "", found, parameters=parameters, bound=bound)

    def _layer(self, row: dict[str, Any], found: Taken) -> LayerCost:
        forward, backward = row["forward_flops"], row["backward_flops"]
        flops = forward + backward if forward is not None and backward is not None else None
        busy = found.forward + found.backward
        rate = flops / busy if flops and busy > 0 else None
        return self._cost(
            str(row["name"]),
            "layer",
            str(row["kind"]),
            found,
            calls=int(row["calls"]),
            parameters=int(row["parameters"]),
            activation_bytes=int(row["activation_bytes"]),
            flops=flops,
            forward_flops=forward,
            flops_per_second=rate,
            peak_share=rate / self.peak if rate and self.peak else None,
            bound=self._bound(row, found, flops or 0),
            output=tuple(row["outputs"][0]) if row["outputs"] else (),
        )

    def _bound(self, row: dict[str, Any], found: Taken, flops: int) -> str:
        """Dispatch where most of the time passes between operations or in tiny ones; else what takes longer here."""
        if found.seconds <= 0 or found.waiting >= MOSTLY * found.seconds:
            return "dispatch"
        if found.update >= MOSTLY * found.seconds:
            return "memory"
        moved = PASSES_OVER_TENSORS * row["moved_bytes"] + PASSES_OVER_WEIGHTS * NUMBER_BYTES * row["parameters"]
        computing = flops / self.peak if self.peak else math.inf if flops else 0.0
        moving = moved / self.bandwidth if self.bandwidth else 0.0
        return "compute" if computing >= moving and flops else "memory"

    def _cost(self, name: str, part: str, kind: str, found: Taken, **more: Any) -> LayerCost:
        whole = self.step.middle
        share = found.seconds / whole if whole else 0.0
        # The share is as uncertain as the rounds differ in it, and the step as they differ in length.
        step = self.step.plus_minus
        off = math.hypot(math.sqrt(found.variance), share * step) if step is not None else None
        values: dict[str, Any] = {
            "calls": 1,
            "parameters": 0,
            "activation_bytes": 0,
            "flops": None,
            "forward_flops": None,
            "flops_per_second": None,
            "peak_share": None,
            "output": (),
            **more,
        }
        return LayerCost(
            name=name,
            part=part,
            kind=kind,
            seconds=found.seconds,
            share=share,
            plus_minus=off,
            forward_seconds=found.forward,
            backward_seconds=found.backward,
            update_seconds=found.update,
            **values,
        )


def _usual(rounds: Sequence[Sequence[Step]]) -> list[list[Step]]:
    """The steps of each round without those that something held up; rounds of which nothing is left are left out.

    Under torch's profiler the same step may have tens of thousands of page faults that it does not have by the clock,
    and take ten times as long, in most of a profile or in none of it. The fast steps are like those of the clock.
    """
    every = sorted(step.seconds for found in rounds for step in found)
    limit = HELD_UP * every[len(every) // 10]
    usual = [[step for step in found if step.seconds <= limit] for found in rounds]
    return [found for found in usual if found]


def _without_profiler(found: Sequence[Step], by_clock: float, profiled: float) -> list[dict[Scope, Spent]]:
    """Shares of the steps of a round, less what the profiler needs for every operation that it notes."""
    shares = []
    for step in found:
        per_event = min(PER_EVENT, max(0.0, profiled - by_clock) / max(1, step.events))
        left = {}
        for scope, spent in step.scopes.items():
            own = min(0.9 * spent.seconds, per_event * spent.events)
            part = (spent.seconds - own) / spent.seconds if spent.seconds else 0.0
            left[scope] = Spent(spent.seconds - own, spent.waiting * part, spent.events)
        whole = sum(spent.seconds for spent in left.values())
        shares.append({scope: Spent(s.seconds / whole, s.waiting / whole, s.events) for scope, s in left.items()})
    return shares


def in_words(account: LayerAccount) -> str:
    """The one sentence to read."""
    first = next((cost for cost in account.layers if cost.part == "layer"), None)
    if first is None:
        return f"A step takes {words.seconds(account.step_seconds)}; no layer of it was seen."
    return f"{first.name} takes {words.share(first.share)} of a step of {words.seconds(account.step_seconds)}."
