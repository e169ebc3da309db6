"""Other settings of `compile`, for a while: each has a compiled step of its own, made once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from fitscope.observe.removals.replay import Replay

FUNCTIONS = ("train_function", "test_function")
NONE = {"tensorflow": False, "jax": False}


class Settings(Replay):
    """A model with some settings changed; Keras' own steps are put back when they are."""

    replaces_input = False

    def begin(self, model: Any, callbacks: Any) -> None:
        """Keeps what was set."""
        super().begin(model, callbacks)
        wanted: dict[str, Any] = dict(self.arguments["settings"])
        if wanted.get("run_eagerly") is False:
            wanted["jit_compile"] = model._resolve_auto_jit_compile()  # turned off together with compiling
        self._values = {False: {name: getattr(model, name) for name in wanted}, True: wanted}
        # Other steps per execution are for the training: a validation has an iterator of its own, made before.
        self._names = FUNCTIONS if "run_eagerly" in wanted or "jit_compile" in wanted else FUNCTIONS[:1]
        self._eager = _runs_eagerly()
        self._functions: dict[bool, dict[str, Any]] = {}
        self._now = False

    def flip(self, removed: bool) -> None:
        """Changes the settings, and with them the compiled steps."""
        model = self._model
        self._functions[self._now] = {name: getattr(model, name, None) for name in self._names}
        self._now = removed
        for name, value in self._values[removed].items():
            setattr(model, name, value)
        if "run_eagerly" in self._values[removed]:
            _run_eagerly(**(NONE if removed else self._eager))
        known = self._functions.get(removed)
        for name in self._names:
            setattr(model, name, known[name] if known else None)
        if model.train_function is None:
            model.make_train_function(force=True)

    def items(self, epochs: Any, original: Any) -> Iterator[Any]:
        """The batches of an epoch, so many at once as are set."""
        if self._model is not None:  # before, Keras reads a batch to build the model
            epochs.steps_per_execution = self._model.steps_per_execution
        return original(epochs)  # type: ignore[no-any-return]


def _runs_eagerly() -> dict[str, bool]:
    """The switches that turn compiling off for everything, as they are."""
    tf, jax = sys.modules.get("tensorflow"), sys.modules.get("jax")
    return {
        "tensorflow": tf is not None and bool(tf.config.functions_run_eagerly()),
        "jax": jax is not None and bool(jax.config.jax_disable_jit),
    }


def _run_eagerly(*, tensorflow: bool, jax: bool) -> None:
    if _runs_eagerly()["tensorflow"] != tensorflow:
        sys.modules["tensorflow"].config.run_functions_eagerly(tensorflow)
    if _runs_eagerly()["jax"] != jax:
        sys.modules["jax"].config.update("jax_disable_jit", jax)
