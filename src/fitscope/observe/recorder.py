"""What a process has measured so far, and the thread that writes it out once a second.

The training thread only adds to rows of integers. Everything else (files, JSON, the machine) happens on the
writer's thread, so that a slow disk never holds a step up.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from fitscope.observe.ledger import NOWHERE, Ledger, Place, Tree, clock
from fitscope.observe.runfile import Sink

MOST_FACTS = 1000
MOST_LINES = 5000
"""How many distinct source lines the sampler may remember."""
MOST_MARKS = 500
"""Epochs of one place whose end is marked; past them every tenth, past ten times as many every hundredth …"""


class Mark(NamedTuple):
    """The end of an epoch: what the region had counted, and what every node of the process owned by then."""

    instant: int
    epochs: int
    steps: int
    spent: list[int]


class Table:
    """Rows of cumulative integers, each found by a key; keys are never forgotten, so ids stay valid."""

    def __init__(self, width: int, most: int = 100_000) -> None:
        self.width = width
        self.most = most
        self.keys: list[tuple[Any, ...]] = []
        self.rows: list[list[int]] = []
        self._ids: dict[tuple[Any, ...], int] = {}
        self._lock = threading.Lock()

    def row(self, *key: Any) -> list[int]:
        """The row of a key, made when it is first asked for (past the limit: one that nobody reads)."""
        found = self._ids.get(key)
        if found is None:
            with self._lock:
                if key not in self._ids:
                    if len(self.keys) >= self.most:
                        return [0] * self.width
                    self.rows.append([0] * self.width)
                    self.keys.append(key)
                    self._ids[key] = len(self.keys) - 1
                found = self._ids[key]
        return self.rows[found]


class Region:
    """How often one place in the code trained, and how long its steps took."""

    __slots__ = ("calls", "durations", "epochs", "marks", "steps")

    def __init__(self) -> None:
        self.calls = 0
        self.steps = 0
        self.epochs = 0
        self.durations: list[int] = []
        self.marks: list[Mark] = []

    def step(self, nanoseconds: int) -> None:
        """One more step."""
        self.steps += 1
        self.durations.append(nanoseconds)

    def mark(self, now: int, spent: list[int]) -> None:
        """An epoch has ended. A copy of a few hundred integers: once per epoch, and ever more rarely."""
        apart = 1
        while self.epochs > MOST_MARKS * apart:
            apart *= 10
        if self.epochs % apart == 0:
            self.marks.append(Mark(now, self.epochs, self.steps, spent.copy()))

    def take_durations(self) -> list[int]:
        """The durations since the last time, in nanoseconds per step."""
        taken = self.durations
        self.durations = []
        return taken

    def take_marks(self) -> list[Mark]:
        """The ends of epochs since the last time."""
        taken = self.marks
        self.marks = []
        return taken


class Fresh(NamedTuple):
    """What is new since the last flush, by region: durations of steps in nanoseconds, and ends of epochs."""

    durations: dict[int, list[int]]
    marks: dict[int, list[Mark]]


class Loading:
    """How long Python code of the input ran beside the training thread, and how long it held a processor."""

    __slots__ = ("cpu", "wall")

    def __init__(self) -> None:
        self.cpu = 0
        self.wall = 0


class Recorder:
    """The one recorder of a process: its ledgers, its tables and the sinks they are written to."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.ledgers: dict[int, Ledger] = {}
        self.regions: dict[int, Region] = {}
        self.stages = Table(7)
        """(root, name, file, line) -> busy ns, elements, batches, parallelism, buffered elements, reads, CPU ns"""
        self.compiles = Table(2)
        """(root, function, cause, detail, file, line) -> how often, ns"""
        self.inside = Table(2)
        """(root, name, file, line) -> ns and calls of Python functions that the compiled step calls back"""
        self.first_waits = Table(2)
        """(root,) -> ns that the first batch of an epoch was waited for, epochs"""
        self.lines = Table(1, MOST_LINES)
        """(node or -root, file, line, function, doing) -> samples; a negative id is a thread beside the training's"""
        self.beside = Table(2)
        """(name,) -> ns and calls of callbacks that Keras ran in its pool threads"""
        self.unseparated = Table(1)
        """(root,) -> how often the wait for data could not be told from the step"""
        self.loading = Loading()
        self.own = Table(1)
        """(what,) -> ns that fitscope itself took, timed directly"""
        self.facts: list[dict[str, Any]] = []
        self.lasting: dict[str, dict[str, Any]] = {}
        """Facts that hold for every recording of this process, whenever it begins."""
        self.failure: str | None = None
        self.deadline_ns: int | None = None
        self.stopped = False
        self.left: SystemExit | None = None
        """What went through a training to end the script, if anything did."""
        self.on_first_region: list[Callable[[], None]] = []
        self.ticks: list[Callable[[float], None]] = []
        self._sinks: list[Sink] = []
        self._writer: threading.Thread | None = None
        self._wake = threading.Event()
        self._flushing = threading.Lock()
        self._facts_known: set[str] = set()

    # --- the training thread -------------------------------------------------------------------------------

    def ledger(self) -> Ledger:
        """The ledger of this thread."""
        ident = threading.get_ident()
        found = self.ledgers.get(ident)
        if found is None:
            found = self.ledgers[ident] = Ledger(self.tree, ident)
        return found

    def root(self, ledger: Ledger, call: str, where: Place) -> int:
        """The node of a place in the code that trains."""
        root = self.tree.node(NOWHERE, "region", call, where, ledger.ident)
        if root not in self.regions:
            self.regions[root] = Region()
            waiting = self.on_first_region[:]
            self.on_first_region.clear()
            for each in waiting[::-1]:
                each()
        return root

    def dismiss(self, ledger: Ledger) -> None:
        """This thread has done nothing that trains: it is not one of those that do, as far as is known."""
        idle = ledger.node == ledger.outside and ledger.call is None and ledger.loop is None
        if idle and ledger.last_batch is None and ledger.last_update is None:
            self.ledgers.pop(ledger.ident, None)

    def claim_outside(self, ledger: Ledger, node: int, nanoseconds: int) -> None:
        """So much of what passed outside of everything was a loop's after all: the lines seen there are, too."""
        ledger.move(ledger.outside, node, nanoseconds)
        seen, ledger.seen_outside = ledger.seen_outside, []
        for line in seen:
            self.lines.row(node, *line)[0] += 1

    def fact(self, kind: str, *, lasting: bool = False, **what: Any) -> None:
        """Something seen that is not a duration; said once in a recording."""
        fact = {"fact": kind, **what}
        name = repr(fact)
        if lasting:
            self.lasting[name] = fact
        if name not in self._facts_known and len(self._facts_known) < MOST_FACTS:
            self._facts_known.add(name)
            self.facts.append(fact)

    def fail(self, error: BaseException) -> None:
        """Observing went wrong: the training goes on unobserved, and the report says why."""
        if self.failure is None:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            where = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})" if trace else ""
            self.failure = f"{type(error).__name__}: {error}{where}"
            self.fact("failure", says=self.failure)
        for ledger in list(self.ledgers.values()):
            ledger.back(ledger.outside)
            ledger.call = ledger.loop = ledger.hook = None
        self.ledgers.clear()

    def trained_ns(self) -> int:
        """How much time all regions have taken so far."""
        now = clock()
        tree = self.tree
        total = sum(spent for node, spent in zip(tree.nodes, tree.spent, strict=False) if node.phase != "outside")
        for ledger in list(self.ledgers.values()):
            if ledger.node != ledger.outside:
                total += now - ledger.since
        return total

    # --- the writer's thread -------------------------------------------------------------------------------

    def add_sink(self, sink: Sink) -> None:
        """From now on what is measured is also written there."""
        self.flush()
        with self._flushing:
            sink.start_from(self)
            self._facts_known.clear()
            self._sinks.append(sink)
        if self._writer is None or not self._writer.is_alive():
            self._wake.clear()
            self._writer = threading.Thread(target=self._write_on, name="fitscope", daemon=True)
            self._writer.start()

    def remove_sink(self, sink: Sink) -> None:
        """The last of what is measured is written; the sink is not closed."""
        self.flush()
        with self._flushing:
            self._sinks.remove(sink)
        if not self._sinks and self._writer is not None:
            self._wake.set()
            if self._writer is not threading.current_thread():
                self._writer.join(timeout=5)
            self._writer = None

    def flush(self) -> None:
        """Writes what has changed to every sink."""
        with self._flushing:
            began = time.thread_time_ns()
            fresh = self._settle()
            for sink in self._sinks:
                sink.write(self, fresh)
            self.own.row("writing")[0] += time.thread_time_ns() - began

    def silence(self) -> None:
        """In a forked child: what was measured is its parent's, and nothing is written there."""
        self.ledgers.clear()
        self.regions.clear()
        self.facts, self._facts_known = list(self.lasting.values()), set(self.lasting)
        for rows in (self.tree.spent, self.tree.counts):
            rows[:] = [0] * len(rows)
        for table in filter(lambda each: isinstance(each, Table), vars(self).values()):
            for row in table.rows:
                row[:] = [0] * table.width
        self._sinks.clear()
        self._writer = None
        self._flushing = threading.Lock()
        self.on_first_region.clear()

    def _settle(self) -> Fresh:
        """Steps and ends of epochs since the last flush, by region; they go to the sinks that are open now."""
        regions = list(self.regions.items())
        return Fresh(
            marks={root: ends for root, region in regions if (ends := region.take_marks())},
            durations={root: taken for root, region in regions if (taken := region.take_durations())},
        )

    def _write_on(self) -> None:
        began = time.monotonic()
        while not self._wake.wait(interval(time.monotonic() - began)):
            if not self._sinks:
                return
            try:
                before = time.thread_time_ns()
                for tick in list(self.ticks):
                    tick(time.time())
                self.own.row("measuring the machine")[0] += time.thread_time_ns() - before
                self.flush()
            except Exception as error:
                self.fail(error)
                return


def interval(age: float) -> float:
    """Seconds between two writes: a run of days does not need a line a second."""
    return 1.0 if age < 3600 else 5.0


recorder = Recorder()
"""A process has one recorder: it is what the seams in Keras write to."""
