"""Training loops written by hand: `for x, y in dataset:` with a gradient step, or `train_on_batch` in a loop.

Such a loop has no call around it. It is seen at the iterator: from one `next` to the following one is a step,
the inside of `next` is the wait for data, the rest is the body. It counts as a training only once the body has
called a Keras model; going through a dataset for another purpose is nobody's training.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

from fitscope.observe import settings
from fitscope.observe.backends import Backend
from fitscope.observe.calls import Call, Stations, note_first
from fitscope.observe.ledger import Ledger, Place, clock
from fitscope.observe.recorder import Region, recorder
from fitscope.observe.seams import Seams, in_keras, user_frame, without_us
from fitscope.observe.workers import record_workers

BODY = "your code in the loop"
FEW_UPDATES, FEW_BATCHES = 2, 2
"""So often weights are changed before a pass over other data, and so long is the pass, if it is a validation."""

_stations: dict[int, Stations] = {}
_watching: list[Any] = []
_training: set[int] = set()
_device: Callable[[], str] = str
"""What the backend computes on."""
_opened: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
"""Iterators that no loop has read yet, by whom they were made, and the nanoseconds that it took."""
_updating: set[int] = set()
"""The loops in which weights were changed: those that only call a model may validate."""
_evaluates: Callable[[], bool | None] = [].clear
"""Whether what the user's code computes is surely no training; None where nothing tells."""


class Loop:
    """One pass over a dataset by the user's own code."""

    __slots__ = (
        "__weakref__",
        "aside",
        "began",
        "first",
        "host",
        "iterator",
        "region",
        "root",
        "stations",
        "trains",
        "updated",
        "updates",
        "validation",
    )

    def __init__(self, ledger: Ledger, iterator: Any, where: Place) -> None:
        self.root = recorder.root(ledger, "loop", where)
        if self.root not in _stations:
            _stations[self.root] = Stations(recorder.tree, self.root, BODY)
        self.stations = _stations[self.root]
        self.region: Region = recorder.regions[self.root]
        self.iterator = weakref.ref(iterator, Abandoned(ledger, self))
        self.host: Stations | None = None
        self.trains = self.root in _training
        self.updates = self.root in _updating
        self.began = 0
        self.first = True
        self.validation: Validation | None = None
        self.aside: Aside | None = None
        self.updated = ledger.updated
        """How often weights had been changed when the loop began, or the last pass over other data ended."""


class Abandoned:
    """What happens when the iterator of a loop dies: a `for` loop that was left drops it at once."""

    def __init__(self, ledger: Ledger, loop: Loop) -> None:
        self.ledger = ledger
        self.loop = weakref.ref(loop)

    def __call__(self, _: Any) -> None:
        loop = self.loop()
        if loop is not None and self.ledger.loop is loop:
            _leave(self.ledger, count=loop.began > 0)


def fetch_by_hand(original: Any, source: str) -> Any:
    """The `next` of a dataset's iterator, for code that calls it itself: the user's, or Keras' own."""
    ledgers = recorder.ledgers

    @functools.wraps(original)
    def fetch(self: Any) -> Any:
        ledger = ledgers.get(get_ident())
        call: Call | None = ledger.call if ledger is not None else None
        if call is not None and ledger is not None and ledger.node == call.stations.data:
            return original(self)  # Keras' own loop, whose wait is held already
        if ledger is None or (call is None and ledger.loop is None):
            if in_keras(sys._getframe(1)) or recorder.failure is not None:
                return original(self)
            ledger = recorder.ledger()
        try:
            token = _fetching(ledger, self, source)
        except Exception as mistake:
            recorder.fail(mistake)
            token = None
        try:
            batch = original(self)
        except BaseException as error:
            _fetched(ledger, token, error)
            error.__traceback__ = without_us(error.__traceback__)
            raise
        _fetched(ledger, token, None)
        return batch

    return fetch


