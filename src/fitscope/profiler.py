"""A Keras callback that records the `fit` it is given to. Imports Keras, so it is loaded on demand."""

from __future__ import annotations

import os
import weakref
from typing import Any

import keras

from fitscope.observe import training
from fitscope.profiling import Profile


class Profiler(keras.callbacks.Callback):  # type: ignore[misc]
    """Records one `fit`: `model.fit(..., callbacks=[fitscope.Profiler()])`.

    It overrides no batch hook, so Keras runs as it would without it. The report is printed when the training
    ends (`show=False`: not), and `profiler.profile` has it afterwards.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, show: bool = True) -> None:
        super().__init__()
        self._show = show
        self._path = path
        self.profile = Profile(path)
        self._begin()

    def set_model(self, model: Any) -> None:
        """Keras is about to train: a profiler that is used again records anew."""
        if self._finished:
            self.profile = Profile(self._path)
            self._begin()
            training.join()
        super().set_model(model)

    def on_train_end(self, logs: Any = None) -> None:
        """The training has ended."""
        self._finished = True
        self._finalizer.detach()
        self.profile.finish()
        if self._show:
            self.profile.show()

    def _begin(self) -> None:
        # `model.fit(...)` is looked up before its arguments are made, so this fit runs unheld: the seams inside
        # it open the region themselves. If the fit fails, the seams go when this object does.
        self._finished = False
        self.profile.begin()
        self._finalizer = weakref.finalize(self, Profile.finish, self.profile)
