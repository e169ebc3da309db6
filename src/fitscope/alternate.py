"""One training with a cause and without it by turns, inside one process: how many times faster it is without.

Processes that run the same script differ by ten percent and more on a machine that others use, too; stretches of one
process that follow one another hardly do. Two neighbors, one with the cause and one without, are one measurement. The
ratio is that of the means (a hook that works every fiftieth time counts as much as it costs), its interval Student's.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from fitscope import words
from fitscope.compare import student
from fitscope.experiment import Version, Workspace
from fitscope.model import Account, Region, Removal, Speedup
from fitscope.rules.case import FOREIGN_CORES, seconds_of

CONFIDENCE = 0.99
"""Of a single look; with a look after every pair, 95 of 100 experiments that change nothing say so."""
LEAST_PAIRS, MOST_PAIRS = 6, 60
NARROW, NARROW_SHARE = 0.02, 0.1
"""An interval is narrow enough when its half is below the first and this share of the effect (as logarithms)."""
WARM = 0.5
"""Seconds after the first step in which nothing is counted."""
SHORTEST, LONGEST = 0.3, 2.5
"""Seconds that a stretch takes, about."""
WANTED_PAIRS = 12
ROUGHLY = 0.1
"""How far the rest of a training, compiling above all, lies apart from run to run, as a share."""
SETTLES = ("replay", "settings", "tune")
"""Removals that the input notices: the old pipeline has to go before the new one can be timed."""


@dataclass(frozen=True)
class Stretch:
    """A part of a training, with the cause or without it."""

    removed: bool
    seconds: float
    epochs: int
    steps: int
    loop: float
    """Seconds between the first and the last step of its epochs."""
    rest: float
    """Seconds of its epochs outside of that."""
    began: float
    ended: float


@dataclass(frozen=True)
class Pace:
    """How a training goes, as it was recorded: what stretches of it should be like."""

    step: float
    """Seconds per step."""
    epoch: float
    """Seconds per epoch, compiling and preparing apart."""
    steps: float
    """Per epoch."""
    before: float
    """Seconds until the first step: importing, loading, compiling."""

    @classmethod
    def of(cls, region: Region, account: Account) -> Pace:
        """The pace of one region of a run."""
        once = seconds_of(region, "compile", "setup")
        epochs = max(1, region.epochs)
        step = region.step_seconds.median if region.step_seconds else region.wall_seconds / max(1, region.steps)
        return cls(
            step,
            max(region.wall_seconds - once, step) / epochs,
            region.steps / epochs,
            account.outside_seconds + once,
        )


@dataclass(frozen=True)
class Shown:
    """What stretches by turns showed: the ratio of the times, with the cause over without."""

    ratio: Speedup | None
    pairs: int
    doubt: str = ""
    present: float = math.inf
    """Seconds of a step, or of an epoch, with the cause."""


def alternate(
    folder: Path,
    version: Version,
    removal: Removal,
    pace: Pace,
    budget: float,
    progress: Callable[[Shown], None] = lambda shown: None,
) -> Shown:
    """Takes a cause away by turns until the ratio is known well enough or the budget is spent."""
    deadline = time.monotonic() + budget
    plan = plan_of(removal, pace, budget)
    last = Shown(None, 0)

    def look(path: Path, samples: Any) -> bool:
        nonlocal last
        stretches, impossible = read(path)
        found = judge(stretches, plan, pace, samples.foreign, samples.started)
        if found.pairs != last.pairs:
            progress(found)
        last = found
        return bool(impossible) or narrow(found.ratio, found.pairs) or time.monotonic() > deadline

    with Workspace(folder) as workspace:
        path, samples, failed = workspace.alternate(version, plan, deadline, look)
        stretches, impossible = read(path)
        shown = judge(stretches, plan, pace, samples.foreign, samples.started)
    if impossible:
        return Shown(None, 0, f"the cause cannot be taken away here: {impossible}")
    if shown.ratio is None and failed:
        return Shown(None, shown.pairs, f"the script failed in the experiment{failed}")
    if shown.ratio is None and not stretches:
        return Shown(
            None, 0, f"the training was not well under way after {words.seconds(budget)}: try a larger --budget"
        )
    return shown


def plan_of(removal: Removal, pace: Pace, budget: float) -> dict[str, Any]:
    """What the script is told: how long stretches are, and where epochs are cut off."""
    room = max(1.0, budget - pace.before)
    seconds = min(LONGEST, max(SHORTEST, 4 * pace.step, room / (2 * WANTED_PAIRS)))
    by_epochs = removal.by == "epochs"
    if by_epochs and removal.kind in SETTLES:
        seconds = max(SHORTEST, 0.7 * seconds)
    too_long = by_epochs and pace.epoch > 1.5 * seconds and pace.steps * pace.step > seconds
    return {
        "kind": removal.kind,
        "arguments": removal.arguments,
        "where": [removal.where.file, removal.where.line] if removal.where is not None else [],
        "by": removal.by,
        "seconds": seconds,
        "warm": WARM,
        "cut": max(10, math.ceil(seconds / pace.step)) if too_long else None,
        "whole_first": pace.epoch <= room / 3,
        "settles": removal.kind in SETTLES,
    }


def read(path: Path) -> tuple[list[Stretch], str]:
    """The stretches in a file, up to its last whole line, and why there cannot be any."""
    stretches: list[Stretch] = []
    impossible = ""
    if path.is_file():
        for line in path.read_bytes().split(b"\n")[:-1]:
            value = json.loads(line)
            impossible = impossible or value.get("impossible", "")
            if "stretch" in value:
                stretches.append(Stretch(**{name: value[name] for name in Stretch.__dataclass_fields__}))
    return stretches, impossible


def judge(
    stretches: Sequence[Stretch],
    plan: dict[str, Any],
    pace: Pace,
    foreign: Iterable[tuple[float, float]],
    started: float,
) -> Shown:
    """What the stretches so far show; pairs in which other programs were busy do not count."""
    foreign = list(foreign)
    pairs: list[tuple[float, float]] = []
    disturbed = 0
    for one, other in zip(stretches[::2], stretches[1::2], strict=False):
        if max(_busy(each, foreign, started) for each in (one, other)) >= FOREIGN_CORES:
            disturbed += 1
            continue
        present, absent = (other, one) if one.removed else (one, other)
        pairs.append((_time(present, plan, pace), _time(absent, plan, pace)))
    if len(pairs) < LEAST_PAIRS:
        doubt = f"{words.count(len(pairs), 'pair')} of stretches fitted into the budget: {LEAST_PAIRS} are needed"
        if disturbed > len(pairs):
            doubt = f"other programs were busy in {disturbed} of {disturbed + len(pairs)} pairs of stretches"
        return Shown(None, len(pairs), doubt)
    return Shown(interval(pairs), len(pairs), present=fmean(present for present, _ in pairs))


def _time(stretch: Stretch, plan: dict[str, Any], pace: Pace) -> float:
    """Seconds per step, or per epoch; of epochs that were cut off, as long as a whole one would have taken."""
    if plan["by"] == "steps":
        return stretch.loop / stretch.steps
    if plan["cut"] is None or not stretch.steps:
        return stretch.seconds / stretch.epochs
    return stretch.loop / stretch.steps * max(1.0, pace.steps - 1) + stretch.rest / stretch.epochs


def _busy(stretch: Stretch, foreign: Sequence[tuple[float, float]], started: float) -> float:
    """Processors that other programs used during a stretch, from samples that each cover the second before."""
    began, ended = stretch.began - started, stretch.ended - started
    inside = [used for at, used in foreign if began < at < ended + 1.0]
    return fmean(inside) if inside else 0.0


def interval(pairs: Sequence[tuple[float, float]]) -> Speedup:
    """Student's interval for the logarithm of the ratio of the means, the pairs taken as independent."""
    one, other = fmean(pair[0] for pair in pairs), fmean(pair[1] for pair in pairs)
    apart = [present / one - absent / other for present, absent in pairs]
    number = len(pairs)
    spread = math.sqrt(sum(each**2 for each in apart) / (number - 1))
    half = student(CONFIDENCE, number - 1) * spread / math.sqrt(number)
    middle = math.log(one / other)
    return Speedup(math.exp(middle - half), math.exp(middle + half))