def _fetching(ledger: Ledger, iterator: Any, source: str) -> Any:
    """Somebody asks a dataset for its next batch. Returns a token for `_fetched`."""
    call: Call | None = ledger.call
    loop: Loop | None = ledger.loop
    if call is not None:
        node = ledger.node
        if node == call.stations.first_batch:
            return None
        ledger.enter(call.stations.data if call.begun or call.kind == "predict" else call.stations.first_batch)
        return node, None
    if loop is not None and loop.iterator() is not iterator:
        alive = loop.iterator() is not None and loop.host is None
        if alive and _evaluates():  # not what the loop trains on, even if it has not begun to
            return _validating(ledger, loop, iterator, source) if loop.trains else None
        if alive and loop.trains:
            # Another dataset is read inside the loop's body: its wait is the loop's wait.
            node = ledger.node
            ledger.enter(loop.stations.data)
            return node, _aside(ledger, loop, iterator, source)
        _leave(ledger, count=False)
        loop = None
    if loop is None:
        frame = user_frame(sys._getframe(2))
        if frame is None:
            return None
        loop = ledger.loop = Loop(ledger, iterator, Place(frame.f_code.co_filename, frame.f_lineno))
        loop.region.calls += 1
        loop.stations.source(source)
        _charge_opening(ledger, loop, iterator, source)
        if not loop.trains or (_evaluates() is not None and not loop.updates):
            _watch_models()
    stations = loop.host or loop.stations
    if loop.host is not None:
        stations.source(source)
    if loop.validation is not None:
        loop.validation.left()
    if loop.aside is not None:
        loop.aside.over()
    now = ledger.enter(stations.data)
    if loop.began:
        _step(loop, now)
    loop.began = now
    return ledger.outside if loop.host is not None else loop.stations.step, loop


def opened(ledger: Ledger, iterator: Any, nanoseconds: int) -> None:
    """An iterator was made by the user's own code; if it turns out to feed a loop, that was its beginning."""
    _opened[iterator] = ledger.ident, nanoseconds


def _charge_opening(ledger: Ledger, loop: Loop, iterator: Any, source: str) -> None:
    record_workers(loop.root, source, iterator)
    ident, nanoseconds = _opened.pop(iterator, (None, 0))
    if ident == ledger.ident:
        ledger.move(ledger.outside, loop.stations.open, nanoseconds)
        ledger.counts[loop.stations.open] += 1


def _aside(ledger: Ledger, loop: Loop, iterator: Any, source: str) -> Aside | None:
    """The pass over other data that this iterator makes in the loop's body, where only its end tells what it is."""
    if _evaluates() is not None:
        return None
    if loop.aside is None or loop.aside.iterator() is not iterator:
        if loop.aside is not None:
            loop.aside.over()
        frame = user_frame(sys._getframe(1))
        where = Place(frame.f_code.co_filename, frame.f_lineno) if frame is not None else None
        loop.aside = Aside(ledger, loop, iterator, source, where)
    return loop.aside


class Aside:
    """A pass over other data in the body of a loop: a validation, if it changes no weights and the loop does.

    Compiled functions that change none are not seen when they are called. So what the pass took stays with the loop's
    body until it is over, and is then moved.
    """

    def __init__(self, ledger: Ledger, loop: Loop, iterator: Any, source: str, where: Place | None) -> None:
        self.iterator = weakref.ref(iterator)
        self._ledger, self._loop, self._source, self._where = ledger, weakref.ref(loop), source, where
        self._updated = ledger.updated
        self._nodes = (loop.stations.data, loop.stations.step)
        self._first = self._last = self._spent()
        self._batches = 0

    def _spent(self) -> list[int]:
        return [self._ledger.spent[node] for node in self._nodes]

    def fetched(self, error: BaseException | None) -> None:
        """One more batch is there, or there are no more."""
        self._last = self._spent()
        if error is None:
            self._batches += 1
        else:
            self.over()

    def over(self) -> None:
        """The pass is at its end, or the loop has gone on without it."""
        ledger, loop = self._ledger, self._loop()
        if loop is None:
            return
        loop.aside = None
        if self._batches < FEW_BATCHES:
            return  # an answer to a batch of other data, say
        trained, loop.updated = self._updated - loop.updated, ledger.updated
        if ledger.updated != self._updated or trained < FEW_UPDATES:
            return
        stations = _validation_of(loop)
        stations.source(self._source)
        took = map(int.__sub__, self._last, self._first)
        for source, target, nanoseconds in zip(self._nodes, (stations.data, stations.step), took, strict=True):
            ledger.move(source, target, nanoseconds)
            ledger.counts[target] += self._batches
        _note_validation(loop, self._where)


