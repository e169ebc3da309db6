"""What got slower or faster from one set of runs to another, with the noise taken into account.

The steps of one run share its fate: the processor's clock, the neighbors on the machine, where memory came to lie.
A test over steps takes all that for a difference. So a run is one measurement here: what a step takes at its calmest,
as what disturbs a step makes it longer and never shorter. The calmest are the shortest stretches of a few steps or,
where steps are not alike because some wait for data or a callback, the shortest epochs (or seconds). How far such
measurements lie apart is first guessed, from how long a run is, how much longer its steps usually are and what
processes differ by beyond that (`BETWEEN`), then learned from the runs themselves: the guess counts as much as
`WEIGHT` further runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from fitscope import words
from fitscope.baseline import OFF_FOR_A_SECOND, ONCE, Digest, Trained, gather
from fitscope.model import Change, Comparison, FitscopeError, PartChange, RegionChange, Side, Where

CONFIDENCE = 0.98
"""Of two sets of runs with no difference, at most one in fifty is told to have one."""
BETWEEN = 0.011
"""One standard deviation between processes that run the same script, at their calmest: as far as runs on a shared
virtual machine were seen to differ."""
UNKNOWN_DOUBT = 0.06
"""How far a run is taken to be off where it is too short or has too few epochs to tell which of them were calm; a
very short one by more."""
WEIGHT = 4
"""How many degrees of freedom that guess is worth against what repeated runs show."""
TRUSTED = 10
"""Degrees of freedom that the guess has at least: without repeated runs nothing contradicts it."""
LIMIT = 0.05
"""What a comparison should be able to see where no limit was asked for."""
LEAST_SECONDS = 1.0
LEAST_STEPS = 10
LEAST_PART = 0.02
"""Parts below this share of the time per step, on both sides, are not judged."""
FOREIGN_CORES = 0.5
"""From so many processors used by other programs on, a run of which nothing finer is known is no measure."""
UNEVEN = 0.2
"""From which difference in unrest on, one side is told to be less even than the other."""
MOST_RUNS, FIRST_RUNS = 30, 5
PARTS_LEAST = 0.01
"""A part wanders as the whole does, and by this share of the whole besides."""
USUAL_ONCE = 0.15
LEAST_ONCE = 0.1
"""Seconds: compiling and preparing that take less are not judged."""
MACHINE = ("cpu", "cores", "gpus")
"""What makes two machines different ones."""
SLOWER, FASTER, SAME, UNKNOWN = "slower", "faster", "no difference seen", "cannot say"


def compare(a: str, b: str, limit: float = LIMIT) -> Comparison:
    """Compares what two names stand for: each a run, a folder of runs, a pattern, or a baseline."""
    return compare_runs(side(a), side(b), limit)


def gate(comparison: Comparison, limit: float) -> str:
    """Whether B is slower than A by more than the limit allows: slower, cannot say, or no difference seen.

    Slower means: beyond doubt slower, and by more than the limit by best estimate.
    """
    if comparison.times is None or comparison.high is None or not comparison.same_machine:
        return UNKNOWN
    if comparison.verdict == UNKNOWN:
        return UNKNOWN
    if comparison.verdict == SLOWER and comparison.times > 1 + limit:
        return SLOWER
    return SAME if comparison.high <= 1 + limit else UNKNOWN


def compare_runs(a: Sequence[Digest], b: Sequence[Digest], limit: float = LIMIT) -> Comparison:
    """Compares two sets of runs."""
    sides = _undisturbed(a), _undisturbed(b)
    pairs = _pairs(*sides)
    sides = _finely(sides, pairs)
    lacking = tuple(_too_little(sides, pairs))
    estimate = None if lacking else _whole(sides, pairs)
    uneven = list(_uneven(sides, pairs))
    return Comparison(
        a=_described(a),
        b=_described(b),
        verdict=_verdict(estimate, max((each.unrest for each in uneven if each.side == "B"), default=0.0)),
        times=math.exp(estimate.difference) if estimate else None,
        low=math.exp(estimate.low) if estimate else None,
        high=math.exp(estimate.high) if estimate else None,
        spread=estimate.spread if estimate else None,
        spread_seen=len(sides[0]) + len(sides[1]) > 2,
        repeat=_repeat(estimate, limit, seen=len(sides[0]) + len(sides[1]) > 2) if estimate else None,
        regions=() if lacking else tuple(_region(sides, pair) for pair in pairs),
        same_machine=all(a[-1].machine.get(key) == b[-1].machine.get(key) for key in MACHINE),
        differences=tuple(_differences(a[-1], b[-1])),
        doubts=(*_disturbances(a, b), *(each.says for each in uneven), *_unmatched(a, b, pairs), *lacking),
    )


def _verdict(estimate: _Estimate | None, unrest: float) -> str:
    """What the calmest moments tell of B, of which the usual ones may take so much longer."""
    if estimate is None:
        return UNKNOWN
    if unrest and estimate.verdict != SLOWER and estimate.high + math.log1p(unrest) >= 0:
        return UNKNOWN  # at its calmest B is not slower; how it usually is, that does not tell
    return estimate.verdict


def side(*names: str) -> list[Digest]:
    """The runs that some names stand for, oldest first; a process that did not train is no measure."""
    found = [each for name in names for each in gather(name)]
    found = [each for each in found if each.regions] or found
    scripts = Counter(Path(each.script).name for each in found)
    if len(scripts) > 1:
        raise FitscopeError(f"{names[0]} holds runs of different scripts ({', '.join(scripts)}): name those of one.")
    return sorted(found, key=lambda each: each.started)


def _described(runs: Sequence[Digest]) -> Side:
    last = runs[-1]
    return Side(
        name=last.name if len({each.name for each in runs}) == 1 else str(Path(last.name).parent),
        runs=len(runs),
        script=last.script,
        argv=last.argv,
        commits=tuple(dict.fromkeys(each.git for each in runs if each.git)),
        backend=last.backend,
        started=last.started,
        wall_seconds=median(each.wall_seconds for each in runs),
    )


# --- the noise -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Estimate:
    """A difference of two means with the interval that the noise leaves for it."""

    difference: float
    half: float
    spread: float
    freedom: int

    @property
    def low(self) -> float:
        return self.difference - self.half

    @property
    def high(self) -> float:
        return self.difference + self.half

    @property
    def verdict(self) -> str:
        return SLOWER if self.low > 0 else FASTER if self.high < 0 else SAME


def _guess(runs: Sequence[Trained]) -> float:
    """How far apart such runs are taken to lie before one looks."""
    return math.hypot(BETWEEN, math.sqrt(fmean(_doubt(run) ** 2 for run in runs)))


def _doubt(run: Trained) -> float:
    return math.hypot(UNKNOWN_DOUBT, OFF_FOR_A_SECOND / run.seconds) if run.doubt is None else run.doubt


def _estimate(a: Sequence[float], b: Sequence[float], usual: float, confidence: float = CONFIDENCE) -> _Estimate:
    """Student's interval; the variance is shrunk toward the usual one, as few runs say little about it."""
    squares = sum((value - fmean(side)) ** 2 for side in (a, b) for value in side)
    freedom = WEIGHT + len(a) + len(b) - 2
    spread = math.sqrt((WEIGHT * usual**2 + squares) / freedom)
    half = student(confidence, max(TRUSTED, freedom)) * spread * math.sqrt(1 / len(a) + 1 / len(b))
    return _Estimate(fmean(b) - fmean(a), half, spread, freedom)