def narrow(ratio: Speedup | None, pairs: int) -> bool:
    """Whether more pairs would say little more."""
    if ratio is None:
        return False
    low, high = math.log(ratio.low), math.log(ratio.high)
    return pairs >= MOST_PAIRS or (high - low) / 2 <= NARROW + NARROW_SHARE * abs(low + high) / 2


def of_whole(shown: Shown, removal: Removal, region: Region, account: Account) -> Speedup:
    """The speedup of the whole recorded training, if the part that the ratio is about is so many times faster.

    In a short run that part also holds steps that were slow because they were among the first. They stay as they
    are: not more is made faster than steps or epochs take when all is under way.
    """
    assert shown.ratio is not None
    whole = sum(each.wall_seconds for each in account.regions)
    part = region.wall_seconds - seconds_of(region, "compile", "setup")
    number = max(1, region.epochs)  # none, if the run was ended in its first
    if removal.by == "steps" and region.durations:
        steps = sum(region.durations) * region.steps / len(region.durations)
        part = max(0.0, min(part, steps - seconds_of(region, "compile")))
        number = region.steps
    return gain(shown.ratio, min(part, number * shown.present), whole)


def gain(ratio: Speedup, part: float, whole: float) -> Speedup:
    """The speedup of a whole of which a part is so many times faster; the rest is known from one run, roughly."""
    found = [
        (part + rest) / (part / times + rest)
        for times in (ratio.low, ratio.high)
        for rest in ((whole - part) * (1 - ROUGHLY), (whole - part) * (1 + ROUGHLY))
    ]
    return Speedup(min(found), max(found))
