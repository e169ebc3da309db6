"""One short run of a script with some settings: what it measured, or how it failed."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from fitscope.account import account
from fitscope.baseline import FOREIGN_CORES, ONCE
from fitscope.experiment import NO_MEMORY, Attempt
from fitscope.model import MachineSample, Measured, Region, Run
from fitscope.sweep.grid import VALUE, value_word

MEASURED, NO_FIT, FAILED, REFUSED = "measured", "does not fit", "failed", "refused"
TRAINS = ("fit", "loop", "train_on_batch")
NOT_STEPS = (*ONCE, "validation", "checkpoint", "epoch", "unexplained")
"""Phases that are no part of a step's time: what happens once, between epochs, or on fitscope's own behalf."""
OUT_OF_MEMORY = re.compile(
    r"\b\w*MemoryError\b|RESOURCE_EXHAUSTED|ResourceExhaustedError|OOM when allocating|out of memory"
    r"|std::bad_alloc|(?:can't|cannot) allocate memory",
    re.IGNORECASE,
)
ERROR_LINE = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b")
SHORT = 0.3
"""Seconds: what is left over at the end, being shorter, goes with the stretch before it."""
MUCH = 0.5
"""Of the machine's memory: a run that was killed while it held more was killed for that, as far as one can know."""


@dataclass(frozen=True)
class Ran:
    """How one run of a point ended."""

    state: str
    seconds: float
    says: str = ""
    measured: Measured | None = None
    trained_with: Mapping[str, Any] = field(default_factory=dict)
    """What the training was set to in the end; empty of a loop written by hand."""
    place: tuple[str, int] | None = None
    """Where the script calls `fit`, if it does."""
    whole: bool = False
    """Whether the script came to its end before enough was recorded."""
    files: tuple[str, ...] = ()
    """The files of the user's that it is made of, relative to the working folder."""

    @property
    def calm(self) -> bool:
        """Whether it is a measurement that other programs did not disturb."""
        return self.measured is not None and self.measured.foreign_cores < FOREIGN_CORES


def read(done: Attempt, settings: Mapping[str, Any], *, killed_for_memory: bool, memory_bytes: int) -> Ran:
    """What a run that has ended tells of its settings; `killed_for_memory`: the kernel did so meanwhile."""
    run = done.run
    files = next((tuple(fact["files"]) for fact in run.facts if fact["fact"] == "modules"), ()) if run else ()
    failed = _failure(done, killed_for_memory=killed_for_memory, memory_bytes=memory_bytes)
    if failed is not None:
        return Ran(failed[0], done.seconds, failed[1], files=files)
    assert run is not None
    refused = next((fact for fact in run.facts if fact["fact"] == "refused"), None)
    if refused is not None:
        return Ran(FAILED if refused["of_this_size"] else REFUSED, done.seconds, str(refused["why"]), files=files)
    region = _training(run)
    if region is None:
        return Ran(FAILED, done.seconds, "no training was seen", files=files)
    facts = _facts(run, region)
    measured = measure(run, region, facts.get("rows"))
    place = (region.where.file, region.where.line) if region.call == "fit" and region.where is not None else None
    ran = Ran(MEASURED, done.seconds, "", measured, facts, place, not done.stopped, files)
    if measured is None:
        return Ran(FAILED, done.seconds, "its training was too short to be measured", None, facts, place, True, files)
    kept = _kept(settings, facts)
    return Ran(FAILED, done.seconds, kept, None, facts, place, ran.whole, files) if kept else ran


def _failure(done: Attempt, *, killed_for_memory: bool, memory_bytes: int) -> tuple[str, str] | None:
    if done.code == NO_MEMORY:
        return NO_FIT, "it was ended before it took the last of the memory"
    if done.code is None:
        return FAILED, f"it was not done after {done.seconds:.0f} s"
    if done.stopped or (done.code == 0 and done.run is not None):
        return None
    held = max((sample.memory_bytes for sample in done.run.samples), default=0) if done.run else 0
    if done.code == -signal.SIGKILL and (killed_for_memory or held > MUCH * memory_bytes):
        return NO_FIT, "the system killed it for its memory"
    if done.code and OUT_OF_MEMORY.search(done.output):
        lines = [line.strip() for line in done.output.splitlines() if OUT_OF_MEMORY.search(line)]
        return NO_FIT, next((line for line in reversed(lines) if ERROR_LINE.match(line)), lines[-1])
    if done.code < 0:
        return FAILED, f"it died of signal {-done.code}"
    if done.code:
        return FAILED, _error(done) or f"it ended with exit code {done.code}"
    return FAILED, "no training was seen"