def student(confidence: float, freedom: int) -> float:
    """How many standard errors to either side hold so much of Student's distribution."""
    low, high = 0.0, 1000.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """The share of Student's distribution between -t and t: the series for whole degrees of freedom."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    term = cosine if freedom % 2 else 1.0
    total = 0.0
    for step in range(1 + freedom % 2, freedom, 2):
        total += term
        term *= cosine**2 * step / (step + 1)
    if freedom % 2:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def _repeat(estimate: _Estimate, limit: float, *, seen: bool) -> int | None:
    """How many runs of each side would show a difference of the limit, if these do not; some, if nobody knows yet."""
    if estimate.verdict != SAME or estimate.high <= math.log1p(limit):
        return None
    for runs in range(2, MOST_RUNS):
        half = student(CONFIDENCE, max(TRUSTED, WEIGHT + 2 * runs - 2)) * estimate.spread * math.sqrt(2 / runs)
        if half <= math.log1p(limit):
            return runs if seen else min(runs, FIRST_RUNS)
    return MOST_RUNS if seen else FIRST_RUNS


# --- what is compared with what ------------------------------------------------------------------------------

Place = tuple[str, Where | None]
Pair = tuple[Place, Place]
Sides = tuple[Sequence[Digest], Sequence[Digest]]


def _whole(sides: Sides, pairs: Sequence[Pair]) -> _Estimate:
    """The training in all: what as many steps as A has take on either side."""
    steps = [median(_trained(run, pair[0]).steps for run in sides[0]) for pair in pairs]
    a, b = (
        [
            math.log(sum(_trained(run, pair[which]).per_step * n for pair, n in zip(pairs, steps, strict=True)))
            for run in side
        ]
        for which, side in enumerate(sides)
    )
    main = [_trained(run, pairs[0][which]) for which, side in enumerate(sides) for run in side]
    return _estimate(a, b, _guess(main))


def _pairs(a: Sequence[Digest], b: Sequence[Digest]) -> list[Pair]:
    """Which place in A is which in B: the same line, or else the next of the same call, as lines move."""
    left, right = _places(a), _places(b)
    pairs = [(place, place) for place in left if place in right]
    for file in (True, False):
        for place in left:
            if place in (one for one, _ in pairs):
                continue
            taken = {other for _, other in pairs}
            like = [other for other in right if other not in taken and _alike(place, other, file=file)]
            if like:
                pairs.append((place, like[0]))
    return sorted(pairs, key=lambda pair: left.index(pair[0]))


def _places(runs: Sequence[Digest]) -> list[Place]:
    """The places that trained in all of the runs, the one that took longest first."""
    found = Counter((each.call, each.where) for run in runs for each in run.regions)
    seconds = {(each.call, each.where): each.seconds for run in runs for each in run.regions}
    return sorted((place for place in found if found[place] == len(runs)), key=lambda place: -seconds[place])


def _alike(one: Place, other: Place, *, file: bool) -> bool:
    if one[0] != other[0]:
        return False
    return not file or (one[1] and one[1].file) == (other[1] and other[1].file)


def _trained(run: Digest, place: Place) -> Trained:
    return next(each for each in run.regions if (each.call, each.where) == place)


def _finely(sides: Sides, pairs: Sequence[Pair]) -> Sides:
    """Places whose steps are regular in all runs are measured by stretches of a few steps."""
    found = [
        pair
        for pair in pairs
        if all(_trained(run, place).is_regular for place, side in zip(pair, sides, strict=True) for run in side)
    ]
    a, b = ([_by_stretches(run, {pair[which] for pair in found}) for run in side] for which, side in enumerate(sides))
    return a, b


def _by_stretches(run: Digest, places: set[Place]) -> Digest:
    regions = (each.by_stretches() if (each.call, each.where) in places else each for each in run.regions)
    return replace(run, regions=tuple(regions))


# --- a place and its parts -----------------------------------------------------------------------------------


def _region(sides: Sides, pair: Pair) -> RegionChange:
    a, b = ([_trained(run, pair[which]) for run in side] for which, side in enumerate(sides))
    before, after = [each.per_step for each in a], [each.per_step for each in b]
    logs = [math.log(value) for value in before], [math.log(value) for value in after]
    estimate = _estimate(*logs, _guess((*a, *b)))
    middle = math.exp(fmean(math.log(value) for value in before))
    return RegionChange(
        call=pair[1][0],
        where=pair[1][1],
        steps=(round(median(each.steps for each in a)), round(median(each.steps for each in b))),
        per_step=Change(
            before=middle,
            after=middle * math.exp(estimate.difference),
            low=middle * math.expm1(estimate.low),
            high=middle * math.expm1(estimate.high),
            verdict=estimate.verdict,
        ),
        parts=tuple(sorted(_parts(a, b, middle), key=lambda part: -abs(part.change.difference))),
    )


def _parts(a: Sequence[Trained], b: Sequence[Trained], whole: float) -> Iterator[PartChange]:
    """The parts that matter on either side; the more of them are judged, the more each has to show."""
    noise = _guess((*a, *b))
    keys = dict.fromkeys(_key(key) for each in (*a, *b) for key in each.parts)
    found = []
    for key in keys:
        once = key[0] in ONCE
        before, after = ([_taken(each, key) for each in side] for side in (a, b))
        means = fmean(before), fmean(after)
        if max(means) >= (LEAST_ONCE if once else LEAST_PART * whole):
            size = math.hypot(*means) / math.sqrt(2)
            usual = USUAL_ONCE * size if once else math.hypot(noise * size, PARTS_LEAST * whole)
            found.append((key, once, before, after, usual))
    for (phase, name), once, before, after, usual in found:
        estimate = _estimate(before, after, usual, 1 - (1 - CONFIDENCE) / len(found))
        yield PartChange(
            phase=phase,
            name=name,
            where=next((each.places[phase, name] for each in (*b, *a) if (phase, name) in each.places), None),
            per="run" if once else "step",
            change=Change(fmean(before), fmean(after), estimate.low, estimate.high, estimate.verdict),
        )


def _key(key: tuple[str, str]) -> tuple[str, str]:
    """Validation is one part, and so is what happens once."""
    return (key[0], "") if key[0] in (*ONCE, "validation") else key


def _taken(trained: Trained, key: tuple[str, str]) -> float:
    """Seconds per step, or in all of what happens once."""
    seconds = sum(seconds for part, seconds in trained.parts.items() if _key(part) == key)
    return seconds if key[0] in ONCE else trained.part_per_step(key[0], seconds)


# --- what makes it uncertain ---------------------------------------------------------------------------------


def _disturbed(run: Digest) -> bool:
    """Whether other programs kept the machine busy while it trained."""
    main = max(run.regions, key=lambda each: each.seconds, default=None)
    return main.disturbed if main is not None and main.blocks else run.foreign_cores >= FOREIGN_CORES


def _undisturbed(runs: Sequence[Digest]) -> Sequence[Digest]:
    """The runs that had the machine to themselves, if there are any."""
    return [run for run in runs if not _disturbed(run)] or runs


def _disturbances(a: Sequence[Digest], b: Sequence[Digest]) -> Iterator[str]:
    for name, runs in (("A", a), ("B", b)):
        disturbed = [run for run in runs if _disturbed(run)]
        if disturbed and len(disturbed) < len(runs):
            cores, left_out = max(run.foreign_cores for run in disturbed), words.count(len(disturbed), "run")
            yield f"{left_out} of {name} left out: other programs used {cores:.1f} processors."


class _Uneven(NamedTuple):
    """A side whose steps usually take so much longer than at their calmest, and what is said of it."""

    side: str
    unrest: float
    says: str


def _uneven(sides: Sides, pairs: Sequence[Pair]) -> Iterator[_Uneven]:
    """The side whose steps are far less even: what comes now and then is not in the calmest, which are compared."""
    for pair in pairs:
        known = [
            [unrest for run in side if (unrest := _trained(run, place).unrest) is not None]
            for place, side in zip(pair, sides, strict=True)
        ]
        a, b = (median(each) if each else None for each in known)
        if a is None or b is None or abs(a - b) < UNEVEN:
            continue
        name, unrest = ("A", a) if a > b else ("B", b)
        yield _Uneven(
            name,
            unrest,
            f"The steps of {name} are uneven: usually {words.share(unrest)} longer than at their calmest, which is "
            "what is compared here. Other programs may be why, or something in the training that is slow now and "
            "then.",
        )


def _too_little(sides: Sides, pairs: Sequence[Pair]) -> Iterator[str]:
    """Why nothing can be said at all."""
    if not pairs:
        yield "There is no training that both sides have."
    for name, which, side in (("A", 0, sides[0]), ("B", 1, sides[1])):
        trained = [_trained(run, pair[which]) for run in side for pair in pairs[:1]]
        steps, seconds = (
            min((each.steps for each in trained), default=0),
            min((each.seconds for each in trained), default=0),
        )
        if pairs and (steps < LEAST_STEPS or seconds < LEAST_SECONDS):
            seen = f"{words.count(steps, 'step')} in {words.seconds(seconds)}"
            yield f"{seen} of training are too little to compare: train longer in {name}."
        if all(_disturbed(run) for run in side):
            cores = max(run.foreign_cores for run in side)
            yield f"Other programs used {cores:.1f} processors during {name}: record it again on a machine at rest."


def _unmatched(a: Sequence[Digest], b: Sequence[Digest], pairs: Sequence[Pair]) -> Iterator[str]:
    for name, which, runs in (("A", 0, a), ("B", 1, b)):
        known = {pair[which] for pair in pairs}
        for call, where in _places(runs):
            if (call, where) not in known:
                yield f"Only in {name}: {call} {words.place(where)}".rstrip() + "."


def _differences(a: Digest, b: Digest) -> Iterator[str]:
    """What else is different, so that nobody takes it for the code's doing."""
    pairs: list[tuple[str, Any, Any]] = [
        ("script", Path(a.script).name, Path(b.script).name),
        ("arguments", " ".join(a.argv) or "none", " ".join(b.argv) or "none"),
        ("backend", a.backend, b.backend),
        ("processor", a.machine.get("cpu"), b.machine.get("cpu")),
        ("cores", a.machine.get("cores"), b.machine.get("cores")),
        ("GPUs", ", ".join(a.machine.get("gpus") or ()) or "none", ", ".join(b.machine.get("gpus") or ()) or "none"),
    ]
    names = dict.fromkeys((*a.versions, *b.versions))
    pairs += [(name, a.versions.get(name, "none"), b.versions.get(name, "none")) for name in names]
    for name, before, after in pairs:
        if before != after:
            yield f"{name}: {before} → {after}"
