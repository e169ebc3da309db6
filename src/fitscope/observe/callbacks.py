"""Each callback's own time, without a callback of ours and without touching the user's.

Keras goes through `CallbackList.callbacks` in a plain `for` loop. The list it goes through is replaced by one
that moves the ledger's cursor between two callbacks; Keras' code and the callbacks themselves stay as they are.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from threading import get_ident
from types import CodeType
from typing import Any

from fitscope.observe import settings
from fitscope.observe.calls import Call, Stations
from fitscope.observe.dispatched import Dispatched
from fitscope.observe.ledger import Ledger, clock
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams, place_of
from fitscope.observe.stepping import MOST_STEPS, Stepping, stop

MODES = ("train", "test", "predict")
BATCH_ENDS = tuple(f"on_{mode}_batch_end" for mode in MODES)
OTHER_HOOKS = tuple(f"on_{mode}_{edge}" for mode in (*MODES, "epoch") for edge in ("begin", "end"))


_ledgers = recorder.ledgers
_after_batches: set[CodeType] = set()
"""The functions of Keras that call the hooks after a batch, in whatever thread."""


class Watched(list[Any]):
    """A list of callbacks that charges each with the time between it and the next.

    Where steps are only dispatched by the training thread, Keras' pool goes through this list when they are done.
    """

    def __init__(self, callbacks: list[Any]) -> None:
        super().__init__(callbacks)
        self.steps = Dispatched()
        self._plans: dict[str, tuple[int, int, list[int]]] = {}
        self._number = len(callbacks)
        self.any_batch_end = any(overridden(callback, hook) for callback in callbacks for hook in BATCH_ENDS)

    def __iter__(self) -> Iterator[Any]:
        ledger = _ledgers.get(get_ident())
        if ledger is None:
            if self.steps.awaits:
                try:
                    self.steps.step_done()
                except Exception as error:  # in Keras' pool of threads, where it would end the training
                    recorder.fail(error)
                if not self.any_batch_end and len(self) == self._number and sys._getframe(1).f_code in _after_batches:
                    return iter(())  # Keras' pool: none of them has a hook there, so they need not be asked
            return self._beside() if self.any_batch_end and _ledgers else list.__iter__(self)
        hook = ledger.hook
        if hook is None:
            return list.__iter__(self)
        ledger.hook = None
        nodes = self.nodes(ledger.call.stations, hook)
        return _timed(ledger, list.__iter__(self), nodes) if nodes else list.__iter__(self)

    def __reduce__(self) -> Any:
        return list, (list(list.__iter__(self)),)

    def _beside(self) -> Iterator[Any]:
        """In one of Keras' pool threads: the time counts beside the training, not in it."""
        for callback in list.__iter__(self):
            began = clock()
            yield callback
            row = recorder.beside.row(name_of(callback))
            row[0] += clock() - began
            row[1] += 1

    def nodes(self, stations: Stations, hook: str) -> list[int]:
        """The node of each callback for this hook, 0 for one that does nothing in it; empty if none does."""
        plan = self._plans.get(hook)
        if plan is None or plan[0] != stations.root or plan[1] != len(self):
            nodes = [_node(stations, callback, hook) for callback in list.__iter__(self)]
            plan = self._plans[hook] = (stations.root, len(self), nodes if any(nodes) else [])
        return plan[2]


def _timed(ledger: Ledger, callbacks: Iterator[Any], nodes: list[int]) -> Iterator[Any]:
    for callback, node in zip(callbacks, chain(nodes, repeat(0)), strict=False):
        if node:
            ledger.enter(node)
        yield callback


def _node(stations: Stations, callback: Any, hook: str) -> int:
    method = overridden(callback, hook)
    if method is None:
        return 0
    name = name_of(callback)
    phase = "progress" if name == "ProgbarLogger" else "callback"
    while _is_remedy(callback):
        callback = callback.callback
        inner = overridden(callback, hook) or overridden(callback, hook.replace("_begin", "_end"))
        method = inner or method
    return stations.callback(phase, f"{name}.{hook}", place_of(method))


def name_of(callback: Any) -> str:
    """Its class, and for a remedy around another callback also the other one's."""
    name = type(callback).__name__
    return f"{name}({name_of(callback.callback)})" if _is_remedy(callback) else name


def _is_remedy(callback: Any) -> bool:
    return type(callback).__module__.startswith("fitscope.remedy.") and hasattr(callback, "callback")


def overridden(callback: Any, hook: str) -> Any:
    """The method that a callback brings for a hook itself, or None."""
    method = getattr(callback, hook, None)
    if method is None or not getattr(method, "_is_default", False):
        return method
    if hook.startswith("on_train_batch_"):
        return overridden(callback, hook.replace("on_train_batch_", "on_batch_"))
    return None


def forces_sync(callbacks: list[Any], mode: str) -> list[str]:
    """The callbacks that make Keras wait for every step on JAX and torch."""
    hook = f"on_{mode}_batch_end"
    return [
        name_of(callback)
        for callback in list.__iter__(callbacks)
        if type(callback).__name__ not in {"ProgbarLogger", "History"}
        and not getattr(callback, "async_safe", False)
        and overridden(callback, hook) is not None
    ]


