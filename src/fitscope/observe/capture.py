"""A short window of a training on the backend's own profiler: begun and ended between two steps, once in a process.

Only where it was asked for is anything held here; then the profiler's timeline gets a marker for each step, and for
each part of the training that the ledger knows, so that the trace alone says what the host was doing.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
import threading
import time
from pathlib import Path
from threading import get_ident
from typing import Any

from fitscope.model import TRACE_ENDINGS
from fitscope.observe import loops
from fitscope.observe.backends import Backend
from fitscope.observe.calls import Call
from fitscope.observe.ledger import Ledger
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams

WARM_UP = 10
"""Steps before the window: the first ones trace, compile and fill caches."""
MOST_STEPS = 50
LEAST_STEPS = 5
SECONDS = 2.0
"""The window ends after so many steps, or after that time and a few steps."""
PATIENCE = 15.0
"""Seconds after which it ends if no step has: the loop was left, and the program does something else."""
UNMARKED = ("step", "outside", "region", "call")
"""What the profiler shows in more detail itself."""

_windows: list[Window] = []


class Window:
    """One capture, from being asked for to its file."""

    def __init__(self, stem: Path) -> None:
        self._stem = stem
        self._backend: Backend | None = None
        self._ledger: Ledger | None = None
        self._folder = ""
        self._seen = 0
        self._steps = 0
        self._began = self._last = 0.0
        self._lock = threading.Lock()
        self._step: Any = None
        self._part: Any = None
        self.done = False

    @property
    def open(self) -> bool:
        """Whether the profiler runs."""
        return self._ledger is not None

    def step_ended(self, ledger: Ledger, backend: Backend, total: int | None) -> None:
        """A step is over: starts the profiler after the warm-up, marks steps, stops it in the end."""
        if not self.open:
            self._seen += 1
            if self._seen >= min(WARM_UP, max(1, (total or 4 * WARM_UP) // 4)):
                self._start(ledger, backend)
        elif ledger is self._ledger:
            self._steps += 1
            self._last = time.monotonic()
            passed = self._last - self._began
            if self._steps >= MOST_STEPS or (passed >= SECONDS and self._steps >= LEAST_STEPS):
                self.finish()
            else:
                self._next_step()

    def part(self, node: int) -> None:
        """The ledger moves on: so does the marker."""
        if self._part is not None:
            part, self._part = self._part, None
            part.__exit__(None, None, None)
        found = recorder.tree.nodes[node]
        if self._backend is not None and found.phase not in UNMARKED:
            self._part = self._backend.mark(f"fitscope:{found.phase} {found.name}")
            self._part.__enter__()

    def look(self) -> None:
        """On the writer's thread, once a second: ends a window that the training has left."""
        if self.open and time.monotonic() - self._last > PATIENCE:
            self.finish(elsewhere=True)

    def finish(self, *, elsewhere: bool = False) -> None:
        """Stops the profiler, if it runs, and puts its file beside the run; `elsewhere`: on another thread."""
        with self._lock:
            ledger, backend = self._ledger, self._backend
            self._ledger = None
        if ledger is None or backend is None:
            return
        self.done = True
        ledger.__class__ = Ledger
        node = ledger.node
        try:
            if elsewhere:
                self._part = self._step = None  # a marker ends on the thread that it began on, or never
            else:
                self._close()
                _own(ledger)
            written = backend.stop_trace(self._folder)
            name = self._stem.name + next(ending for ending in TRACE_ENDINGS if written.endswith(ending))
            shutil.move(written, self._stem.with_name(name))
            recorder.fact("trace", path=name, steps=self._steps, seconds=time.monotonic() - self._began)
        except Exception as error:
            _failed(error)
        finally:
            if not elsewhere:
                ledger.back(node)
            shutil.rmtree(self._folder, ignore_errors=True)

    def abandon(self, error: Exception) -> None:
        """Something of ours went wrong: the training goes on without a trace."""
        self.done = True
        if self._ledger is not None:
            self._ledger.__class__ = Ledger
            self._ledger = None
            with contextlib.suppress(Exception):
                self._close()
            with contextlib.suppress(Exception):
                if self._backend is not None:
                    self._backend.stop_trace(self._folder)
            shutil.rmtree(self._folder, ignore_errors=True)
        _failed(error)

    def _start(self, ledger: Ledger, backend: Backend) -> None:
        node = ledger.node
        _own(ledger)
        self._folder = tempfile.mkdtemp(prefix="fitscope-trace-")
        try:
            backend.start_trace(self._folder)
        except Exception as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            self.done = True
            _failed(error)
            return
        finally:
            ledger.back(node)
        self._backend, self._ledger = backend, ledger
        self._began = self._last = time.monotonic()
        ledger.__class__ = _Marking
        self._next_step()

    def _next_step(self) -> None:
        self._close()
        if self._backend is not None and self._ledger is not None:
            self._step = self._backend.mark_step(self._seen + self._steps)
            self._step.__enter__()
            self.part(self._ledger.node)

    def _close(self) -> None:
        """Ends the markers, the inner one first."""
        for mark in (self._part, self._step):
            if mark is not None:
                mark.__exit__(None, None, None)
        self._part = self._step = None


