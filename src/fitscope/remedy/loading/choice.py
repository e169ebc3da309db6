"""How a Loader finds out by measuring whether threads, processes or nobody should load, and how many of them.

A trial is a plan that is used for some batches of the real training. What counts is the time from one batch to the
next, training included, since a worker that takes the interpreter lock or a processor from the training costs there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any

import psutil

from fitscope.remedy.loading.batches import chance, fingerprint, trace_of, weight_of
from fitscope.remedy.loading.interpreter import LockProbe
from fitscope.remedy.loading.lanes import Crew, processors
from fitscope.remedy.loading.passes import READER, Pass, Plan
from fitscope.remedy.loading.workers import Outcome, UnusableError

SMALL_SHARE = 0.03
"""Waiting less than this is not worth a worker."""
BETTER = 0.96
"""Threads must be this much faster than no worker, and processes than threads."""
CLOSE = 1.5
"""Plans that are not slower than this get further trials."""
LOOKS_AGAIN = 2
KINDS = ("reader", "threads", "processes")
"""From the simplest on."""
MOST_THREADS = 32
FEWEST_BATCHES = 8
SHORTEST_SECONDS = 0.05
LOOKS = 5
"""Loads that are looked at closely before two may run at once."""
FIRST_PAUSE = 512
"""Reads before the first second thoughts; twice as many before the next ones."""
MEMORY_SHARE = 0.1
"""Of the free memory, for batches that are ready ahead of time."""
SHORT_LOAD_SECONDS = 0.0002
"""Shorter loads are not worth the way to another thread."""
PROCESS_LOAD_SECONDS = 0.001
"""Shorter loads are not worth the way to another process."""
PROCESS_START_SECONDS = 0.3
"""What a process costs to start, about; a training that has spent more on loading is worth it."""


@dataclass
class Window:
    """What was measured while a plan was used."""

    plan: Plan
    skip: int
    """Reads at the beginning that still show the plan before."""
    cycles: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    loads: list[Outcome] = field(default_factory=list)

    def add(self, cycle: float | None, wait: float, outcome: Outcome) -> None:
        if self.skip > 0:
            self.skip -= 1
        elif cycle is not None:
            self.cycles.append(cycle)
            self.waits.append(outcome.wall if self.plan == READER else wait)
            self.loads.append(replace(outcome, batch=None))

    @property
    def complete(self) -> bool:
        enough = len(self.cycles) >= max(FEWEST_BATCHES, 2 * self.plan.count)
        return enough and (sum(self.cycles) >= SHORTEST_SECONDS or len(self.cycles) >= 64)

    @property
    def cycle(self) -> float:
        """Seconds from batch to batch, without the longest: a compilation, perhaps."""
        return (sum(self.cycles) - max(self.cycles)) / (len(self.cycles) - 1)

    @property
    def wait_share(self) -> float:
        longest = self.cycles.index(max(self.cycles))
        return (sum(self.waits) - self.waits[longest]) / max(1e-9, sum(self.cycles) - self.cycles[longest])

    @property
    def load(self) -> float:
        return sum(load.wall for load in self.loads) / len(self.loads)

    @property
    def quickest(self) -> float:
        return min(load.wall for load in self.loads)

    @property
    def processor(self) -> float:
        """Seconds of a processor for a load."""
        return sum(load.processor for load in self.loads) / len(self.loads)

    @property
    def idle_share(self) -> float:
        """How much of a load is waiting for something else than a processor."""
        busy = sum(load.processor + load.queued for load in self.loads)
        return max(0.0, 1 - busy / max(1e-9, sum(load.wall for load in self.loads)))


Trials = Generator[Plan, Window, Plan]


class Chooser:
    """Reads batches, looks at every read, and decides how to load from now on."""

    def __init__(
        self,
        crew: Crew,
        workers: int | None,
        processes: bool | None = None,
        ahead: int | None = None,
        exact: bool | None = None,
    ) -> None:
        self.crew = crew
        self._exact = workers is None if exact is None else exact
        """Processes are used only if they give the same batch for the same index."""
        self.why = "not measured yet"
        """The reason for the plan, for people."""
        self.plan = READER
        self._workers = workers
        self._processes = processes
        self._ahead = ahead
        self._batch_bytes = 0
        self._loaded = 0.0
        self._last: float | None = None
        self._looks = LOOKS if processes is None or (workers is None and not processes) else 0
        if workers == 0 or crew.in_order:
            self._looks = 0
        self._probe = LockProbe()
        self._trace = b""
        self._expected: tuple[int, bytes] | None = None
        self._settled: Window | None = None
        self._alone: Window | None = None
        """When the reader loaded itself."""
        self._tried: dict[Plan, Window] = {}
        self._reads = 0
        self._pause = FIRST_PAUSE
        self._window = Window(READER, 0)
        self._begin()

    def read(self, walk: Pass, position: int) -> Any:
        """One batch of a pass, loaded as the plan says; raises what the source raised."""
        before = self.before_load()
        self.crew.use(self.plan)
        called = time.perf_counter()
        try:
            outcome = self.crew.read(walk, position)
        except BaseException:
            self.look_away()
            self.crew.cancel()
            raise
        now = time.perf_counter()
        self.after_load(before, walk.index(position), outcome)
        if outcome.error is not None:
            self.crew.cancel()
            raise outcome.error
        self.note(called, now, position == 0, outcome)
        return outcome.batch

    # --- a close look at the first loads ------------------------------------------------------------------------

    def before_load(self) -> bytes:
        """What the load must not change if two are to run at once."""
        if self._processes and self._settled is None and not self.crew.starting:
            self._go_on(self._window)
        if not self._looks:
            return b""
        if self._looks == LOOKS and self._workers is None:
            try:
                self._trace = trace_of(self.crew.pack().parts)
            except UnusableError as error:
                self._keep_order(f"{error}, so perhaps two threads cannot use it at once either")
        before = chance()
        self._probe.start()
        return before

    def after_load(self, before: bytes, index: int, outcome: Outcome) -> None:
        """Whether it did, and whether it held the interpreter lock."""
        self._probe.stop()
        if not self._batch_bytes:
            self._batch_bytes = weight_of(outcome.batch)
        if not self._looks:
            return
        self._looks -= 1
        if outcome.error is not None or self.crew.in_order:
            return
        if self._exact and self._expected is None and (found := fingerprint(outcome.batch)) is not None:
            self._expected = index, found
        if self._workers is not None:
            return
        if chance() != before:
            self._keep_order("it draws from a generator of the whole process (numpy.random, random, torch)")
        elif self._looks in (0, LOOKS - 1) and self._changed():
            self._keep_order("loading changes it")

    def look_away(self) -> None:
        """The load was interrupted."""
        self._probe.stop()

    def _changed(self) -> bool:
        try:
            now = trace_of(self.crew.pack().parts)
        except UnusableError:
            return True
        return now != self._trace

    def _keep_order(self, why: str) -> None:
        self.crew.in_order = True
        self.why = f"one batch at a time, since {why}; a number of workers overrules this"

    # --- looking at every read ----------------------------------------------------------------------------------

    def note(self, called: float, now: float, first: bool, outcome: Outcome) -> None:
        """One read, from the call to now; the first of a pass stands for itself."""
        cycle = None if first or self._last is None else now - self._last
        self._last = now
        self._loaded += outcome.wall
        self._reads += 1
        self._window.add(cycle, now - called, outcome)
        if self.plan.kind == "processes" and self.crew.refused and not self._processes:
            self._begin()
        elif self._window.complete:
            self._turn()

    def _begin(self, now: Window | None = None) -> None:
        self._trials = self._explore(now)
        self._settled = None
        self._go_on(None)

    def _go_on(self, window: Window | None) -> None:
        before = self.plan
        try:
            self.plan = next(self._trials) if window is None else self._trials.send(window)
        except StopIteration as end:
            self.plan = end.value
            self._settled = Window(self.plan, 0)
            self._reads = 0
        self.crew.ahead = self._depth()
        self.crew.explores = self._settled is None
        self._window = Window(self.plan, self.plan.count + 2 if self.plan != before or window is None else 0)

    def _depth(self) -> int:
        """How many batches are made ready: enough for all workers, not more than there is memory for."""
        if self._ahead is not None:
            return self._ahead
        wanted = max(2, 2 * self.plan.count)
        if self._batch_bytes:
            wanted = min(wanted, int(MEMORY_SHARE * psutil.virtual_memory().available / self._batch_bytes))
        return max(1, wanted)

    def _turn(self) -> None:
        """A window is complete."""
        if self._settled is None:
            self._go_on(self._window)
            return
        if not self._settled.cycles:
            self._settled = self._window
        elif self._reads > self._pause:
            self._pause *= 2
            same = 0.5 < self._window.load / max(1e-9, self._settled.load) < 2
            self._begin(self._window if same else None)
            return
        self._window = Window(self.plan, 0)

    # --- the experiments ----------------------------------------------------------------------------------------

    def _explore(self, now: Window | None) -> Trials:
        """Each plan that is yielded is tried, and its window comes back; the plan returned stays.

        With a window of the plan as it does now, this is a second thought, for what has changed since.
        """
        if self._workers == 0 or (self._workers is not None and self._processes is False):
            self.why = "as asked for"
            return Plan("threads", self._workers) if self._workers else READER
        if self._processes:
            return (yield from self._processes_as_asked())
        if now is None or self._alone is None:
            self._tried.clear()
            self._alone = self._tried[READER] = yield READER
        else:
            self._tried = {now.plan: now}
        alone = self._alone
        if self._workers is None and (alone.wait_share < SMALL_SHARE or alone.load < SHORT_LOAD_SECONDS):
            self.why = "a batch is there before it is needed"
            return READER
        if self.crew.in_order:
            if self.crew.source.in_order:
                self.why = "one batch at a time, since an iterator has an order"
            yield from self._try(Plan("threads", 1))
            return (yield from self._decide()).plan
        yield from self._with_threads(alone)
        if self._processes is None and not self._fast_enough(alone):
            yield from self._with_processes(alone)
        if self._workers is not None:
            self._tried.pop(READER, None)
        best = yield from self._decide()
        if best.plan.kind != "processes":
            self.crew.use(best.plan)
            self.crew.dismiss()
        what = "waits" if alone.idle_share > 0.5 else "holds the GIL" if self._probe.held else "computes"
        self.why = f"a batch {what} for {1000 * alone.load:.1f} ms"
        if self.crew.refused:
            self.why += f"; no processes: {self.crew.refused}"
        return best.plan

    def _processes_as_asked(self) -> Trials:
        self.why = "as asked for"
        count = self._workers or processors()
        if not self.crew.processes and not self.crew.starting:
            self.crew.start(count)
        if self.crew.in_order:
            while self.crew.starting:  # an iterator must be read by one process from its beginning
                time.sleep(0.002)
        while self.crew.starting:
            yield Plan("threads", 1)
        if self.crew.refused:
            raise RuntimeError(f"Loader: {self.crew.refused}")
        return Plan("processes", count)

    def _try(self, plan: Plan) -> Generator[Plan, Window, Window | None]:
        """Other programs can only make a plan look slower than it is, so its fastest window counts.

        What cannot be faster than the best so far, even if all its workers always work, is not tried.
        """
        assert self._alone is not None
        if self._alone.quickest / max(1, plan.count) > BETTER * self._best().cycle:
            return None
        window = yield plan
        if plan not in self._tried or window.cycle < self._tried[plan].cycle:
            self._tried[plan] = window
        return window

    def _best(self) -> Window:
        """The fastest plan; one of another kind must be worth it."""
        plans = sorted(self._tried, key=lambda plan: (KINDS.index(plan.kind), plan.count))
        best = self._tried[plans[0]]
        for plan in plans[1:]:
            if self._tried[plan].cycle < (1.0 if plan.kind == best.plan.kind else BETTER) * best.cycle:
                best = self._tried[plan]
        return best

    def _decide(self) -> Generator[Plan, Window, Window]:
        """All plans that may be the best are looked at again, in turn."""
        for _ in range(LOOKS_AGAIN):
            limit = CLOSE * self._best().cycle
            close = [plan for plan, window in self._tried.items() if window.cycle < limit]
            for plan in close if len(close) > 1 else ():
                if plan.kind != "processes" or not self.crew.refused:
                    yield from self._try(plan)
        if self.crew.refused:
            self._tried = {plan: window for plan, window in self._tried.items() if plan.kind != "processes"}
        return self._best()

    def _with_threads(self, alone: Window) -> Generator[Plan, Window, None]:
        if self._workers is not None:
            yield from self._try(Plan("threads", self._workers))
            return
        if alone.idle_share < 0.3:
            yield from self._try(Plan("threads", 1))
            if not self._probe.held:  # otherwise they would wait for each other, and the training for them
                yield from self._try(Plan("threads", max(2, processors())))
            return
        step = max(alone.cycle * (1 - alone.wait_share), alone.processor, alone.load / 16)
        count = min(MOST_THREADS, math.ceil(alone.load / step) + 1)
        found = yield from self._try(Plan("threads", count))
        while count < MOST_THREADS and found and found.wait_share > SMALL_SHARE and self._best() is found:
            count = min(MOST_THREADS, 2 * count)
            found = yield from self._try(Plan("threads", count))

    def _fast_enough(self, alone: Window) -> bool:
        """Whether processes could not be much faster than the best so far."""
        best = self._best()
        training = alone.cycle * (1 - alone.wait_share)
        if best.cycle < 1.1 * training or alone.load < PROCESS_LOAD_SECONDS:
            return True
        return not self._probe.held or alone.idle_share > 0.7

    def _with_processes(self, alone: Window) -> Generator[Plan, Window, None]:
        count = self._workers or (processors() if alone.idle_share < 0.3 else 2 * processors())
        if count < 2 or self.crew.refused or (self._exact and self._expected is None):
            return
        while self._loaded < PROCESS_START_SECONDS:
            yield self._best().plan
        yield from self._start(count)
        if self.crew.refused:
            return
        yield from self._try(Plan("processes", count))

    def _start(self, count: int) -> Generator[Plan, Window, None]:
        if len(self.crew.processes) < count:
            try:
                self.crew.start(count, self._expected)
            except UnusableError:
                return
            while self.crew.starting:
                yield self._best().plan
