"""What each metric of a compiled model costs.

Where the step is compiled, nothing in Python is left to be timed. A metric's part is cut out of the step while it is
traced (the user's code is not called again) and, if it may be dear, run alone a few times on made-up values when the
training is over. Where steps run eagerly, every tenth is timed in place.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any, Protocol

from fitscope.observe import made
from fitscope.observe.backends import Backend
from fitscope.observe.calls import Call
from fitscope.observe.ledger import Ledger, clock
from fitscope.observe.loops import is_traced
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams, is_user, place_of

EAGER_EVERY = 10
"""Eager steps of which one is timed."""
WORTH_A_LOOK = 0.25
"""A metric whose part may take this share of a step, by a guess that is too high, is run alone."""
MOST_PARTS = 3
MOST_SECONDS = 0.3
"""How long the parts of one training may run."""
LONGEST = 5.0
"""How long one part is waited for, if it does not come to an end."""
MOST_CALLS = 3
"""Trainings from one line whose metrics are looked at."""


class Part(Protocol):
    """What a metric adds to a compiled step, cut out of it."""

    def at_most(self) -> float:
        """Seconds that it takes in a step, by a guess that is too high."""

    def run(self) -> None:
        """Runs it once, to its end; the first time it is compiled."""

    def run_nothing(self) -> None:
        """Calls a function that takes and gives the same and computes nothing: what a call itself takes."""


class _Priced:
    """The metrics of one training: parts of its step, and what was timed of them."""

    def __init__(self) -> None:
        self.parts: dict[int, tuple[Any, Part]] = {}
        self.spent: dict[int, tuple[Any, int]] = {}
        self.results = 0
        """Nanoseconds that reading all of them took, in the steps that were timed."""
        self.steps = 0
        self.timed = 0


_training: dict[int, _Priced] = {}


def hold(seams: Seams, backend: Backend) -> None:
    """Holds the update and the reading of metrics, which are traced once or, in eager steps, called in each."""
    from keras.src.trainers.compile_utils import CompileMetrics, MetricsList

    original = MetricsList.update_state
    ledgers, compiling = recorder.ledgers, backend.compiling()
    timing: set[int] = set()
    """The trainings whose present step is timed."""

    @functools.wraps(original)
    def update_state(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        if compiling():
            return original(self, y_true, y_pred, sample_weight)
        ledger = ledgers.get(get_ident())
        call = ledger.call if ledger is not None else None
        if not isinstance(call, Call) or call.kind != "fit" or call.region is None or not call.begun:
            return original(self, y_true, y_pred, sample_weight)
        priced = _training.setdefault(call.root, _Priced())
        if is_traced(y_pred):
            given = (y_true, y_pred, sample_weight)
            before = backend.extent(y_pred)
            original(self, *given)
            for metric in self.metrics:
                try:
                    part = backend.cut(before, given, metric.variables, call.batch_size)
                except Exception:  # an inside that is not promised to stay as it is: the price stays unknown
                    part = None
                if part is not None:
                    priced.parts[id(metric)] = (metric, part)
            return None
        priced.steps += 1
        if priced.steps % EAGER_EVERY:
            return original(self, y_true, y_pred, sample_weight)
        priced.timed += 1
        timing.add(call.root)
        return original(_Timed(self, priced), y_true, y_pred, sample_weight)

    read = CompileMetrics.result

    @functools.wraps(read)
    def result(self: Any) -> Any:
        if not timing or compiling():  # in nine of ten eager steps
            return read(self)
        ledger = ledgers.get(get_ident())
        call = ledger.call if ledger is not None else None
        priced = _training.get(call.root) if isinstance(call, Call) and call.root in timing else None
        timing.clear()
        if priced is None:
            return read(self)
        began = clock()
        found = read(self)
        priced.results += clock() - began
        return found

    seams.replace(MetricsList, "update_state", update_state)
    seams.replace(CompileMetrics, "result", result)
    seams.on_release(_training.clear)


class _Timed:
    """Stands in for a list of metrics in one step, and times each."""

    def __init__(self, metrics: Any, priced: _Priced) -> None:
        self._metrics = metrics
        self._priced = priced

    @property
    def metrics(self) -> Iterator[Any]:
        for metric in self._metrics.metrics:
            began = clock()
            yield metric
            before = self._priced.spent.get(id(metric), (metric, 0))[1]
            self._priced.spent[id(metric)] = (metric, before + clock() - began)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metrics, name)


def note(ledger: Ledger, call: Call, device: str) -> None:
    """A training is over: notes what its metrics cost in a step."""
    priced = _training.pop(call.root, None)
    region = call.region
    if priced is None or region is None or region.steps == 0 or region.calls > MOST_CALLS:
        return
    if device == "cpu":
        updates = sum(spent for _, spent in priced.spent.values())
        for metric, spent in priced.spent.values():
            # What reading all of them takes is shared out as their updates are.
            both = spent + priced.results * spent / max(1, updates)
            _say(call.root, metric, both / 1e9 / priced.timed, "in the step")
    stations = call.stations
    step = (ledger.spent[stations.step] + ledger.spent[stations.wait]) / 1e9 / region.steps
    guesses = sorted(((part.at_most(), metric, part) for metric, part in priced.parts.values()), key=_guess)
    worth = [(metric, part) for guess, metric, part in guesses[-MOST_PARTS:] if guess >= WORTH_A_LOOK * step]
    if not worth:
        return
    node = ledger.node
    ledger.enter(stations.own)
    for metric, part in worth:
        seconds = _alone(part, MOST_SECONDS / len(worth))
        if seconds is not None:
            _say(call.root, metric, seconds, "alone")
    ledger.back(node)


def _guess(guessed: tuple[float, Any, Part]) -> float:
    return guessed[0]


def _alone(part: Part, most: float) -> float | None:
    """What a part takes beyond a call, on a thread of ours: what is compiled there is not the training's."""
    found: list[float] = []

    def run() -> None:
        with contextlib.suppress(Exception):  # what was cut out may not run alone: its price stays unknown
            part.run()
            part.run_nothing()
            found.append(max(0.0, _shortest(part.run, most) - _shortest(part.run_nothing, most)))

    thread = threading.Thread(target=run, name="fitscope-metric", daemon=True)
    thread.start()
    thread.join(LONGEST)
    return found[0] if found else None


def _shortest(run: Callable[[], None], most: float) -> float:
    """The shortest of a few runs."""
    times: list[float] = []
    ends = time.perf_counter() + most
    while len(times) < 5 and (not times or time.perf_counter() < ends):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def _say(root: int, metric: Any, seconds: float, how: str) -> None:
    place = place_of(getattr(metric, "_fn", None) or type(metric).update_state)
    own = place is not None and is_user(place.file)
    where = {"file": place.file, "line": place.line} if own and place is not None else made.place_of(metric)
    name, made_of = str(metric.name), type(metric).__name__
    recorder.fact("metric", root=root, name=name, type=made_of, own=own, seconds=seconds, how=how, **where)