def hold_remedies(seams: Seams) -> None:
    """`Every` waits for the logs of the batches it lets through: that is the device's time, not a callback's."""
    every = sys.modules["fitscope.remedy.callbacks.every"].Every

    def waiting(ledger: Ledger, every: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(ledger.call, Call):
            return None
        node = ledger.node
        ledger.enter(ledger.call.stations.wait)
        return node

    def waited(ledger: Ledger, node: Any, result: Any, error: BaseException | None) -> None:
        if node is not None:
            ledger.back(node)

    seams.hold(every, "_wait", waiting, waited)


def hold(seams: Seams, *, reading_waits: Callable[[], bool], can_be_async: bool, device: Callable[[], str]) -> None:
    """Holds Keras' list of callbacks; `reading_waits`: reading the logs waits for the device."""
    from keras.src.callbacks.callback_list import CallbackList

    def made(ledger: Ledger, callbacks: Any, args: Any, kwargs: Any) -> Any:
        return callbacks

    def watch(ledger: Ledger, callbacks: Any, result: Any, error: BaseException | None) -> None:
        if error is None and type(callbacks.callbacks) is list:
            callbacks.callbacks = Watched(callbacks.callbacks)

    seams.hold(CallbackList, "__init__", made, watch, anyone=True)
    ends = (vars(CallbackList).get(f"_{hook}") for hook in BATCH_ENDS)
    _after_batches.update(end.__code__ for end in ends if end is not None)
    for hook in OTHER_HOOKS:
        seams.hold(CallbackList, hook, _before(hook), _after(hook))
    for mode in MODES:
        begin, end = (getattr(CallbackList, f"on_{mode}_batch_{edge}") for edge in ("begin", "end"))
        seams.replace(CallbackList, f"on_{mode}_batch_begin", _batch_begin(begin, mode))
        ends = _batch_end(begin, end, mode, reading_waits, can_be_async, device)
        seams.replace(CallbackList, f"on_{mode}_batch_end", ends)

    def flushing(ledger: Ledger, callbacks: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(ledger.call, Call):
            return None
        return callbacks.callbacks, ledger.node, ledger.enter(ledger.call.stations.wait), _pool_time()

    def flushed(ledger: Ledger, token: Any, result: Any, error: BaseException | None) -> None:
        if token is None or not isinstance(ledger.call, Call):
            return
        watched, node, began, pool = token
        if isinstance(watched, Watched):
            watched.steps.settle(final=True)
        stations = ledger.call.stations
        waited = ledger.back(node) - began
        for name, busy in _pool_time().items():
            share = min(waited, busy - pool.get(name, 0))
            if share > 0:
                ledger.move(stations.wait, stations.callback("callback", f"{name}.on_train_batch_end", None), share)
                waited -= share

    seams.hold(CallbackList, "_flush_futures", flushing, flushed)


def _pool_time() -> dict[str, int]:
    return {key[0]: row[0] for key, row in zip(recorder.beside.keys, recorder.beside.rows, strict=False)}


def _before(hook: str) -> Any:
    is_end = hook.endswith("_end")

    def before(ledger: Ledger, callbacks: Any, args: Any, kwargs: Any) -> Any:
        call: Call | None = ledger.call
        if call is None:
            return None
        ledger.hook = hook
        if is_end:
            if call.in_epoch:
                leave_epoch(ledger, call)
            if ledger.node == call.stations.start:
                ledger.rename(call.stations.close)  # the last epoch is over: Keras drops its iterators
            ledger.enter(call.stations.metrics)
        elif hook == "on_test_begin" and isinstance(callbacks.callbacks, Watched):
            callbacks.callbacks.steps.validation_begins(ledger, call)
        return call

    return before


def _after(hook: str) -> Any:
    closing = hook.endswith("_end") and hook != "on_epoch_end"

    def after(ledger: Ledger, call: Any, result: Any, error: BaseException | None) -> None:
        if call is None:
            return
        ledger.hook = None
        if hook == "on_epoch_end" and call.region is not None:
            call.region.epochs += 1
        call.begun = True
        now = ledger.enter(call.stations.close if closing else call.stations.start)
        if hook == "on_epoch_end" and call.region is not None:
            call.region.mark(now, ledger.spent)
        if closing and call.close is not None:
            call.close()

    return after


# The two hooks around a step are written out, not made by `Seams.hold`: where a callback has a hook before the step,
# they run a thousand times a second.


def _batch_begin(original: Any, mode: str) -> Any:
    hook = f"on_{mode}_batch_begin"

    @functools.wraps(original)
    def on_batch_begin(self: Any, batch: Any, logs: Any = None) -> None:
        ledger = _ledgers.get(get_ident())
        call: Call | None = ledger.call if ledger is not None else None
        if ledger is None or call is None:
            original(self, batch, logs)
            return
        ledger.hook = hook
        original(self, batch, logs)
        ledger.hook = None
        now = ledger.back(call.stations.step)
        if call.waits is not None:
            try:
                call.waits.began(now)
            except Exception as error:
                recorder.fail(error)

    return on_batch_begin


def _batch_end(
    begin: Any,
    original: Any,
    mode: str,
    reading_waits: Callable[[], bool],
    can_be_async: bool,
    device: Callable[[], str],
) -> Any:
    hook, flag = f"on_{mode}_batch_end", f"_async_{mode}"

    @functools.wraps(original)
    def on_batch_end(self: Any, batch: Any, logs: Any = None) -> None:
        ledger = _ledgers.get(get_ident())
        call: Call | None = ledger.call if ledger is not None else None
        if ledger is None or call is None:
            original(self, batch, logs)
            return
        stations, waits = call.stations, call.waits
        call.executions += 1
        ledger.counts[stations.step] += 1
        try:
            if call.executions == 1:
                _first_of_epoch(call, self, getattr(self, flag, False), reading_waits())
                if can_be_async and call.reading != stations.dispatch:
                    _note_forced_sync(call, self.callbacks, mode)
            now = ledger.enter(call.reading)
            if call.reading != stations.dispatch:
                ledger.hook = hook
            call.batch = None
            if waits is not None:
                waits.took([now], [ledger.spent[stations.step]], [])
        except Exception as error:
            recorder.fail(error)
        original(self, batch, logs)
        if _ledgers.get(ledger.ident) is not ledger:
            return
        ledger.hook = None
        now = ledger.back(stations.loop)
        region = call.region
        if region is not None:
            region.steps += call.each
        if call.dispatched is not None:
            first = call.step_began if call.executions == 1 else 0
            call.dispatched.open.append((region, call.each, first))
        elif region is not None:
            region.durations.append((now - call.step_began) // call.each)
        call.step_began = now
        try:
            if call.executions == 1:
                _note_settings(ledger, call, self.callbacks, device)
                # Otherwise somebody wants to be told of every step, or of every move of the cursor.
                begins = getattr(getattr(type(self), f"on_{mode}_batch_begin"), "__wrapped__", None) is begin
                if begins and getattr(type(self), hook) is on_batch_end and type(ledger) is Ledger:
                    call.stepping = _stepping(ledger, call, self, mode)
                if call.stepping is not None:
                    call.stepping.stand_in(mode, begin, original)
            elif call.executions % MOST_STEPS == 0:
                _now_and_then(call, self.callbacks)
        except Exception as error:
            recorder.fail(error)
        if recorder.stopped:
            stop(call, self)

    return on_batch_end


def _first_of_epoch(call: Call, callbacks: Any, asynchronous: bool, reading_waits: bool) -> None:
    """What is the same for all steps of an epoch."""
    stations, watched = call.stations, callbacks.callbacks
    by_pool = asynchronous and reading_waits and type(watched) is Watched
    call.dispatched = watched.steps if by_pool else None
    call.reading = stations.dispatch if asynchronous else stations.wait if reading_waits else stations.logs
    if by_pool:
        watched.steps.awaits = True


def _stepping(ledger: Ledger, call: Call, callbacks: Any, mode: str) -> Stepping | None:
    """What is told of the other steps of the epoch, unless a callback has a hook before them."""
    watched = callbacks.callbacks
    if type(watched) is not Watched or watched.nodes(call.stations, f"on_{mode}_batch_begin"):
        return None
    nodes: list[int] | None = watched.nodes(call.stations, f"on_{mode}_batch_end")
    if call.reading == call.stations.dispatch and (call.dispatched is not None or watched.any_batch_end):
        nodes = None
    return Stepping(
        ledger,
        call,
        callbacks,
        nodes=nodes,
        steps=call.dispatched,
        now_and_then=functools.partial(_now_and_then, call),
    )


def _note_settings(ledger: Ledger, call: Call, callbacks: list[Any], device: Callable[[], str]) -> None:
    if call.region is not None:
        node = ledger.node
        ledger.enter(call.stations.own)
        settings.note(call.root, call.model, device(), callbacks, call.batch_size)
        ledger.back(node)


def _now_and_then(call: Call, callbacks: Any) -> None:
    """After every hundredth step of an epoch."""
    if isinstance(callbacks, Watched) and call.region is not None:
        callbacks.steps.settle()
    if call.contention is not None:
        call.contention.settle()


def _note_forced_sync(call: Call, callbacks: list[Any], mode: str) -> None:
    for name in forces_sync(callbacks, mode):
        recorder.fact("forced-sync", root=call.root, callback=name)


def leave_epoch(ledger: Ledger, call: Call, *, over: bool = False) -> None:
    """The batches of this epoch are over; `over`: no step has begun that did not find a batch."""
    call.in_epoch = False
    call.batch = None
    if call.stepping is not None:
        stepping, call.stepping = call.stepping, None
        stepping.leave(over=over or getattr(call.model, "stop_training", False))
    if call.waits is not None:
        call.waits.finish()
    if call.contention is not None:
        call.contention.settle()
        call.contention = None