def _validation_of(loop: Loop) -> Stations:
    root = recorder.tree.node(loop.root, "validation", "validation")
    if root not in _stations:
        _stations[root] = Stations(recorder.tree, root)
    return _stations[root]


def _note_validation(loop: Loop, where: Place | None) -> None:
    if where is not None:
        recorder.fact("validates", root=loop.root, file=where.file, line=where.line)


def _validating(ledger: Ledger, loop: Loop, iterator: Any, source: str) -> Any:
    """Another dataset is gone through inside the loop's body, and nothing is trained on it: a validation."""
    if loop.validation is None or loop.validation.iterator() is not iterator:
        if loop.validation is not None:
            loop.validation.left()
        frame = user_frame(sys._getframe(3))
        where = Place(frame.f_code.co_filename, frame.f_lineno) if frame is not None else None
        loop.validation = Validation(ledger, loop, iterator, source, where)
    stations = loop.validation.stations
    ledger.enter(stations.data)
    return stations.step, loop.validation


class Validation:
    """One pass over other data in the body of a loop; when its iterator is at its end or dies, the body goes on."""

    def __init__(self, ledger: Ledger, loop: Loop, iterator: Any, source: str, where: Place | None) -> None:
        self.stations, self._ledger, self._loop, self._where = _validation_of(loop), ledger, weakref.ref(loop), where
        self.stations.source(source)
        self.iterator = weakref.ref(iterator, self.ended)

    def ended(self, _: Any = None) -> None:
        """There is no more data, or it was left."""
        ledger, loop = self._ledger, self._loop()
        if loop is None or ledger.node not in (self.stations.step, self.stations.data):
            return
        ledger.back(loop.stations.step)
        _note_validation(loop, self._where)

    def left(self) -> None:
        """The loop goes on, and the pass is not at its end: what followed its last batch was the loop's own body."""
        loop = self._loop()
        if loop is not None and self._ledger.node == self.stations.step:
            self._ledger.rename(loop.stations.step)


def reads_arrays() -> bool:
    """Whether the call that is open now trains on arrays, whose pipeline Keras makes."""
    ledger = recorder.ledgers.get(get_ident())
    call: Any = ledger.call if ledger is not None else None
    return call is not None and recorder.tree.nodes[call.stations.data].name == "arrays"


def _fetched(ledger: Ledger, token: Any, error: BaseException | None) -> None:
    """The batch is there, or there are no more."""
    if token is None or recorder.ledgers.get(ledger.ident) is not ledger:
        return
    node, loop = token
    if isinstance(loop, Validation):
        if error is None:
            ledger.enter(node)
        else:
            loop.ended()
    elif loop is None or isinstance(loop, Aside):
        ledger.back(node)
        if loop is not None:
            loop.fetched(error)
    elif error is not None:
        if loop.host is None and isinstance(error, StopIteration):
            ledger.rename(loop.stations.close)  # what was waited for was the end of the data
        ledger.back(ledger.outside)
        ledger.loop = None
        _stop_watching()
    else:
        now = ledger.enter(node)
        if loop.first and loop.host is None:
            note_first(loop.root, now - loop.began)
        loop.first = False
        if recorder.stopped:
            from fitscope.observe.stepping import EnoughRecorded

            raise EnoughRecorded


def contains(ledger: Ledger, kind: str) -> bool:
    """Keras is called while a loop is open: does the call belong to the loop's body?

    It does if the loop trains by hand. If not, the loop feeds the call: its waits are charged there.
    """
    loop: Any = ledger.loop
    if loop is None:
        return False
    if loop.trains:
        if kind in ("fit", "train_on_batch"):
            ledger.updated += 1
            if not loop.updates:
                updates(loop)
        return True
    if not kind.endswith("_on_batch"):
        _leave(ledger, count=False)
    elif loop.host is None:
        ledger.back(ledger.outside)
    return False


