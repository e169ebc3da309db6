"""Steps that the training thread only dispatches: when they were done, and what was waited for them afterwards.

Their results are read in Keras' pool of threads, which tells when a step is done.
"""

from __future__ import annotations

from threading import Lock

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
        self._backlogs: list[Backlog] = []
        """Those that are not over: the first is waited for now, the others after it."""
        self._over: list[Backlog] = []
        self._changing = Lock()

    def step_done(self) -> None:
        """A step is done; told by a thread of the pool."""
        self.done.append(clock())
        if self._backlogs:
            self._look()

    def validation_begins(self, ledger: Ledger, call: Call) -> None:
        """From now on the training thread is in a validation, while steps of the training may still be computed."""
        own = call.stations
        if call.outer is not None:
            waiting = (own.start, own.step, own.wait, own.logs, own.metrics)
            self._begin(ledger, waiting, call.outer.stations.wait)

    def metrics_begin(self, ledger: Ledger, call: Call) -> None:
        """From now on the training thread computes metrics, for which the steps before have to be done."""
        self._begin(ledger, (call.stations.metrics,), call.stations.wait)

    def settle(self, *, final: bool = False) -> None:
        """Gives the steps that are done to their regions: each lasted since the one before it was done."""
        number = min(len(self.done), len(self.open))
        done = sorted(self.done[:number])
        for instant, (region, each, began) in zip(done, self.open, strict=False):
            since = began or self._last_done
            self._last_done = instant
            if region is not None:
                region.durations.append(max(0, instant - since) // each)
        with self._changing:
            for instants in (self.done, self.open):
                del instants[: None if final else number]
            for backlog in self._backlogs:
                backlog.left -= number
        self._look()
        while self._over:
            self._over.pop().charge()

    def _begin(self, ledger: Ledger, waiting: tuple[int, ...], target: int) -> None:
        self.settle()
        with self._changing:
            if self._backlogs and self._backlogs[-1].target == target:
                self._backlogs[-1].wait_at(waiting)
            elif self.open:
                self._backlogs.append(Backlog(ledger, waiting, target, len(self.open)))
                self._backlogs[0].begin()
        self._look()  # the last of them may have been done meanwhile

    def _look(self) -> None:
        with self._changing:
            while self._backlogs and len(self.done) >= self._backlogs[0].left:
                ended = self._backlogs.pop(0)
                ended.end()
                self._over.append(ended)
                if self._backlogs:
                    self._backlogs[0].begin()


class Backlog:
    """What is waited for at some nodes while the device is still at earlier steps: it belongs to those."""

    def __init__(self, ledger: Ledger, waiting: tuple[int, ...], target: int, left: int) -> None:
        self.target = target
        self.left = left
        """Executions that have to be done."""
        self._ledger = ledger
        self._waiting = waiting
        self._before: dict[int, int] = {}
        self._taken: dict[int, int] = {}

    def begin(self) -> None:
        """The device begins with these steps; told again, nothing happens."""
        if not self._before:
            self.wait_at(self._waiting)

    def wait_at(self, nodes: tuple[int, ...]) -> None:
        """From now on the wait is at these nodes, too."""
        self._before = self._spent(nodes) | self._before

    def end(self) -> None:
        """The last of these steps is done."""
        spent = self._spent(tuple(self._before))
        self._taken = {node: max(0, spent[node] - before) for node, before in self._before.items()}

    def charge(self) -> None:
        """Gives the steps what is theirs, but for what was found to be something else: compiling, for instance."""
        spent = self._spent(tuple(self._taken))
        for node, taken in self._taken.items():
            left = max(0, spent[node] - self._before[node])
            self._ledger.move(node, self.target, min(taken, left))

    def _spent(self, nodes: tuple[int, ...]) -> dict[int, int]:
        """What was spent at nodes, and is being spent now."""
        ledger = self._ledger
        while True:
            current, since = ledger.node, ledger.since
            spent = {node: ledger.spent[node] for node in nodes}
            now = clock()
            if (ledger.node, ledger.since) == (current, since):  # else the training thread went on meanwhile
                break
        if current in spent:
            spent[current] += max(0, now - since)
        return spent
