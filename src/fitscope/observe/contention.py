"""Input code written in Python that runs beside the training thread, and takes the interpreter from it.

Python runs one thread at a time. A loader that computes in another thread makes the training thread wait for
the interpreter in the middle of its step: the step looks slow, and the input is why. How long that took is
bounded from two sides: by the processor time of the loader, and by the part of the step in which the rest of
the process did not work at all. Only where the step itself needs a processor, that is on a CPU.
"""

from __future__ import annotations

import time

from fitscope.observe.calls import Stations
from fitscope.observe.ledger import Ledger
from fitscope.observe.recorder import recorder


def _process_but_us() -> int:
    """Processor time of all threads, fitscope's own left out."""
    return time.process_time_ns() - sum(row[0] for row in recorder.own.rows)


class Contention:
    """What the input's Python code took from the steps since the last look."""

    def __init__(self, ledger: Ledger, stations: Stations, *, in_caller: bool) -> None:
        """`in_caller`: the training thread computes the step itself; helpers of it may wait busily."""
        self._ledger = ledger
        self._stations = stations
        self._worked = time.thread_time_ns if in_caller else _process_but_us
        self._step, self._loading, self._process = self._now()

    def _now(self) -> tuple[int, int, int]:
        spent = self._ledger.spent
        step = spent[self._stations.step] + spent[self._stations.wait]
        return step, recorder.loading.cpu, self._worked()

    def settle(self) -> None:
        """Moves that time from the step to the data."""
        if recorder.loading.cpu == self._loading:
            return  # nothing was loaded, and asking for the time of all threads can take long
        step, loading, process = self._now()
        loaded = loading - self._loading
        worked = process - self._process
        if self._worked is _process_but_us:
            worked = max(0, worked - loaded)
        taken = min(loaded, step - self._step - worked)
        if taken > 0:
            spent = self._ledger.spent
            from_wait = min(taken, spent[self._stations.wait])
            self._ledger.move(self._stations.wait, self._stations.data, from_wait)
            self._ledger.move(self._stations.step, self._stations.data, taken - from_wait)
        self._step, self._loading, self._process = self._now()
