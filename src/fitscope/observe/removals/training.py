"""Holding the one training that an experiment is about: it goes on for as long as asked, and tells its course."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from typing import Any, Protocol

from fitscope.observe.backends import Backend
from fitscope.observe.removals.stretches import Stretches
from fitscope.observe.seams import Seams, user_place

PARENT = os.getppid()
EPOCHS = 100_000
EPOCHS_PLACE = 3
"""Where `epochs` stands among the arguments of `fit`."""


class Removal(Protocol):
    """One way to take a cause away."""

    replaces_input: bool
    """Whether the pipeline is not opened at all without the cause."""

    def hold(self, seams: Seams, backend: Backend) -> None:
        """Holds what it needs; called once."""

    def begin(self, model: Any, callbacks: Any) -> None:
        """The training begins, with this list of callbacks."""

    def flip(self, removed: bool) -> None:
        """The cause goes away, or comes back."""

    def finish(self) -> None:
        """A stretch is about to end: what it left to be done is done now."""

    def items(self, epochs: Any, original: Any) -> Iterator[Any]:
        """The batches of an epoch, as Keras' loop gets them."""


def hold(seams: Seams, backend: Backend, stretches: Stretches, removal: Removal, target: Target) -> None:
    """Holds `fit`, its epochs and its callbacks."""
    from keras.src.callbacks.callback_list import CallbackList

    stretches.flip, stretches.finish = removal.flip, removal.finish
    _hold_fit(seams, backend.trainer(), stretches, target)
    _hold_callbacks(seams, CallbackList, stretches, target, removal)
    iterator = backend.epoch_iterator()
    made, enumerated = iterator.__init__, iterator._enumerate_iterator

    @functools.wraps(made)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if target.model is not None and target.epochs is None:
            target.epochs = self  # the first that fit makes is its own; another one is for the validation
        made(self, *args, **kwargs)

    seams.replace(iterator, "__init__", init)
    seams.replace(iterator, "_enumerate_iterator", _enumerating(enumerated, target, removal, stretches))
    removal.hold(seams, backend)


class Target:
    """The `fit` that is meant: the line that calls it, and once it runs, its model and its callbacks."""

    def __init__(self, plan: dict[str, Any]) -> None:
        file: str = plan["where"][0] if plan["where"] else ""
        self._line: int = plan["where"][1] if plan["where"] else 0
        self._file = os.path.realpath(os.path.join(plan["top"], file)) if file else ""
        self.model: Any = None
        self.callbacks: Any = None
        self.epochs: Any = None
        self.item = (0, 0)
        self.first, self.wanted = 0, 1
        """The epochs that the user asked for."""

    def is_called_from(self, frame: Any) -> bool:
        """Whether this is the call that is meant, and the first one from that line."""
        place = user_place(frame)
        if self.model is not None or place is None:
            return False
        return not self._file or (os.path.realpath(place.file), place.line) == (self._file, self._line)

    def told(self, epoch: int) -> int:
        """The number of an epoch as callbacks are told it: what they look up by it ends with the user's epochs."""
        return self.first + (epoch - self.first) % max(1, self.wanted - self.first)


def _hold_fit(seams: Seams, trainer: Any, stretches: Stretches, target: Target) -> None:
    original = trainer.fit

    @functools.wraps(original)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not target.is_called_from(sys._getframe(1)):
            return original(self, *args, **kwargs)
        target.first = kwargs.get("initial_epoch") or 0
        if len(args) > EPOCHS_PLACE:
            target.wanted = args[EPOCHS_PLACE]
            args = (*args[:EPOCHS_PLACE], EPOCHS, *args[EPOCHS_PLACE + 1 :])
        else:
            target.wanted = kwargs.get("epochs", 1)
            kwargs["epochs"] = EPOCHS
        often = kwargs.get("validation_freq", 1)
        stretches.multiple = often if isinstance(often, int) and often > 0 else 1
        target.model = self
        try:
            return original(self, *args, **kwargs)
        finally:
            target.model = target.callbacks = None

    seams.replace(trainer, "fit", fit)


def _hold_callbacks(seams: Seams, callback_list: Any, stretches: Stretches, target: Target, removal: Removal) -> None:
    train_begin, epoch_begin = callback_list.on_train_begin, callback_list.on_epoch_begin
    batch_end, epoch_end = callback_list.on_train_batch_end, callback_list.on_epoch_end

    @functools.wraps(train_begin)
    def on_train_begin(self: Any, *args: Any, **kwargs: Any) -> None:
        if target.model is not None and target.callbacks is None:
            target.callbacks = self
            if "epochs" in (getattr(self, "params", None) or {}):
                self.params["epochs"] = target.wanted
            try:
                removal.begin(target.model, self)
            except Exception as error:
                stretches.give_up(str(error))
        train_begin(self, *args, **kwargs)

    @functools.wraps(epoch_begin)
    def on_epoch_begin(self: Any, epoch: int, logs: Any = None) -> None:
        if self is target.callbacks:
            epoch = target.told(epoch)
            stretches.epoch_begins()
        epoch_begin(self, epoch, logs)

    @functools.wraps(batch_end)
    def on_train_batch_end(self: Any, batch: Any, logs: Any = None) -> None:
        batch_end(self, batch, logs)
        if self is target.callbacks:
            _go_on(target.model)
            stretches.step_ends(target.item[1] - target.item[0] + 1, functools.partial(_wait_for, logs))

    @functools.wraps(epoch_end)
    def on_epoch_end(self: Any, epoch: int, logs: Any = None) -> None:
        epoch_end(self, target.told(epoch) if self is target.callbacks else epoch, logs)
        if self is target.callbacks:
            stretches.epoch_ends()
            _go_on(target.model)

    for function in (on_train_begin, on_epoch_begin, on_train_batch_end, on_epoch_end):
        seams.replace(callback_list, function.__name__, function)


def _go_on(model: Any) -> None:
    """The training goes on, whoever wants it to stop early; but not without anybody who would end it."""
    if model.stop_training:
        model.stop_training = False
    if os.getppid() != PARENT:
        os._exit(1)


def _wait_for(logs: Any) -> None:
    """Waits until the step is computed whose results these are."""
    for value in logs.values() if isinstance(logs, dict) else ():
        if hasattr(value, "__float__"):
            float(value)
            return


def _enumerating(original: Any, target: Target, removal: Removal, stretches: Stretches) -> Any:
    @functools.wraps(original)
    def enumerate_iterator(self: Any) -> Iterator[Any]:
        if self is not target.epochs:
            yield from original(self)
            return
        most = stretches.most_steps
        done = 0
        for item in removal.items(self, original):
            if most is not None and done >= most:
                if not (removal.replaces_input and stretches.removed):
                    self.data_adapter.on_epoch_end()  # as Keras does behind the last batch
                break
            target.item = item[0], item[1]
            done += item[1] - item[0] + 1
            yield item

    return enumerate_iterator
