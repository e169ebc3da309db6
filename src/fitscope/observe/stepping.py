"""The steps of one epoch, when no callback has a hook before them: one function is told that a step has returned.

A step of a millisecond leaves nothing of fitscope in the processor's caches, so that each function and each object
that is touched after it costs several times what it costs in a tight loop. Here it is one function that touches few
objects: it moves the cursor of the ledger itself, notes three integers, and leaves the rest for every hundredth step.
While it is in place it stands in the `CallbackList` itself, where Keras finds it before the one of the class.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from operator import floordiv, sub
from typing import Any

from fitscope.observe.calls import Call
from fitscope.observe.dispatched import Dispatched
from fitscope.observe.ledger import Ledger, clock
from fitscope.observe.recorder import recorder

MOST_STEPS = 100
MOST_NANOSECONDS = 250_000_000
"""So many steps, or so long, are noted before they are counted."""


ENDS = {"fit": "on_train_end", "evaluate": "on_test_end", "predict": "on_predict_end"}


class Charging(list[Any]):
    """A list of callbacks that charges each with the time between it and the next, for one hook.

    Callbacks without the hook (their node is 0) are not asked: all that they could do is return. That is for Keras,
    which goes through the list once after each step; for anybody else it is a list.
    """

    def __init__(self, callbacks: list[Any], ledger: Ledger, nodes: list[int]) -> None:
        super().__init__(callbacks)
        self.expected = False
        """Keras is about to go through the list."""
        self._ledger = ledger
        self._nodes = nodes
        hooked = [(callback, node) for callback, node in zip(callbacks, nodes, strict=False) if node]
        self._only = hooked[0] if len(hooked) == 1 else None

    def __iter__(self) -> Iterator[Any]:
        if not self.expected:
            return list.__iter__(self)
        self.expected = False
        if self._only is None:
            return self._each()
        callback, node = self._only
        ledger = self._ledger
        now = clock()
        ledger.spent[ledger.node] += now - ledger.since
        ledger.node = node
        ledger.since = now
        return iter((callback,))

    def _each(self) -> Iterator[Any]:
        ledger = self._ledger
        spent = ledger.spent
        for callback, node in zip(list.__iter__(self), chain(self._nodes, repeat(-1)), strict=False):
            if node > 0:
                now = clock()
                spent[ledger.node] += now - ledger.since
                ledger.node = node
                ledger.since = now
            if node:
                yield callback

    def joined(self, known: list[Any]) -> list[Any]:
        """The callbacks that a hook has put here, and that Keras did not find when it went through."""
        known_ids = set(map(id, known))
        return [callback for callback in list.__iter__(self) if self._only and id(callback) not in known_ids]

    def __reduce__(self) -> Any:
        return list, (list(list.__iter__(self)),)


class Stepping:
    """The steps of the running epoch of a call, from the second on.

    `nodes`: those of the callbacks' hooks after a step, 0 for a callback without one; None if Keras' pool of threads
    goes through the callbacks and has something to tell.
    `steps`: what keeps steps that the pool tells the end of; None where they are over when they return.
    `now_and_then` is called after every hundredth step, with the list of callbacks.
    """

    def __init__(
        self,
        ledger: Ledger,
        call: Call,
        callbacks: Any,
        nodes: list[int] | None,
        steps: Dispatched | None,
        now_and_then: Callable[[Any], None],
    ) -> None:
        self._ledger = ledger
        self._call = call
        self._callbacks = weakref.ref(callbacks)  # those of a failed fit are not kept alive by us
        self._watched = weakref.ref(callbacks.callbacks)
        self._nodes = nodes
        self._steps = steps
        self._now_and_then = now_and_then
        self._names: list[str] = []
        self._ticks: list[int] = []
        self._unsettled = 0

    def stand_in(self, mode: str, begin: Any, end: Any) -> None:
        """From now on for the two functions of Keras, `begin` and `end`, around every step of the mode."""
        callbacks, call = self._callbacks(), self._call
        now = self._ledger.back(call.stations.step)
        if call.waits is not None:
            call.waits.began(now)
        self._names = [f"on_{mode}_batch_begin", f"on_{mode}_batch_end"]
        for name, function in zip(self._names, self._functions(callbacks, begin, end), strict=True):
            setattr(callbacks, name, function)

    def _functions(self, callbacks: Any, begin: Any, end: Any) -> tuple[Any, Any]:
        ledger, call, ticks = self._ledger, self._call, self._ticks
        spent, counts = ledger.spent, ledger.counts
        step, trace, reading = call.stations.step, call.stations.trace, call.reading
        due, room, traces = ledger.since + MOST_NANOSECONDS, 3 * self._room(), counts[trace]
        watched, charging, name = callbacks.callbacks, None, self._names[1]
        listed = watched if self._nodes is None else list(list.__iter__(watched))
        callbacks.callbacks, known = listed, list(list.__iter__(listed))
        if self._nodes is not None and any(self._nodes):
            charging = Charging(listed, ledger, self._nodes)

        def on_batch_begin(batch: Any, logs: Any = None) -> None:
            if callbacks.callbacks is not listed or listed != known:
                begin(callbacks, batch, logs)  # those that were known have no hook before the step

        def on_batch_end(batch: Any, logs: Any = None) -> None:
            nonlocal due, room, traces
            if ledger.call is not call or callbacks.callbacks is not listed or listed != known:
                try:
                    self.leave()  # nobody records any more, or there are other callbacks now
                    call.stepping = None
                except Exception as error:
                    recorder.fail(error)
                getattr(callbacks, name)(batch, logs)
                return
            returned = clock()
            spent[ledger.node] += returned - ledger.since
            ledger.node = reading
            ledger.since = returned
            owned = spent[step]
            if charging is None:
                end(callbacks, batch, logs)
            else:
                callbacks.callbacks = charging
                charging.expected = True
                end(callbacks, batch, logs)
                if callbacks.callbacks is charging:
                    if charging != known:
                        callbacks.callbacks = charging.joined(known)
                        end(callbacks, batch, logs)
                        listed[:] = list(list.__iter__(charging))
                    callbacks.callbacks = listed
            if ledger.call is not call:
                self.leave()
                return
            now = clock()
            spent[ledger.node] += now - ledger.since
            ledger.node = step
            ledger.since = now
            ticks.extend((returned, owned, now))
            if now >= due or len(ticks) >= room or counts[trace] != traces:
                try:
                    self.count()
                except Exception as error:
                    recorder.fail(error)
                due, room, traces = now + MOST_NANOSECONDS, 3 * self._room(), counts[trace]
                if recorder.stopped:
                    stop(call, callbacks)

        vars(on_batch_end)["watched"] = watched  # to be put back; it lives as long as the callbacks do
        return on_batch_begin, on_batch_end

    def _room(self) -> int:
        waits = self._call.waits
        return MOST_STEPS if waits is None else min(MOST_STEPS, waits.room())

    def count(self) -> None:
        """Counts what was noted."""
        ledger, call = self._ledger, self._call
        returned, owned, ended = self._ticks[0::3], self._ticks[1::3], self._ticks[2::3]
        self._ticks.clear()
        number, region = len(ended), call.region
        call.executions += number
        for node in (call.stations.step, call.reading, *filter(None, self._nodes or ())):
            ledger.counts[node] += number
        if region is not None:
            region.steps += number * call.each
        if self._steps is not None:
            self._steps.open.extend([(region, call.each, 0)] * number)
        elif region is not None:
            took = list(map(floordiv, map(sub, ended, [call.step_began, *ended]), repeat(call.each)))
            region.durations.extend(took)
        call.step_began = ended[-1]
        self._unsettled += number
        if self._unsettled >= MOST_STEPS:
            self._unsettled = 0
            self._now_and_then(self._watched())
        if call.waits is not None:
            call.waits.took(returned, owned, ended)

    def leave(self, *, over: bool = False) -> None:
        """Stands in no longer; `over`: no step has begun since the last one returned."""
        try:
            if self._ledger.call is self._call:
                if self._ticks:
                    self.count()
                if over and self._call.waits is not None:
                    self._call.waits.begun.pop()
        finally:
            self._put_back()

    def _put_back(self) -> None:
        callbacks, watched = self._callbacks(), self._watched()
        if callbacks is None:
            return
        for name in self._names:
            vars(callbacks).pop(name, None)
        if watched is not None:
            now = list(list.__iter__(callbacks.callbacks))
            if list(map(id, now)) != list(map(id, list.__iter__(watched))):
                watched[:] = now
            callbacks.callbacks = watched


def stop(call: Call, callbacks: Any) -> None:
    """Enough was recorded: lets the callbacks put their files in order, then ends the script.

    A `fit` may be ended in its validation, which may take longer than all its steps.
    """
    outer = call.outer if recorder.tree.nodes[call.root].phase == "validation" else call
    if outer is None or outer.outer is not None:
        return
    sync = getattr(call.model, "jax_state_sync", None)
    if sync is not None:
        sync()
    for callback in callbacks.callbacks:
        if getattr(callback, "delete_checkpoint", False):
            callback.delete_checkpoint = False  # BackupAndRestore: the training is not over, and may be resumed
    getattr(callbacks, ENDS[outer.kind])()
    raise EnoughRecorded


class EnoughRecorded(SystemExit):
    """Ends the script with exit code 0 after `--for`; a SystemExit, so that `except Exception` lets it through."""

    def __init__(self) -> None:
        super().__init__(0)
