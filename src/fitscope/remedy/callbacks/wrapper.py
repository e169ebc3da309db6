"""A callback around another one: what `Background` and `Every` share."""

from __future__ import annotations

from typing import Any

import keras

PHASES = ("train", "test", "predict")
# A hook that is written under its old name counts for the new one.
_OLD_NAMES = {"on_train_batch_begin": "on_batch_begin", "on_train_batch_end": "on_batch_end"}


def overrides(callback: Any, hook: str) -> bool:
    """Whether a callback does anything in this hook. Keras marks the hooks that it leaves empty."""
    if isinstance(callback, Wrapper):
        return callback.has_batches[hook.split("_")[1]] if "_batch_" in hook else True
    names = [hook, _OLD_NAMES[hook]] if hook in _OLD_NAMES else [hook]
    return not all(getattr(getattr(callback, name), "_is_default", False) for name in names)


class Wrapper(keras.callbacks.Callback):  # type: ignore[misc]
    """Passes the rare hooks on as they come; how batch hooks go on is the subclass's business."""

    # Keras otherwise waits for the device after each batch, for the sake of hooks that read the logs.
    async_safe = True

    def __init__(self, callback: Any) -> None:
        super().__init__()
        if not isinstance(callback, keras.callbacks.Callback):
            what = "the class itself: make an object of it" if isinstance(callback, type) else repr(callback)
            raise TypeError(f"{type(self).__name__} takes a Keras callback, and got {what}")
        self.callback = callback
        self.has_batches = {
            phase: any(overrides(callback, f"on_{phase}_batch_{moment}") for moment in ("begin", "end"))
            for phase in PHASES
        }

    @property
    def inner_name(self) -> str:
        """The class of the callback at the heart of all wrappers."""
        inner = self.callback
        while isinstance(inner, Wrapper):
            inner = inner.callback
        return type(inner).__name__

    def set_params(self, params: Any) -> None:
        """As Keras calls it before a training."""
        super().set_params(params)
        self.callback.set_params(params)

    def set_model(self, model: Any) -> None:
        """As Keras calls it before a training."""
        super().set_model(model)
        self.callback.set_model(model)

    def pass_on(self, hook: str, *args: Any) -> None:
        """A hook that is no batch hook."""
        getattr(self.callback, hook)(*args)

    def sees(self, phase: str, batch: int) -> bool:
        """Whether the hooks of the execution that begins with this batch may reach the callback."""
        return self.callback.sees(phase, batch) if isinstance(self.callback, Wrapper) else True

    def batch_begins(self, phase: str, batch: int, logs: Any) -> None:
        """`on_<phase>_batch_begin`, on the training thread."""
        raise NotImplementedError

    def batch_ends(self, phase: str, batch: int, logs: Any) -> None:
        """`on_<phase>_batch_end`: on the training thread, or on any thread of Keras' pool and in any order."""
        raise NotImplementedError

    def on_train_begin(self, logs: Any = None) -> None:
        """Keras' hook."""
        self.pass_on("on_train_begin", logs)

    def on_train_end(self, logs: Any = None) -> None:
        """Keras' hook."""
        self.pass_on("on_train_end", logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Keras' hook."""
        self.pass_on("on_epoch_begin", epoch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keras' hook."""
        self.pass_on("on_epoch_end", epoch, logs)

    def on_test_begin(self, logs: Any = None) -> None:
        """Keras' hook."""
        self.pass_on("on_test_begin", logs)

    def on_test_end(self, logs: Any = None) -> None:
        """Keras' hook."""
        self.pass_on("on_test_end", logs)

    def on_predict_begin(self, logs: Any = None) -> None:
        """Keras' hook."""
        self.pass_on("on_predict_begin", logs)

    def on_predict_end(self, logs: Any = None) -> None:
        """Keras' hook."""
        self.pass_on("on_predict_end", logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras' hook."""
        self.batch_begins("train", batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keras' hook."""
        self.batch_ends("train", batch, logs)

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras' hook."""
        self.batch_begins("test", batch, logs)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keras' hook."""
        self.batch_ends("test", batch, logs)

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras' hook."""
        self.batch_begins("predict", batch, logs)

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keras' hook."""
        self.batch_ends("predict", batch, logs)
