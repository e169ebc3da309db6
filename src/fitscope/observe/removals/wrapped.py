"""Callbacks inside a remedy of fitscope's, for a while: in the background, or for some of the batches."""

from __future__ import annotations

import concurrent.futures
import importlib
from typing import Any

from fitscope.observe.callbacks import name_of
from fitscope.observe.removals.hooks import Nothing

FLAGS = ("_async_train", "_async_test", "_async_predict")
"""Whether Keras goes on without waiting for callbacks, in its list of them."""


class Wrapped(Nothing):
    """The callbacks of some classes; each has one wrapper, which takes its place in the list of callbacks."""

    def begin(self, model: Any, callbacks: Any) -> None:
        """Finds the callbacks, and sees whether the remedy takes them."""
        self.callbacks, self._model = callbacks, model
        self._pairs: list[tuple[Any, Any]] = []
        self._flags = {name: getattr(callbacks, name) for name in FLAGS}
        name: str = self.arguments["remedy"]
        # By name: remedies need more than the standard library, and are loaded only beside Keras.
        remedy: Any = getattr(importlib.import_module(f"fitscope.remedy.callbacks.{name.lower()}"), name)
        own = [each for each in list.__iter__(callbacks.callbacks) if name_of(each) == self.arguments["callback"]]
        if not own:
            raise RuntimeError(f"the training has no callback {self.arguments['callback']}")
        self._pairs = [(callback, remedy(callback, **self.arguments["options"])) for callback in own]
        try:
            for _, wrapper in self._pairs:
                wrapper.set_params(callbacks.params)
                wrapper.set_model(model)
        finally:
            self._give_model()

    def flip(self, removed: bool) -> None:
        """Puts the wrappers into the list, or the callbacks; Keras then waits for steps or does not."""
        callbacks = self.callbacks
        callbacks._flush_futures()
        for callback, wrapper in self._pairs:
            old, new = (callback, wrapper) if removed else (wrapper, callback)
            callbacks.callbacks[:] = [new if each is old else each for each in callbacks.callbacks]
            if removed:
                wrapper.set_model(self._model)
                wrapper._depth = 1  # the training goes on behind a validation
        if not removed:
            self._give_model()
            vars(callbacks).update(self._flags)
            return
        default = callbacks._history, callbacks._progbar
        callbacks._configure_async_dispatch([each for each in callbacks.callbacks if each not in default])
        if callbacks._executor is None and any(getattr(callbacks, name) for name in FLAGS):
            callbacks._executor = concurrent.futures.ThreadPoolExecutor()

    def finish(self) -> None:
        """What is still to be done in the background belongs to the stretch that left it."""
        self.callbacks._flush_futures()
        for _, wrapper in self._pairs:
            if hasattr(wrapper, "close"):
                wrapper.close()
                wrapper._depth = 1  # two stretches with the remedy may follow each other

    def _give_model(self) -> None:
        """A callback in the background must not have the model; outside it has."""
        for callback, _ in self._pairs:
            callback.set_model(self._model)
