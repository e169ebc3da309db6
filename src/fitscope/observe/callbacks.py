"""Each callback's own time, without a callback of ours and without touching the user's.

Keras goes through `CallbackList.callbacks` in a plain `for` loop. The list it goes through is replaced by one
that moves the ledger's cursor between two callbacks; Keras' code and the callbacks themselves stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import get_ident
from typing import Any

from fitscope.observe.calls import Call, Stations
from fitscope.observe.ledger import Ledger, clock
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams, place_of

BATCH_HOOKS = {f"on_{mode}_batch_{edge}" for mode in ("train", "test", "predict") for edge in ("begin", "end")}
OTHER_HOOKS = {f"on_{mode}_{edge}" for mode in ("train", "test", "predict", "epoch") for edge in ("begin", "end")}


SETTLE_EVERY = 100
"""Executions of the step between two looks at what the input's Python code took from it."""


class Watched(list[Any]):
    """A list of callbacks that charges each with the time between it and the next."""

    def __iter__(self) -> Iterator[Any]:
        ledger = recorder.ledgers.get(get_ident())
        if ledger is not None and ledger.hook is not None:
            return self._timed(ledger)
        if ledger is None and recorder.ledgers:
            return self._beside()
        return super().__iter__()

    def __reduce__(self) -> Any:
        return list, (list(super().__iter__()),)

    def _timed(self, ledger: Ledger) -> Iterator[Any]:
        call: Call = ledger.call  # type: ignore[assignment]
        nodes = self._nodes(call.stations, str(ledger.hook))
        ledger.hook = None
        for callback, node in zip(super().__iter__(), nodes, strict=False):
            if node:
                ledger.enter(node)
            yield callback

    def _beside(self) -> Iterator[Any]:
        """In one of Keras' pool threads: the time counts beside the training, not in it."""
        for callback in super().__iter__():
            began = clock()
            yield callback
            row = recorder.beside.row(type(callback).__name__)
            row[0] += clock() - began
            row[1] += 1

    def _nodes(self, stations: Stations, hook: str) -> list[int]:
        """The node of each callback for this hook, 0 for those that do nothing in it."""
        plans: dict[tuple[int, str], list[int]] = self.__dict__.setdefault("plans", {})
        nodes = plans.get((stations.root, hook))
        if nodes is None or len(nodes) != len(self):
            nodes = [_node(stations, callback, hook) for callback in super().__iter__()]
            plans[stations.root, hook] = nodes
        return nodes


def _node(stations: Stations, callback: Any, hook: str) -> int:
    method = overridden(callback, hook)
    if method is None:
        return 0
    name = type(callback).__name__
    phase = "progress" if name == "ProgbarLogger" else "callback"
    return stations.callback(phase, f"{name}.{hook}", place_of(method))


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
        type(callback).__name__
        for callback in list.__iter__(callbacks)
        if type(callback).__name__ not in {"ProgbarLogger", "History"}
        and not getattr(callback, "async_safe", False)
        and overridden(callback, hook) is not None
    ]


def hold(seams: Seams, *, reading_waits: bool, can_be_async: bool) -> None:
    """Holds Keras' list of callbacks; `reading_waits`: reading the logs waits for the device."""
    from keras.src.callbacks.callback_list import CallbackList

    def made(ledger: Ledger, callbacks: Any, args: Any, kwargs: Any) -> Any:
        return callbacks

    def watch(ledger: Ledger, callbacks: Any, result: Any, error: BaseException | None) -> None:
        if error is None and type(callbacks.callbacks) is list:
            callbacks.callbacks = Watched(callbacks.callbacks)

    seams.hold(CallbackList, "__init__", made, watch, anyone=True)
    for hook in BATCH_HOOKS | OTHER_HOOKS:
        seams.hold(CallbackList, hook, _before(hook, reading_waits, can_be_async), _after(hook))

    def flushing(ledger: Ledger, callbacks: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(ledger.call, Call):
            return None
        return ledger.node, ledger.enter(ledger.call.stations.wait), _pool_time()

    def flushed(ledger: Ledger, token: Any, result: Any, error: BaseException | None) -> None:
        if token is None or not isinstance(ledger.call, Call):
            return
        node, began, pool = token
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


def _before(hook: str, reading_waits: bool, can_be_async: bool) -> Any:
    ends_step = hook in BATCH_HOOKS and hook.endswith("_end")
    mode = hook.split("_")[1]
    flag = f"_async_{mode}"

    def before(ledger: Ledger, callbacks: Any, args: Any, kwargs: Any) -> Any:
        call = ledger.call
        if not isinstance(call, Call):
            return None
        ledger.hook = hook
        call.callbacks = callbacks
        stations = call.stations
        if ends_step:
            if getattr(callbacks, flag, False):
                ledger.hook = None
                now = ledger.enter(stations.dispatch)
            else:
                now = ledger.enter(stations.wait if reading_waits else stations.logs)
                if can_be_async and call.region is not None and call.region.steps == 0:
                    for name in forces_sync(callbacks.callbacks, mode):
                        recorder.fact("forced-sync", root=call.root, callback=name)
            if call.waits is not None:
                call.waits.ended(now)
        elif hook.endswith("_end"):
            if call.in_epoch:
                leave_epoch(ledger, call)
            ledger.enter(stations.metrics)
        return call

    return before


def _after(hook: str) -> Any:
    is_batch = hook in BATCH_HOOKS
    is_end = hook.endswith("_end")

    def after(ledger: Ledger, call: Any, result: Any, error: BaseException | None) -> None:
        if call is None:
            return
        ledger.hook = None
        stations = call.stations
        if not is_batch:
            if hook == "on_epoch_end" and call.region is not None:
                call.region.epochs += 1
            closing = is_end and hook != "on_epoch_end"
            call.begun = True
            ledger.enter(stations.close if closing else stations.start)
            if closing and call.close is not None:
                call.close()
        elif is_end:
            now = ledger.back(stations.loop)
            if call.region is not None and error is None:
                call.region.step(now - call.step_began, max(1, getattr(call.model, "steps_per_execution", 1) or 1))
            call.step_began = now
            if call.contention is not None and call.executions % SETTLE_EVERY == 0:
                call.contention.settle()
            if recorder.stopped:
                stop(ledger, call)
        else:
            now = ledger.enter(stations.step)
            if call.waits is not None:
                call.waits.began(now)

    return after


def leave_epoch(ledger: Ledger, call: Call) -> None:
    """The batches of this epoch are over."""
    call.in_epoch = False
    if call.waits is not None:
        call.waits.finish()
    if call.contention is not None:
        call.contention.settle()
        call.contention = None


def stop(ledger: Ledger, call: Call) -> None:
    """Enough was recorded: lets the callbacks put their files in order, then ends the script."""
    if call.kind != "fit" or call.outer is not None:
        return
    sync = getattr(call.model, "jax_state_sync", None)
    if sync is not None:
        sync()
    call.callbacks.on_train_end()
    raise EnoughRecorded


class EnoughRecorded(SystemExit):
    """Ends the script with exit code 0 after `--for`; a SystemExit, so that `except Exception` lets it through."""

    def __init__(self) -> None:
        super().__init__(0)