class _Marking(Ledger):
    """A ledger that also moves the marker on the profiler's timeline: only while the window is open.

    The cursor itself is watched, since what runs in every step moves it without a call.
    """

    __slots__ = ()

    @property
    def node(self) -> int:
        return int(_cursor.__get__(self))

    @node.setter
    def node(self, node: int) -> None:
        moved = node != _cursor.__get__(self)
        _cursor.__set__(self, node)
        if moved:
            _mark(node)


_cursor: Any = vars(Ledger)["node"]


def _mark(node: int) -> None:
    window = _windows[0]
    try:
        window.part(node)
    except Exception as error:
        window.abandon(error)


def arm(run: Path) -> None:
    """A trace is asked for, to be put beside this run file."""
    _windows[:] = [Window(run.with_suffix(""))]


def hold(seams: Seams, backend: Backend) -> None:
    """Holds the ends of steps, if a trace is asked for."""
    if not _windows:
        return
    from keras.src.callbacks.callback_list import CallbackList

    window = _windows[0]
    original = CallbackList.on_train_batch_end
    ledgers = recorder.ledgers

    @functools.wraps(original)
    def on_train_batch_end(self: Any, batch: Any, logs: Any = None) -> None:
        original(self, batch, logs)
        ledger = ledgers.get(get_ident())
        if not window.done and ledger is not None and isinstance(ledger.call, Call):
            _step_ended(window, ledger, backend, _total(self))

    def training_ends(ledger: Ledger, callbacks: Any, args: Any, kwargs: Any) -> Any:
        if window.open and isinstance(ledger.call, Call) and ledger.call.outer is None:
            window.finish()

    def batch_ended(ledger: Ledger, token: Any, result: Any, error: BaseException | None) -> None:
        if not window.done and error is None:
            _step_ended(window, ledger, backend, None)

    seams.replace(CallbackList, "on_train_batch_end", on_train_batch_end)
    seams.hold(CallbackList, "on_train_end", training_ends, lambda *_: None)
    seams.hold(backend.trainer(), "train_on_batch", lambda *_: None, batch_ended)
    seams.replace(loops, "_step", _by_hand(loops._step, window, backend))


def _by_hand(original: Any, window: Window, backend: Backend) -> Any:
    """A step of a loop that is written by hand ends where the next batch is asked for."""

    @functools.wraps(original)
    def step(loop: Any, now: int) -> None:
        original(loop, now)
        ledger = recorder.ledgers.get(get_ident())
        if not window.done and ledger is not None and loop.trains:
            _step_ended(window, ledger, backend, None)

    return step


def look(now: float) -> None:
    """Once a second."""
    for window in _windows:
        window.look()


def finish() -> None:
    """The program ends: so does a window that is still open, and a trace that never began is explained."""
    for window in _windows:
        if window.open:
            window.finish()
        elif not window.done and recorder.regions:
            recorder.fact("trace", problem=f"no training went on for more than {WARM_UP} steps")


def _step_ended(window: Window, ledger: Ledger, backend: Backend, total: int | None) -> None:
    try:
        window.step_ended(ledger, backend, total)
    except Exception as error:
        window.abandon(error)


def _total(callbacks: Any) -> int | None:
    """The steps of the whole fit, where Keras knows them."""
    params = getattr(callbacks, "params", None) or {}
    steps, epochs = params.get("steps"), params.get("epochs")
    return steps * epochs if isinstance(steps, int) and isinstance(epochs, int) else None


def _own(ledger: Ledger) -> None:
    """What starting and stopping the profiler takes is fitscope's own time."""
    owner = ledger.call or ledger.loop
    if owner is not None:
        ledger.enter(owner.stations.own)


def _failed(error: Exception) -> None:
    recorder.fact("trace", problem=f"{type(error).__name__}: {error}")
