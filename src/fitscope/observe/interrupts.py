"""Signals that arrive while Python runs a function of ours that may not raise.

The collector of garbage and dying references call such functions. What a signal's handler raises there, the
KeyboardInterrupt of a Ctrl-C for one, Python reports and forgets: the script would train on. So the signal is sent
once more, and reaches the user's code as soon as ours has returned.
"""

from __future__ import annotations

import _thread
import functools
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from fitscope.observe.seams import Seams


def rescue(seams: Seams, is_ours: Callable[[Any], bool]) -> None:
    """Sends a signal again whose exception was dropped in a function for which `is_ours` holds."""
    original, finalizing = sys.unraisablehook, sys.is_finalizing

    @functools.wraps(original)
    def unraisable(dropped: Any) -> None:
        if not finalizing() and is_ours(dropped.object):  # at its end Python takes our modules apart
            signal_number = _signal_of(dropped.exc_value, dropped.exc_traceback)
            if signal_number is not None:
                _thread.start_new_thread(_send, (signal_number,))
                return
        original(dropped)

    seams.replace(sys, "unraisablehook", unraisable)


def _send(signal_number: int) -> None:
    """From a thread and a little later: Python would raise here what is raised at once, and forget it again."""
    time.sleep(0.01)
    if sys.platform == "win32":
        _thread.interrupt_main(signal_number)
    else:
        signal.pthread_kill(threading.main_thread().ident or 0, signal_number)


def _signal_of(error: BaseException | None, trace: TracebackType | None) -> int | None:
    """The signal whose handler raised this; a handler is given the signal's number first."""
    while trace is not None:
        code, given = trace.tb_frame.f_code, trace.tb_frame.f_locals
        number = given.get(code.co_varnames[0]) if code.co_argcount >= 2 else None
        if isinstance(number, signal.Signals | int) and _handles(number, code):
            return int(number)
        trace = trace.tb_next
    return signal.SIGINT if isinstance(error, KeyboardInterrupt) else None


def _handles(number: int, code: Any) -> bool:
    try:
        handler: Any = signal.getsignal(number)
    except ValueError:  # an argument that is no signal's number
        return False
    return getattr(getattr(handler, "__func__", handler), "__code__", None) is code