def _error(done: Attempt) -> str:
    """The line that names the exception, or the last one."""
    lines = [line.strip() for line in done.output.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if ERROR_LINE.match(line)), lines[-1] if lines else "")


def _training(run: Run) -> Region | None:
    """The region that trained longest."""
    found = [region for region in account(run).regions if region.call in TRAINS and region.steps]
    return max(found, key=lambda region: region.wall_seconds, default=None)


def _facts(run: Run, region: Region) -> dict[str, Any]:
    """What is known of the training's settings."""
    found: dict[str, Any] = {"backend": run.backend}
    for fact in run.facts:
        if fact["fact"] in ("trained-with", "rows") and fact.get("root") in region.roots:
            found.update({key: value for key, value in fact.items() if key not in ("fact", "root")})
        elif fact["fact"] == "settings" and fact["root"] in region.roots and fact["compute_dtype"]:
            mixed = "" if fact["compute_dtype"] == fact["variable_dtype"] else "mixed_"
            found.setdefault("precision", f"{mixed}{fact['compute_dtype']}")
        elif fact["fact"] == "called-with" and region.call == "loop":
            found.setdefault("rows", fact["rows"])
    return found


def _kept(settings: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Which setting the training did not take."""
    for name, value in settings.items():
        if name != VALUE and facts.get(name) != value:
            had = f"stayed {value_word(facts[name])}" if facts.get(name) is not None else "is not set by `fit` here"
            return f"the {name.replace('_', ' ')} {had}"
    return ""


# --- measuring ---------------------------------------------------------------------------------------------


class Stretch(NamedTuple):
    """Some steps in a row, about a second of them, and the seconds of it that were theirs."""

    steps: int
    seconds: float
    began: float
    ended: float


def measure(run: Run, region: Region, rows: float | None) -> Measured | None:
    """The rate of the steps once the training was under way: its first second with steps does not count."""
    found = _stretches(region)
    if not found:
        return None
    # Steps that are known only in lumps make one stretch of all: then it counts, warm-up and all.
    later = found[1:] if sum(each.seconds for each in found[1:]) > found[0].seconds else found
    calm = [each for each in later if _foreign(run.samples, [each]) < FOREIGN_CORES]
    # A few disturbed seconds are left out; if most are disturbed, the run is.
    used = calm if len(calm) * 2 > len(later) else later
    steps, seconds = sum(each.steps for each in used), sum(each.seconds for each in used)
    memory: Mapping[str, Any] = next((fact for fact in reversed(run.facts) if fact["fact"] == "memory"), {})
    sampled = max((sample.memory_bytes for sample in run.samples), default=0)
    return Measured(
        steps_per_second=steps / seconds,
        rows=float(rows) if rows else None,
        seconds=seconds,
        memory_bytes=max(sampled, int(memory.get("peak_bytes") or 0)),
        device_memory_bytes=memory.get("device_peak_bytes"),
        foreign_cores=_foreign(run.samples, used),
    )


def _stretches(region: Region) -> list[Stretch]:
    """Second by second; a step of seconds makes one stretch."""
    callbacks = [part for part in region.parts if part.phase == "callback"]
    every = sum(part.seconds for part in callbacks)
    share = sum(part.seconds for part in callbacks if "_batch_" in part.name) / every if every else 1.0
    found: list[Stretch] = []
    seconds, began = 0.0, None
    for interval in region.course.intervals:
        began = interval.began if began is None else began
        for phase, spent in interval.phases.items():
            if phase not in NOT_STEPS:
                seconds += spent * share if phase == "callback" else spent
        if interval.steps and seconds > 0:
            found.append(Stretch(interval.steps, seconds, began, interval.ended))
            seconds, began = 0.0, None
    if len(found) > 1 and found[-1].seconds < SHORT:
        before, last = found[-2:]
        found[-2:] = [Stretch(before.steps + last.steps, before.seconds + last.seconds, before.began, last.ended)]
    return found


def _foreign(samples: Sequence[MachineSample], stretches: Sequence[Stretch]) -> float:
    """The processors that other programs used meanwhile, as far as somebody looked."""
    seen = used = 0.0
    for stretch in stretches:
        for before, sample in pairwise(samples):
            overlap = min(stretch.ended, sample.seconds) - max(stretch.began, before.seconds)
            if overlap > 0:
                seen += overlap
                used += overlap * max(0.0, sum(sample.cores) - sample.process_cpu)
    return used / seen if seen else 0.0


def memory_kills() -> int:
    """How often the kernel has killed for memory since it was started; 0 where it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
