"""Steps that the training thread only dispatches: when they were done, and what was waited for them in a validation.

Their results are read in Keras' pool of threads, which tells when a step is done.
"""

from __future__ import annotations

from typing import Any

from fitscope.observe.calls import Call
from fitscope.observe.ledger import Ledger, clock
from fitscope.observe.recorder import Region


class Dispatched:
    """The steps of one training that are dispatched and not settled yet."""

    def __init__(self) -> None:
        self.awaits = False
        """Whether steps are done only after the training thread has gone on."""
        self.open: list[tuple[Region | None, int, int]] = []
        """Executions whose end is not known yet: region, number of steps, when the first of a pass began (or 0)."""
        self.done: list[int] = []
        self._last_done = 0
        self._left = 0
        self._backlog: Backlog | None = None
        self._backlogs: list[Backlog] = []

    def step_done(self) -> None:
        """A step is done; told by a thread of the pool."""
        self.done.append(clock())
        if self._backlog is not None:
            self._look()

    def validation_begins(self, ledger: Ledger, call: Call) -> None:
        """From now on the training thread is in a validation, while steps of the training may still be computed."""
        self.settle()
        self._left = len(self.open)
        if self._left and call.outer is not None:
            self._backlog = Backlog(ledger, call.stations, call.outer.stations.wait)
            self._look()

    def settle(self, *, final: bool = False) -> None:
        """Gives the steps that are done to their regions: each lasted since the one before it was done."""
        number = min(len(self.done), len(self.open))
        done = sorted(self.done[:number])
        for instant, (region, each, began) in zip(done, self.open, strict=False):
            since = began or self._last_done
            self._last_done = instant
            if region is not None:
                region.durations.append(max(0, instant - since) // each)
        for instants in (self.done, self.open):
            del instants[: None if final else number]
        while self._backlogs:
            self._backlogs.pop().charge()

    def _look(self) -> None:
        backlog = self._backlog
        if backlog is not None and len(self.done) >= self._left:
            self._backlog = None
            backlog.over()
            self._backlogs.append(backlog)


class Backlog:
    """What a validation waits for while the device is still at steps of the training: it belongs to those."""

    def __init__(self, ledger: Ledger, validation: Any, target: int) -> None:
        self._ledger = ledger
        self._target = target
        waiting = (validation.start, validation.step, validation.wait, validation.logs, validation.metrics)
        self._before = {node: ledger.spent[node] for node in waiting}
        self._taken: dict[int, int] = {}

    def over(self) -> None:
        """The last step of the training is done."""
        ledger = self._ledger
        node, since, now = ledger.node, ledger.since, clock()
        self._taken = {each: ledger.spent[each] - before for each, before in self._before.items()}
        if node in self._taken:
            self._taken[node] += max(0, now - since)

    def charge(self) -> None:
        """Gives the training what is its."""
        for node, taken in self._taken.items():
            self._ledger.move(node, self._target, taken)
