"""Putting the seams in and taking them out: once for a process, however many want to watch."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from fitscope.observe import (
    backends,
    callbacks,
    capture,
    dissect,
    grain_input,
    loaders,
    loops,
    made,
    metrics,
    tfdata,
    training,
    updates,
)
from fitscope.observe.imports import Finder
from fitscope.observe.recorder import recorder
from fitscope.observe.sampler import Sampler
from fitscope.observe.seams import Seams

_HERE = os.path.dirname(os.path.abspath(__file__))


class Observer:
    """Counts who watches; the first puts the seams in, the last takes them out."""

    def __init__(self) -> None:
        self.seams = Seams(recorder)
        self._watchers = 0
        self._finder: Finder | None = None
        self._sampler: Sampler | None = None
        self._lock = threading.Lock()
        self._forks = False

    def watch(self) -> None:
        """Somebody watches."""
        with self._lock:
            self._watchers += 1
            if self._watchers > 1:
                return
            recorder.failure = None
            if not self._forks:
                self._forks = True
                os.register_at_fork(after_in_child=self._in_child)
            actions = {"keras": self._keras, "tensorflow": self._tensorflow, "torch": self._torch}
            self._finder = Finder(
                {**actions, "grain": self._grain, "fitscope.remedy.callbacks.every": self._remedies}
            )
            self._finder.watch()
            self._sampler = Sampler(recorder)
            recorder.on_first_region.append(self._sampler.start)
            if recorder.regions:
                self._sampler.start()

    def look_on(self) -> None:
        """The sampler's thread, which a forked child has not got."""
        self._sampler = Sampler(recorder)
        self._sampler.start()

    def unwatch(self) -> None:
        """Somebody stopped watching."""
        with self._lock:
            self._watchers -= 1
            if self._watchers:
                return
            if self._finder is not None:
                self._finder.unwatch()
            if self._sampler is not None:
                self._sampler.stop()
            recorder.on_first_region.clear()
            self.seams.release()
            for ledger in list(recorder.ledgers.values()):
                if ledger.call is not None and ledger.call.close is not None:
                    ledger.call.close()  # begun from inside by a `fit` that did not reach its end
                if ledger.call is None:
                    recorder.ledgers.pop(ledger.ident, None)

    def _in_child(self) -> None:
        recorder.silence()
        if self._sampler is not None:
            self._sampler.prompt_turns.end()

    def _keras(self) -> None:
        try:
            self._hold_keras()
        except Exception as error:
            recorder.fail(error)

    def _hold_keras(self) -> None:
        keras: Any = sys.modules["keras"]
        version = getattr(keras, "__version__", "0")
        if int(version.split(".")[0]) < 3:
            recorder.fact("keras-too-old", lasting=True, version=version)
            return
        name = keras.config.backend()
        if name not in backends.NAMES:
            recorder.fact("backend-unknown", lasting=True, backend=name)
            return
        from keras.src.utils import traceback_utils

        excluded = (*traceback_utils._EXCLUDED_PATHS, _HERE)
        self.seams.replace(traceback_utils, "_EXCLUDED_PATHS", excluded)
        backend = backends.load(name)
        recorder.fact("backend", lasting=True, backend=name, keras=version)
        backend.hold(self.seams)
        training.hold(self.seams, backend)
        loaders.hold(self.seams)
        loops.hold(self.seams, backend)
        updates.hold(self.seams, backend)
        made.hold(self.seams)
        metrics.hold(self.seams, backend)
        capture.hold(self.seams, backend)
        dissect.hold(self.seams, backend)

    def _tensorflow(self) -> None:
        try:
            tfdata.hold(self.seams)
        except Exception as error:
            recorder.fail(error)

    def _torch(self) -> None:
        try:
            loaders.hold_torch(self.seams)
        except Exception as error:
            recorder.fail(error)

    def _grain(self) -> None:
        try:
            grain_input.hold(self.seams)
        except (ImportError, AttributeError, KeyError) as error:
            # Grain's inside is not promised to stay as it is; the wait for its batches is seen all the same.
            recorder.fact("grain-unknown", lasting=True, says=f"{type(error).__name__}: {error}")

    def _remedies(self) -> None:
        try:
            callbacks.hold_remedies(self.seams)
        except Exception as error:
            recorder.fail(error)


observer = Observer()
"""A process has one observer, as it has one recorder."""
