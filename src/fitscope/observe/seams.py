"""Holding functions of other libraries: put a wrapper in their place, and take every one of them out again."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from types import FrameType, TracebackType
from typing import Any

from fitscope.observe.ledger import Ledger, Place
from fitscope.observe.recorder import Recorder

Before = Callable[[Ledger, Any, tuple[Any, ...], dict[str, Any]], Any]
"""(ledger, self, the other arguments, keyword arguments) -> a token for the after function"""
After = Callable[[Ledger, Any, Any, BaseException | None], Any]
"""(ledger, token, result, exception)"""

_PACKAGE = Path(__file__).parent.parent
_HERE = os.path.dirname(os.path.abspath(__file__))
# The bundled examples count as a user's.
_OURS = tuple(str(path) for path in _PACKAGE.iterdir() if path.name != "examples")
_PACKAGES = {"keras", "tensorflow", "jax", "torch", "tf_keras", "optree"}
_GENERATED = "__autograph_generated_file"
_MISSING = object()


class Seams:
    """The functions held at present, so that all can be put back."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._held: list[tuple[Any, str, Any, Any]] = []
        self._undo: list[Callable[[], None]] = []

    def hold(self, owner: Any, name: str, before: Before, after: After, *, anyone: bool = False) -> None:
        """Calls `before` and `after` around `owner.name`, on threads that train (`anyone`: on all threads)."""
        original = getattr(owner, name, None)
        if original is None:
            return
        raw = getattr(original, "__wrapped__", None)
        filtered = (
            raw is not None
            and getattr(original, "__code__", None) is not None
            and (original.__code__.co_name == "error_handler")
        )
        wrapper: Any = self._around(raw if filtered else original, before, after, anyone)
        if filtered:
            # Inside Keras' own traceback filter, which then removes our frame from the user's traceback.
            from keras.src.utils import traceback_utils

            wrapper = traceback_utils.filter_traceback(wrapper)
        self.replace(owner, name, wrapper)

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Puts `value` in the place of `owner.name`."""
        own = vars(owner).get(name, _MISSING)
        setattr(owner, name, value)
        self._held.append((owner, name, own, vars(owner).get(name)))

    def on_release(self, undo: Callable[[], None]) -> None:
        """Something else to undo when the seams are released."""
        self._undo.append(undo)

    def release(self) -> None:
        """Puts everything back, last first; what somebody replaced after us stays theirs."""
        while self._undo:
            undo = self._undo.pop()
            try:
                undo()
            except Exception as error:
                self.recorder.fail(error)
        while self._held:
            owner, name, own, ours = self._held.pop()
            if vars(owner).get(name) is not ours:
                continue
            if own is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, own)

    @property
    def held(self) -> list[tuple[Any, str]]:
        """Owner and name of every function that is held now."""
        return [(owner, name) for owner, name, _, _ in self._held]

    def _around(self, original: Any, before: Before, after: After, anyone: bool) -> Any:
        recorder = self.recorder
        ledgers = recorder.ledgers
        held = self._held

        @functools.wraps(original)
        def seam(*args: Any, **kwargs: Any) -> Any:
            ledger = ledgers.get(get_ident())
            if ledger is None and anyone and held and recorder.failure is None and not _is_ours():
                ledger = recorder.ledger()
            if ledger is None or not args:
                return original(*args, **kwargs)
            try:
                token = before(ledger, args[0], args[1:], kwargs)
            except Exception as error:
                recorder.fail(error)
                ledger = None
            if ledger is None:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as raised:
                if ledgers.get(ledger.ident) is ledger:
                    try:
                        after(ledger, token, None, raised)
                    except Exception as error:
                        recorder.fail(error)
                raised.__traceback__ = without_us(raised.__traceback__)
                raise
            if ledgers.get(ledger.ident) is ledger:
                try:
                    after(ledger, token, result, None)
                except Exception as error:
                    recorder.fail(error)
            return result

        return seam


def without_us(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of fitscope.

    Raised again by a bare `raise`, an exception that was given it does not get the frame anew.
    """
    while trace is not None and _is_in_here(trace):
        trace = trace.tb_next
    current = trace
    while current is not None:
        while current.tb_next is not None and _is_in_here(current.tb_next):
            current.tb_next = current.tb_next.tb_next
        current = current.tb_next
    return trace


def _is_in_here(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_HERE)


def _is_ours() -> bool:
    """Whether this is a thread of a remedy, whose work is beside the training and no part of it."""
    return threading.current_thread().name.startswith("fitscope-")


@functools.lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Whether a source file belongs to the machine learning stack or to fitscope, not to the user."""
    if file.startswith((*_OURS, "<frozen", "<__array_function__")):
        return True
    if f"{os.sep}keras{os.sep}src{os.sep}" in file or _GENERATED in file:
        return True
    parts = Path(file).parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            return parts[parts.index(folder) + 1] in _PACKAGES
    return file.startswith(os.path.dirname(os.__file__) + os.sep)


@functools.lru_cache(maxsize=4096)
def is_user(file: str) -> bool:
    """Whether a source file is the user's own: neither installed nor part of Python."""
    if file.startswith((*_OURS, "<frozen", "<string")):
        return False
    if "site-packages" in file or "dist-packages" in file or _GENERATED in file:
        return False
    return not file.startswith(os.path.dirname(os.__file__))


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame outside the machine learning stack."""
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_place(frame: FrameType | None) -> Place | None:
    """The innermost line outside the machine learning stack."""
    found = user_frame(frame)
    return Place(found.f_code.co_filename, found.f_lineno) if found is not None else None


def in_keras(frame: FrameType | None) -> bool:
    """Whether the innermost code outside fitscope and the data libraries is one of Keras' trainers."""
    while frame is not None and is_library(frame.f_code.co_filename):
        if f"keras{os.sep}src" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def caller() -> Place:
    """The line that called into Keras."""
    return user_place(sys._getframe(2)) or Place("<unknown>", 0)


def place_of(function: Any) -> Place | None:
    """Where a function, method or callable object was defined."""
    for _ in range(8):
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__func__"):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(function, type):
        code = getattr(getattr(type(function), "__call__", None), "__code__", None)  # noqa: B004
    return Place(code.co_filename, code.co_firstlineno) if code is not None else None
