"""Going through the points of a sweep in turns, each a short run of the script, until the budget is spent."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fitscope import machine, words
from fitscope.experiment import Workspace, script_version, unguarded
from fitscope.model import FitscopeError, Sweep, SweepPoint
from fitscope.observe import start
from fitscope.sweep import judge
from fitscope.sweep.grid import PLACEHOLDER, VALUE, Axis, filled, grid, words_of
from fitscope.sweep.judge import NOT_MEASURED, judged, knee, rate_of, unit_of
from fitscope.sweep.kept import Kept
from fitscope.sweep.ran import FAILED, MEASURED, NO_FIT, REFUSED, Ran, memory_kills, read

ENOUGH = 5.0
"""Seconds of steady training that make a run."""
LEAST_ROUNDS, MOST_ROUNDS, MOST_RUNS = 2, 3, 4
"""Rounds; and runs of one point, those included that other programs disturbed."""
NARROW = 0.05
"""With intervals that reach no farther to either side, as a share, two rounds are enough."""
PATIENCE, TIMES_LONGER = 120.0, 5.0
"""A run may take so many seconds, or so many times as long as the longest before it."""

Settings = dict[str, Any]
Run = Callable[[Settings, Mapping[str, Any], float], Ran]
"""(what is measured, what the child is told besides, the deadline) -> how it ended"""


@dataclass
class Turn:
    """A point and its runs so far."""

    settings: Settings
    ran: list[Ran] = field(default_factory=list)

    @property
    def calm(self) -> int:
        """How many of its runs count."""
        return sum(1 for one in self.ran if one.calm)

    @property
    def over(self) -> bool:
        """Whether it has failed, so that more runs would tell nothing."""
        return any(one.state != MEASURED for one in self.ran)


class Turns:
    """The points of a sweep, run in turns."""

    def __init__(
        self,
        axes: Sequence[Axis],
        run: Run,
        kept: Kept,
        deadline: float,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._axes = tuple(axes)
        self._run = run
        self._kept = kept
        self._deadline = deadline
        self._tell = tell
        self._clock = clock
        self._longest = 0.0
        self.own: Settings = {}
        """What the script itself says, of the settings that are swept and as far as it is known."""
        self.turns: list[Turn] = []
        self.reused = 0
        self._place: tuple[str, int] | None = None
        self._own_batch_size: int | None = None

    @property
    def base(self) -> Settings | None:
        """The settings of the point that the others are held against."""
        if any(axis.name == VALUE for axis in self._axes):
            return self.turns[0].settings if self.turns else None
        return self.own

    # --- in turns ------------------------------------------------------------------------------------------

    def go(self) -> None:
        """Learns what the script itself says, then goes through all points round by round."""
        points = [self._known(settings) for settings in grid(self._axes)]
        if not any(axis.name == VALUE for axis in self._axes):
            points = self._with_own(points)
        self.turns = points
        for turn in points:
            for one in turn.ran:
                self._learn(one)
        for number in range(MOST_RUNS):
            for turn in points if number % 2 == 0 else points[::-1]:
                if self._settled(turn, number):
                    continue
                if self._clock() + self._expected(turn) > self._deadline:
                    return
                self._once(turn)
            if self._enough():
                return

    def _known(self, settings: Settings) -> Turn:
        """A point with the runs that were made before."""
        turn = Turn(settings, self._kept.runs(settings))
        self.reused += len(turn.ran)
        return turn

    def _with_own(self, points: list[Turn]) -> list[Turn]:
        """The points with the script as it is among them: one of them, if it says so itself."""
        own = self._known({})
        if not own.ran:
            first = self._measure({}, own)
            self._say({}, first)
            if first.state != MEASURED:
                raise FitscopeError(f"the script as it is cannot be swept: {first.says.rstrip('.')}.")
            if own.ran:
                self._kept.add({}, first)
        else:
            first = own.ran[0]
            self._learn(first)
        self._own_batch_size = first.trained_with.get("batch_size")
        self.own = {axis.name: first.trained_with.get(axis.name) for axis in self._axes}
        for axis in self._axes:
            if self.own[axis.name] is None and axis.name in ("batch_size", "steps_per_execution", "jit_compile"):
                raise FitscopeError(refusal(axis.name, "no fit was seen that could be given it"))
        same = next((turn for turn in points if turn.settings == self.own), None)
        if same is not None:
            same.ran = own.ran + same.ran
            return points
        own.settings = dict(self.own)
        return sorted([own, *points], key=self._order)

    def _order(self, turn: Turn) -> tuple[Any, ...]:
        def place(axis: Axis) -> Any:
            value = turn.settings[axis.name]
            if axis.numbers is not None and isinstance(value, int):
                return value
            return axis.values.index(value) if value in axis.values else -1

        return tuple(place(axis) for axis in self._axes)

    def _settled(self, turn: Turn, number: int) -> bool:
        if turn.over or turn.calm > number or len(turn.ran) >= MOST_RUNS:
            return True
        smaller = next((each for each in self.turns if _does_not_fit(each) and _smaller(each, turn)), None)
        if smaller is not None:
            turn.ran.append(Ran(NO_FIT, 0.0, f"batch size {smaller.settings['batch_size']} does not, either"))
            return True
        return False

    def _enough(self) -> bool:
        """Whether every point has its rounds, and noise leaves little room."""
        left = [turn for turn in self.turns if not turn.over]
        rounds = min((turn.calm for turn in left), default=LEAST_ROUNDS)
        if rounds < LEAST_ROUNDS:
            return False
        known = judge.noise([[one.measured for one in turn.ran if one.calm and one.measured] for turn in left])
        return rounds >= MOST_ROUNDS or known.half(rounds) <= NARROW

    def _expected(self, turn: Turn) -> float:
        """Seconds that another run of a point is likely to take."""
        return max((one.seconds for one in turn.ran), default=self._longest)

    def _once(self, turn: Turn) -> None:
        before = len(turn.ran)
        ran = self._measure(turn.settings, turn)
        if len(turn.ran) == before:
            ran = self._measure(turn.settings, turn)
        self._say(turn.settings, ran)
        self._kept.add({} if turn.settings == self.own else turn.settings, ran)

    def _say(self, settings: Settings, ran: Ran) -> None:
        said = ran.says if ran.state != NO_FIT else f"does not fit: {ran.says}"
        if ran.measured is not None:
            unit = "examples" if ran.measured.rows else "steps"
            said = f"{words.rate(rate_of(ran.measured, unit))} {unit}/s"
            if not ran.calm:
                said += f" while other programs used {ran.measured.foreign_cores:.1f} processors: does not count"
        left = words.seconds(float(round(max(0.0, self._deadline - self._clock()))))
        self._tell(f"{words_of(settings) or 'as it is'}: {said}; {left} left")

    def _measure(self, settings: Settings, turn: Turn) -> Ran:
        """One run. The script as it is keeps its settings, and so does what it says itself."""
        changed = {name: value for name, value in settings.items() if settings != self.own}
        told: Settings = {}
        if self._place is not None:
            told["prolong"] = list(self._place)
        if "batch_size" in changed:
            told["own_batch_size"] = self._own_batch_size
        limit = min(self._deadline, self._clock() + max(PATIENCE, TIMES_LONGER * self._longest))
        ran = self._run(changed, told, limit)
        if ran.state == REFUSED:
            raise FitscopeError(refusal("batch_size", ran.says))
        short = ran.whole and ran.measured is not None and ran.measured.seconds < ENOUGH / 2
        if not (short and ran.place is not None and "prolong" not in told):
            turn.ran.append(ran)  # else it is measured again with more epochs, as the others are
        self._longest = max(self._longest, ran.seconds)
        self._learn(ran)
        return ran

    def _learn(self, ran: Ran) -> None:
        """Where the script trains: from the second run on that training goes on until enough is seen."""
        if self._place is None:
            self._place = ran.place


def _does_not_fit(turn: Turn) -> bool:
    return any(one.state == NO_FIT for one in turn.ran)


def _smaller(one: Turn, other: Turn) -> bool:
    """Whether two points are the same but for the batch size, which is smaller in the first."""
    return (
        "batch_size" in one.settings
        and {**one.settings, "batch_size": 0} == {**other.settings, "batch_size": 0}
        and one.settings["batch_size"] < other.settings["batch_size"]
    )


def refusal(name: str, why: str) -> str:
    """Why a setting cannot be swept, and what can be done instead."""
    label = name.replace("_", " ")
    return (
        f"the {label} of this script cannot be changed from outside: {why}. If the script has an argument for it: "
        f"fitscope sweep train.py --values 16,32 -- --{name.replace('_', '-')} {PLACEHOLDER}"
    )


# --- one script --------------------------------------------------------------------------------------------


def sweep(
    script: Path,
    arguments: tuple[str, ...],
    axes: Sequence[Axis],
    budget: float,
    tell: Callable[[str], None],
    *,
    again: bool = False,
) -> Sweep:
    """Measures a script over the settings of these axes."""
    began = time.monotonic()
    folder = Path.cwd().resolve()
    if not script.resolve().is_relative_to(folder):
        raise FitscopeError(f"{script} is not below {folder}: start fitscope in a folder above the script.")
    inside = script.resolve().relative_to(folder)
    kept = Kept(inside, arguments)
    kept.load()
    for settings in [{}, *grid(tuple(axes))] if again else []:
        kept.forget(settings)
    with ExitStack() as stack:
        bench = _Bench(stack, folder, inside, arguments, tell)
        turns = Turns(axes, bench.run, kept, began + budget, tell)
        turns.go()
    failed = [ran for turn in turns.turns for ran in turn.ran]
    if failed and all(ran.state == FAILED for ran in failed):
        raise FitscopeError(f"nothing could be measured: {failed[0].says.rstrip('.')}.")
    return summed_up(turns, axes, str(script), arguments, time.monotonic() - began)


class _Bench:
    """Runs a script with other settings, in a workspace that is made when it is first needed."""

    def __init__(
        self, stack: ExitStack, folder: Path, script: Path, arguments: tuple[str, ...], tell: Callable[[str], None]
    ) -> None:
        self._stack, self._folder, self._script = stack, folder, script
        self._arguments = arguments
        self._tell = tell
        self._workspace: Workspace | None = None
        self._memory = int(machine.describe()["memory_bytes"])

    def run(self, settings: Settings, told: Mapping[str, Any], deadline: float) -> Ran:
        """One run."""
        if self._workspace is None:
            self._workspace = self._stack.enter_context(Workspace(self._folder))
            if unguarded():
                self._tell(unguarded())
        overrides = {**{name: value for name, value in settings.items() if name != VALUE}, **told}
        made = script_version("the script", self._script, filled(self._arguments, settings), {})
        environment = {start.OVERRIDES: json.dumps(overrides), start.STEADY: repr(ENOUGH)}
        kills = memory_kills()
        done = self._workspace.attempt(made, deadline, environment)
        killed = memory_kills() > kills
        return read(done, settings, killed_for_memory=killed, memory_bytes=self._memory)


# --- what it comes to --------------------------------------------------------------------------------------


def summed_up(turns: Turns, axes: Sequence[Axis], script: str, argv: tuple[str, ...], seconds: float) -> Sweep:
    """The sweep as it is told."""
    ran = [(turn.settings, turn.ran) for turn in turns.turns]
    unit = unit_of([each for _, each in ran])
    points = judged(ran, turns.base, unit)
    doubts = tuple(_doubts(points, unit, axes))
    numbers = axes[0].numbers if len(axes) == 1 else None
    found = None
    if numbers is not None and not doubts:
        curve = sorted(
            ((float(point.settings[axes[0].name]), point.rate) for point in points if point.rate is not None),
            key=lambda each: each[0],
        )
        found = knee(curve)
    foreign = [point.foreign_cores for point in points if point.foreign_cores is not None]
    return Sweep(
        script=script,
        argv=argv,
        axes=tuple(axis.name for axis in axes),
        unit=unit,
        own=turns.own,
        points=points,
        knee=found,
        doubts=doubts,
        foreign_cores=max(foreign, default=0.0),
        runs=sum(point.runs for point in points),
        reused=turns.reused,
        seconds=seconds,
    )


def _doubts(points: Sequence[SweepPoint], unit: str, axes: Sequence[Axis]) -> list[str]:
    """Why there is no verdict."""
    found = []
    if unit == "steps" and any(axis.name == VALUE for axis in axes):
        found.append(
            "How many examples a step has is not known here, and may change with the value: steps per second do not "
            "tell which is faster."
        )
    disturbed = [point for point in points if point.state == judge.DISTURBED]
    if disturbed:
        most = max(point.foreign_cores or 0.0 for point in disturbed)
        found.append(
            f"Other programs used up to {most:.1f} processors in all runs of {words.count(len(disturbed), 'point')}, "
            "so there is no verdict: what is shown of them is no measure."
        )
    missing = [point for point in points if point.state == NOT_MEASURED]
    if missing:
        found.append(
            f"The budget was spent before {words.count(len(missing), 'point')} had a run: give it more time with "
            "--budget; what is measured is kept."
        )
    return found
