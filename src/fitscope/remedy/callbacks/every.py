"""Throttling: a callback's batch hooks, called for some of the batches only."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

from fitscope.remedy.callbacks.wrapper import PHASES, Wrapper

# Seconds to wait for a batch's logs. They never come if another callback failed in Keras' pool, which Keras raises
# only after the next batch.
PATIENCE = 60.0


class Every(Wrapper):
    """Calls a callback's batch hooks for every tenth batch, or every five seconds.

    `on_..._batch_begin` and `on_..._batch_end` are called for the same batches. The last batch of an epoch is always
    seen, and all other hooks are called as ever. A batch that is skipped costs nothing: JAX and PyTorch go on without
    waiting for its results. On these two the hook of a batch is called just before the next batch begins, in the
    training thread, unless another callback in the list reads every batch anyway.

    >>> import fitscope, keras, numpy
    >>> seen = []
    >>> note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
    >>> model = keras.Sequential([keras.layers.Dense(1)])
    >>> model.compile(loss="mse")
    >>> _ = model.fit(numpy.ones((25, 2)), numpy.ones(25), batch_size=1, verbose=0,
    ...               callbacks=[fitscope.Every(note, batches=10)])
    >>> seen
    [9, 19, 24]
    """

    def __init__(self, callback: Any, batches: int | None = None, seconds: float | None = None) -> None:
        super().__init__(callback)
        if (batches is None) == (seconds is None):
            raise ValueError("Every takes either batches= or seconds=")
        if batches is not None and (not isinstance(batches, int) or isinstance(batches, bool) or batches < 1):
            raise ValueError(f"Every: batches has to be a whole number from 1 on, and is {batches!r}")
        if seconds is not None and (isinstance(seconds, bool | str) or not seconds > 0):
            raise ValueError(f"Every: seconds has to be more than 0, and is {seconds!r}")
        self.batches = batches
        self.seconds = seconds
        self._passes = {phase: _Pass() for phase in PHASES}

    def pass_on(self, hook: str, *args: Any) -> None:
        """Before any other hook comes the batch that is still open; before an epoch ends, its last batch."""
        if hook == "on_epoch_begin":
            self._passes["train"] = _Pass(last_time=self._passes["train"].last_time)
        elif hook in ("on_test_begin", "on_predict_begin"):
            # Without a known number of batches the open one may be the end of the data: it waits for the epoch's end.
            if self._steps is not None:
                self._settle("train")
            self._passes[hook.split("_")[1]] = _Pass()
        elif hook == "on_epoch_end":
            self._see_the_last("train")
        elif hook in ("on_test_end", "on_predict_end"):
            self._see_the_last(hook.split("_")[1])
        super().pass_on(hook, *args)

    def batch_begins(self, phase: str, batch: int, logs: Any) -> None:
        """Decides about this batch, after the one before it has had its hook."""
        if not self.has_batches[phase]:
            return
        self._settle(phase)
        current = self._passes[phase]
        for old in [number for number in current.ends if number < batch - 1]:
            del current.ends[old]
        if self._is_due(phase, batch):
            current.opened = batch
            current.trainer = threading.get_ident()
            current.last_time = time.perf_counter()
            self._call(phase, "begin", batch, logs)

    def batch_ends(self, phase: str, batch: int, logs: Any) -> None:
        """Where Keras is synchronous the hook is called here, otherwise its logs are kept."""
        if not self.has_batches[phase]:
            return
        current = self._passes[phase]
        if current.opened is not None and current.trainer == threading.get_ident():
            current.opened, current.seen = None, batch
            self._call(phase, "end", batch, logs)
            return
        current.ends[batch] = logs
        current.arrived.set()

    def sees(self, phase: str, batch: int) -> bool:
        """By the number of the batch. The last one of unknown data is seen when the epoch ends."""
        return (self.batches is None or self._is_due(phase, batch)) and super().sees(phase, batch)

    @property
    def _steps(self) -> int | None:
        steps: int | None = (self.params or {}).get("steps")
        return steps

    def _is_due(self, phase: str, batch: int) -> bool:
        steps = self._steps
        through = batch + max(1, getattr(self._model, "steps_per_execution", None) or 1) - 1
        if phase == "train" and steps is not None and through >= steps - 1:
            return True
        if self.batches is not None:
            return (through + 1) // self.batches > batch // self.batches
        last = self._passes[phase].last_time
        assert self.seconds is not None
        if last is None:
            self._passes[phase].last_time = time.perf_counter()
            return False
        return time.perf_counter() - last >= self.seconds

    def _settle(self, phase: str) -> None:
        """Calls the end hook of the open batch: what began before now has been handed to Keras' pool."""
        current = self._passes[phase]
        if current.opened is None:
            return
        ends = self._wait(current, current.opened)
        if ends:
            current.opened, current.seen = None, min(ends)
            self._call(phase, "end", current.seen, current.ends.pop(current.seen))

    def _wait(self, current: _Pass, opened: int) -> list[int]:
        """The batches from this one on that have ended, once there is one."""
        while not (ends := [number for number in list(current.ends) if number >= opened]):
            current.arrived.clear()
            if not current.arrived.wait(PATIENCE):
                break
        return ends

    def _see_the_last(self, phase: str) -> None:
        """All batches have ended. One that began and did not was the end of the data."""
        current = self._passes[phase]
        current.opened = None
        if current.ends and (last := max(current.ends)) > current.seen:
            current.seen = last
            self._call(phase, "end", last, current.ends[last])
        current.ends.clear()

    def _call(self, phase: str, moment: str, batch: int, logs: Any) -> None:
        getattr(self.callback, f"on_{phase}_batch_{moment}")(batch, logs)


@dataclasses.dataclass
class _Pass:
    """One pass over the data."""

    opened: int | None = None  # the batch whose begin hook was called and whose end hook was not
    trainer: int = 0
    seen: int = -1
    last_time: float | None = None
    ends: dict[int, Any] = dataclasses.field(default_factory=dict)  # batches that ended unseen, with their logs
    arrived: threading.Event = dataclasses.field(default_factory=threading.Event)
