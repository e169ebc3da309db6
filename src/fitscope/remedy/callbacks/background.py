"""A callback's hooks, run beside the training instead of in it."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import keras

from fitscope.remedy.callbacks.child import Child, plural
from fitscope.remedy.callbacks.courier import Courier, Recipient
from fitscope.remedy.callbacks.every import Every
from fitscope.remedy.callbacks.snapshot import ModelError, NoModel, Twin, check_callback, holds_model
from fitscope.remedy.callbacks.wrapper import PHASES, Wrapper, overrides

CAPACITY = 1000
CAPACITY_OF_SNAPSHOTS = 2  # each holds all weights
_ENDS = {"on_epoch_end": "train", "on_train_end": "train", "on_test_end": "test", "on_predict_end": "predict"}


class Background(Wrapper):
    """Runs any callback's hooks off the training thread: in order, one at a time, nothing lost.

    Hooks wait in a queue of `capacity` batches. When it is full, training waits (`when_full="block"`) or the batch is
    left out and counted in `dropped` (`when_full="drop"`). A callback that has `on_train_batches_end(batches, logs)`,
    with two lists, gets all waiting batches at once: a slow call per batch gains nothing on one thread, one call
    for many does.

    The callback gets logs as numbers, and on JAX and PyTorch the training thread does not wait for them. What it
    raises is raised in `fit`, at the next hook or at the end. Everything is delivered before `fit` returns, and also
    before the program ends by an exception, by Ctrl-C or by SIGTERM; `close()` delivers at once.

    The model goes on training meanwhile. A callback that needs it (`self.model.predict`) gets, with `snapshot=True`,
    a copy with the weights of that very step, at the price of copying them; one that steers the training
    (`self.model.stop_training = True`) is refused. With `process=True` it runs in a process of its own, for work that
    holds Python's interpreter lock; its attributes come back when the training ends.

    >>> import fitscope, keras, numpy, time
    >>> class Upload(keras.callbacks.Callback):
    ...     losses = []
    ...     def on_train_batch_end(self, batch, logs=None):
    ...         time.sleep(0.01)
    ...         self.losses.append(logs["loss"])
    >>> model = keras.Sequential([keras.layers.Dense(1)])
    >>> model.compile(loss="mse")
    >>> _ = model.fit(numpy.ones((25, 2)), numpy.ones(25), batch_size=1, verbose=0,
    ...               callbacks=[fitscope.Background(Upload())])
    >>> len(Upload.losses)
    25
    """

    def __init__(
        self,
        callback: Any,
        when_full: str = "block",
        snapshot: bool = False,
        process: bool = False,
        *,
        capacity: int | None = None,
    ) -> None:
        super().__init__(callback)
        if when_full not in ("block", "drop"):
            raise ValueError(f'Background: when_full has to be "block" or "drop", and is {when_full!r}')
        if snapshot and process:
            raise ValueError("Background: a snapshot of the weights stays in this process: leave out process=True")
        if capacity is not None and (isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1):
            raise ValueError(f"Background: capacity has to be a whole number from 1 on, and is {capacity!r}")
        if snapshot and isinstance(callback, Every) and callback.seconds is not None:
            raise ValueError(
                "Background: with snapshot=True every batch would copy the weights, since Every decides later: write "
                f"Every(Background({self.inner_name}(...), snapshot=True), seconds={callback.seconds})"
            )
        check_callback(callback, snapshot)
        self.when_full = when_full
        self.snapshot = snapshot
        self.process = process
        self.capacity = capacity or (CAPACITY_OF_SNAPSHOTS if snapshot else CAPACITY)
        # A snapshot belongs to one step, so its batch must have ended and the next one not begun.
        self.async_safe = not snapshot
        self._together = frozenset(
            f"on_{phase}_batch_end" for phase in PHASES if hasattr(callback, plural(f"on_{phase}_batch_end"))
        )
        self._begins = {phase: overrides(callback, f"on_{phase}_batch_begin") for phase in PHASES}
        for hook in self._together:
            self.has_batches[hook.split("_")[1]] = True
        self._courier: Courier | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        self._twin: Twin | None = None
        self._is_seen = dict.fromkeys(PHASES, True)
        self._depth = 0

    @property
    def dropped(self) -> int:
        """Batches left out in this training, or the last one, because the queue was full."""
        return self._courier.dropped if self._courier is not None else 0

    @property
    def delivered(self) -> int:
        """Calls made in this training, or the last one."""
        return self._courier.delivered if self._courier is not None else 0

    def close(self) -> None:
        """Delivers what is waiting and ends the thread. `fit` does so itself, unless it fails."""
        self._depth = 0
        if self._finalizer is None or self._courier is None:
            return
        self._finalizer.detach()
        self._finalizer = None
        try:
            self._courier.finish()
        finally:
            if self._twin is not None:
                self.callback._model, self._twin = self._model, None
        if self._courier.dropped:
            warnings.warn(
                f"Background left out {self._courier.dropped} batches of {self.inner_name}, because its queue of "
                f"{self.capacity} was full",
                stacklevel=2,
            )

    def set_model(self, model: Any) -> None:
        """The callback itself never gets the model that is being trained."""
        self._model = model
        place = holds_model(self.callback, model)
        if place is not None:
            raise ModelError(
                f"Background: {self.inner_name} has the model from {place}, and it goes on training meanwhile: let "
                "it use self.model instead, and pass snapshot=True"
            )
        self.close()
        if self.snapshot:
            self._twin = Twin(model)
        no_model = NoModel.instead_of(model, self.inner_name)
        self.callback.set_model(self._twin.model if self._twin is not None else no_model)

    def pass_on(self, hook: str, *args: Any) -> None:
        """Queues a hook; the outermost one ends the thread."""
        if hook == "on_train_begin":
            self.close()
        begins = hook in ("on_train_begin", "on_test_begin", "on_predict_begin")
        if begins:
            self._depth += 1
        courier = self._started()
        if self._wants(hook):
            courier.hook(hook, _own(args), self._weights(), _ENDS.get(hook))
        else:
            courier.raise_error()
        if hook in ("on_train_end", "on_test_end", "on_predict_end"):
            self._depth -= 1
            if self._depth <= 0:
                self.close()

    def batch_begins(self, phase: str, batch: int, logs: Any) -> None:
        """A batch takes its place in the queue."""
        if self.has_batches[phase]:
            self._is_seen[phase] = not self.snapshot or super().sees(phase, batch)
            hook = f"on_{phase}_batch_begin" if self._begins[phase] else None
            self._started().batch_begins(phase, batch, hook, (batch, logs), counts=self._is_seen[phase])

    def batch_ends(self, phase: str, batch: int, logs: Any) -> None:
        """Its results follow, maybe on another thread."""
        courier = self._courier
        # Keras' pool may come late, after a fit that failed.
        if self.has_batches[phase] and courier is not None and self._finalizer is not None:
            courier.batch_ends(phase, batch, _own((batch, logs)), self._weights() if self._is_seen[phase] else None)

    def _wants(self, hook: str) -> bool:
        return overrides(self.callback, hook) or hook in self._together

    def _weights(self) -> Any:
        return Twin.weights_of(self._model) if self._twin is not None else None

    def _started(self) -> Courier:
        if self._courier is None or self._finalizer is None:
            recipient: Recipient
            if self.process:
                recipient = Child(self.callback, self.params, keras.config.backend(), self._together)
            else:
                recipient = _Here(self.callback, self._twin, self._together)
            self._courier = Courier(recipient, "background", self.capacity, drop=self.when_full == "drop")
            # A fit that failed does not say so; when its callbacks are gone, the thread delivers the rest and ends.
            self._finalizer = weakref.finalize(self, self._courier.end)
            self._finalizer.atexit = False
            self._courier.start()
        return self._courier


class _Here:
    """The callback in this process."""

    def __init__(self, callback: Any, twin: Twin | None, together: frozenset[str]) -> None:
        self._callback = callback
        self._twin = twin
        self._together = together

    def takes_together(self, hook: str) -> bool:
        return hook in self._together

    def call(self, hook: str, args: tuple[Any, ...], weights: Any) -> None:
        if self._twin is not None and weights is not None:
            self._twin.take_on(weights)
        getattr(self._callback, hook)(*args)
        if self._twin is not None and getattr(self._twin.model, "stop_training", False):
            raise ModelError("a callback with a snapshot cannot stop the training: it has to run in its thread")

    def call_together(self, hook: str, records: list[tuple[Any, ...]]) -> None:
        getattr(self._callback, plural(hook))(*(list(column) for column in zip(*records, strict=True)))

    def close(self) -> None:
        pass


def _own(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """With logs of its own: Keras and other callbacks may change theirs afterwards."""
    return tuple(dict(each) if isinstance(each, dict) else each for each in args)
