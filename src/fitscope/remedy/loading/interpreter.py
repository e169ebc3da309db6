"""Two questions about work in a thread: does it hold Python's interpreter lock, and did it wait for a processor?"""

from __future__ import annotations

import sys
import threading
import time

NAP_SECONDS = 0.0005


class LockProbe:
    """Sees how long a thread that wakes up has to wait for the lock while work runs in another thread."""

    def __init__(self) -> None:
        self._naps = 0
        self._seconds = 0.0
        self._stop: threading.Event | None = None

    def start(self) -> None:
        """The work begins."""
        self._stop = threading.Event()
        threading.Thread(target=self._nap, args=(self._stop,), name="fitscope probes", daemon=True).start()

    def stop(self) -> None:
        """The work is done."""
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _nap(self, stop: threading.Event) -> None:
        naps, began = 0, time.perf_counter()
        queued = queued_seconds()  # reading the file may already wait for the lock until the work is done
        while not stop.is_set():
            time.sleep(NAP_SECONDS)
            naps += 1
        self._naps += max(1, naps)
        self._seconds += time.perf_counter() - began - (queued_seconds() - queued)

    @property
    def held(self) -> bool:
        """Whether a nap took much longer than it should: the lock is handed over only after the switch interval."""
        return self._naps > 0 and self._seconds / self._naps - NAP_SECONDS > 0.3 * sys.getswitchinterval()


def queued_seconds() -> float:
    """How long this thread has waited for a processor so far, where the system says so."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:  # noqa: PTH123 (a Path is four times slower)
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
