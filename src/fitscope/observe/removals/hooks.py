"""Hooks that are not called, a model that is not saved, a validation that is left out: for a while."""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Iterator
from typing import Any

from fitscope.observe.backends import Backend
from fitscope.observe.callbacks import name_of
from fitscope.observe.removals.stretches import Stretches
from fitscope.observe.seams import Seams


class Nothing:
    """Takes nothing away: an experiment with it must find no difference."""

    replaces_input = False

    def __init__(self, plan: dict[str, Any], stretches: Stretches) -> None:
        self.arguments: dict[str, Any] = plan["arguments"]
        self.stretches = stretches

    def hold(self, seams: Seams, backend: Backend) -> None:
        """Holds what it needs."""

    def begin(self, model: Any, callbacks: Any) -> None:
        """The training begins."""

    def flip(self, removed: bool) -> None:
        """The cause goes away, or comes back."""

    def finish(self) -> None:
        """A stretch is about to end: what it left to be done is done now."""

    def items(self, epochs: Any, original: Any) -> Iterator[Any]:
        """The batches of an epoch, as they are."""
        return original(epochs)  # type: ignore[no-any-return]


class Hooks(Nothing):
    """Some hooks of some callbacks; `asynchronous`: with them goes the wait for every step that they force."""

    def begin(self, model: Any, callbacks: Any) -> None:
        """Finds the callbacks by their classes."""
        self.callbacks = callbacks
        found = False
        for callback in list.__iter__(callbacks.callbacks):
            for name, hook in self.arguments["hooks"]:
                if name_of(callback) == name:
                    self._hold(callback, hook)
                    found = True
        if not found:
            names = ", ".join(name for name, _ in self.arguments["hooks"])
            raise RuntimeError(f"the training has no callback {names}")

    def _hold(self, callback: Any, hook: str) -> None:
        """On the class, unless the object has a function of its own there."""
        names = [hook]
        if "_batch_" in hook:
            names.append(hook.replace("on_train_batch_", "on_batch_"))
        if hook.endswith("_begin"):
            names += [name.replace("_begin", "_end") for name in names]  # an end may need what its beginning left
        for name in names:
            owner = callback if name in vars(callback) else type(callback)
            function = getattr(owner, name, None)
            if function is None or getattr(function, "_is_default", False) or hasattr(function, "_switched"):
                continue
            setattr(owner, name, self._switched(function))

    def _switched(self, function: Any) -> Any:
        stretches = self.stretches

        @functools.wraps(function)
        def hook(*args: Any, **kwargs: Any) -> Any:
            return None if stretches.removed else function(*args, **kwargs)

        hook._switched = True  # type: ignore[attr-defined]
        return hook

    def flip(self, removed: bool) -> None:
        """Lets Keras go on without waiting for the step, where the hooks made it wait."""
        if not self.arguments.get("asynchronous"):
            return
        callbacks = self.callbacks
        if removed and callbacks._executor is None:
            callbacks._executor = concurrent.futures.ThreadPoolExecutor()
        callbacks._flush_futures()
        callbacks._async_train = removed


class Saving(Nothing):
    """Nothing is written of the model."""

    def hold(self, seams: Seams, backend: Backend) -> None:
        """Holds the ways to save a model."""
        from keras.src.models.model import Model

        for name in ("save", "save_weights", "export"):
            seams.replace(Model, name, self._switched(getattr(Model, name)))

    def _switched(self, function: Any) -> Any:
        @functools.wraps(function)
        def save(*args: Any, **kwargs: Any) -> Any:
            return None if self.stretches.removed else function(*args, **kwargs)

        return save


class Validation(Nothing):
    """An epoch without validation; the callbacks find the scores of the last one."""

    def __init__(self, plan: dict[str, Any], stretches: Stretches) -> None:
        super().__init__(plan, stretches)
        self._scores: dict[str, Any] = {}
        self._model: Any = None
        self._callbacks: Any = None

    def begin(self, model: Any, callbacks: Any) -> None:
        """Knows its own."""
        self._model, self._callbacks = model, callbacks

    def hold(self, seams: Seams, backend: Backend) -> None:
        """Holds the question whether an epoch is validated, and what callbacks are told of it."""
        from keras.src.callbacks.callback_list import CallbackList

        trainer = backend.trainer()
        asked, told = trainer._should_eval, CallbackList.on_epoch_end

        @functools.wraps(asked)
        def should_eval(model: Any, *args: Any, **kwargs: Any) -> Any:
            removed = model is self._model and self.stretches.removed
            return not removed and asked(model, *args, **kwargs)

        @functools.wraps(told)
        def on_epoch_end(callbacks: Any, epoch: Any, logs: Any = None) -> Any:
            if callbacks is self._callbacks and logs is not None:
                if self.stretches.removed:
                    logs = {**self._scores, **logs}
                else:
                    self._scores = {name: value for name, value in logs.items() if name.startswith("val_")}
            return told(callbacks, epoch, logs)

        seams.replace(trainer, "_should_eval", should_eval)
        seams.replace(CallbackList, "on_epoch_end", on_epoch_end)