def charge_between(ledger: Ledger, stations: Stations) -> None:
    """Another `train_on_batch` from the same line begins: what passed since the last was between the two."""
    now = clock()
    spent, last = ledger.spent, ledger.last_batch
    loop: Any = ledger.loop
    if loop is not None and not loop.trains and loop.host is not stations:
        source = recorder.tree.nodes[loop.stations.data].name
        stations.source(source)
        if loop.host is None:
            ledger.move(loop.stations.data, stations.data, spent[loop.stations.data])
            ledger.move(loop.stations.open, stations.open, spent[loop.stations.open])
            record_workers(stations.root, source, loop.iterator())
            loop.region.steps = 0
        loop.host = stations
    if last is not None and last[0] == stations.root:
        idle = spent[ledger.outside] + (now - ledger.since if ledger.node == ledger.outside else 0)
        recorder.claim_outside(ledger, stations.between, max(0, idle - last[2]))
        ledger.counts[stations.between] += 1


def batch_began(ledger: Ledger, call: Call) -> int:
    """When the step that this call is part of began: at the end of the one before."""
    last = ledger.last_batch
    if call.kind == "train_on_batch" and last is not None and last[0] == call.root:
        return last[1]
    return call.step_began


def batch_done(ledger: Ledger, call: Call, now: int) -> None:
    """A `train_on_batch` has ended."""
    if call.kind == "train_on_batch":
        ledger.last_batch = (call.root, now, ledger.spent[ledger.outside])
        ledger.seen_outside.clear()


def _step(loop: Loop, now: int) -> None:
    if loop.host is None:
        loop.region.step(now - loop.began)


def _leave(ledger: Ledger, *, count: bool) -> None:
    """The loop was left before its data ended."""
    loop: Any = ledger.loop
    ledger.loop = None
    _stop_watching()
    if loop.validation is not None:
        loop.validation.ended()
    if loop.host is not None or ledger.node != loop.stations.step:
        return
    if count:
        _step(loop, ledger.back(ledger.outside))
    else:
        # Nobody can say when the body ended: the time since the last batch is not charged to it.
        ledger.rename(ledger.outside)


def _watch_models() -> None:
    """Until a model is called in the loop, looks out for it."""
    if _watching:
        return
    module = sys.modules.get("keras.src.layers.layer")
    if module is None:
        return
    layer: Any = module.Layer
    original = layer.__call__

    def seen(self: Any, *args: Any, **kwargs: Any) -> Any:
        _mark(self, args)
        return original(self, *args, **kwargs)

    layer.__call__ = seen
    _watching.append((layer, original, seen))


def _mark(layer: Any, args: tuple[Any, ...]) -> None:
    """A layer, first of all the model, is called: if that happens in an open loop, on real data, the loop trains.

    Where a call that trains can be told from one that does not, one that does is looked out for beyond that.
    """
    ledger = recorder.ledgers.get(get_ident())
    loop: Any = ledger.loop if ledger is not None else None
    if ledger is None or loop is None or ledger.call is not None:
        return
    if args and type(args[0]).__name__ == "KerasTensor":
        return
    evaluating = _evaluates()
    if evaluating and loop.trains:
        return
    if not loop.trains:
        trains(loop, eager=not any(is_traced(arg) for arg in args))
        settings.note(loop.root, layer, _device())
    if evaluating is False:
        updates(loop)
    if not evaluating:
        _stop_watching()


def trains(loop: Loop, *, eager: bool) -> None:
    """A step was made in the body of a loop."""
    loop.trains = True
    _training.add(loop.root)
    recorder.fact("loop-trains", lasting=True, root=loop.root, eager=eager)


def updates(loop: Loop) -> None:
    """Weights are changed in the body of a loop."""
    loop.updates = True
    _updating.add(loop.root)
    recorder.fact("loop-updates", lasting=True, root=loop.root)


def is_traced(value: Any) -> bool:
    """Whether a layer gets a placeholder: its call is being compiled, not run."""
    kind = type(value).__name__
    if kind == "IndexedSlices":  # the gradient of an embedding
        kind = type(value.values).__name__
    return kind in ("SymbolicTensor", "DynamicJaxprTracer") or "FakeTensor" in kind


def _stop_watching() -> None:
    while _watching:
        layer, original, seen = _watching.pop()
        if vars(layer).get("__call__") is seen:
            layer.__call__ = original


def hold(seams: Seams, backend: Backend) -> None:
    """Nothing of the loops' own stays behind when the seams are released."""
    global _device, _evaluates
    _device, _evaluates = backend.device, backend.evaluates
    seams.on_release(_stop_watching)
