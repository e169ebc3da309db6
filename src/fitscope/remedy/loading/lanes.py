"""Lanes load the batches of a pass ahead of who reads them, in threads of this process or with worker processes."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fitscope.remedy.loading.batches import Source
from fitscope.remedy.loading.interpreter import queued_seconds
from fitscope.remedy.loading.passes import READER, Pass, Plan, Task
from fitscope.remedy.loading.shared import Packed
from fitscope.remedy.loading.workers import SLOTS, Outcome, Snapshot, UnusableError, WorkerProcess, pack, unpicklable

IDLE_SECONDS = 1.0
"""A lane that finds nothing to do for so long, between two epochs, say, ends; the next read starts another one."""
SHORT_SECONDS = 0.02
"""A worker process with shorter loads is given the next index before it is done."""


class Lane:
    """A thread that loads, itself or by asking a worker process."""

    def __init__(self, process: WorkerProcess | None) -> None:
        self.process = process
        self.retired = False


class Crew:
    """The lanes of one source, and the pass they work on. Readers get the batches in the order of the pass."""

    def __init__(self, source: Source, backend: str, seed: int, strict: bool) -> None:
        self.source = source
        self.in_order = source.in_order
        """Two loads must never run at the same time, nor in another order."""
        self.plan = READER
        self.processes: list[WorkerProcess] = []
        self.refused: str | None = None
        """Why worker processes cannot be used."""
        self.load_seconds = 0.0
        self.explores = False
        """Loads are measured more closely."""
        self.ahead = 1
        """Positions beyond the one that is read that may be taken."""
        self._backend = backend
        self._strict = strict
        """Worker processes were asked for: what they cannot do is an error."""
        self._seed = seed
        self._lock = threading.RLock()
        self._ready = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._walk: Pass | None = None
        self._lanes: list[Lane] = []
        self._occupied: list[WorkerProcess] = []
        self._busy = 0
        """Loads that run in this process now."""
        self._paused = False
        self._closed = False
        self._snapshot: Snapshot | None = None
        self._stale = True
        self._starting: threading.Thread | None = None
        self._threads: list[threading.Thread] = []

    # --- for the reader -----------------------------------------------------------------------------------------

    def read(self, walk: Pass, position: int) -> Outcome:
        """The outcome at this position; waits for it, or loads it here if nobody else does."""
        if self.plan.kind == "processes" and (self._stale or walk is not self._walk):
            self._refresh()
        with self._lock:
            if walk is not self._walk or position != walk.position:
                if self._walk is not None:
                    self._walk.recall(self._walk.position)
                walk.recall(position)
                self._walk = walk
                self._room.notify_all()
            walk.position = position + 1
            self._room.notify()  # one more may be taken: to wake all lanes would cost more than many a load
            self._fill()
            while not (found := walk.outcomes.pop(position, None)):
                if self._closed:
                    raise ValueError("the Loader is closed")
                self._fill()
                if walk.taken == position and not self._lanes and self._may_load():
                    task = self._take()
                    break
                self._ready.wait()
            else:
                return found
        try:
            return self._load(task)
        finally:
            self._rest()

    def load_alone(self, index: int, load: Callable[[int], Any]) -> Any:
        """One batch outside of any pass, for its shape, say."""
        with self._lock:
            while not self._may_load():
                self._ready.wait()
            self._busy += 1
        try:
            return load(index)
        finally:
            self._rest()

    def use(self, plan: Plan) -> None:
        """From the next batch on."""
        if plan == self.plan:
            return
        with self._lock:
            self.plan = plan
            for lane in self._lanes:
                lane.retired = True
            self._lanes = []
            self._room.notify_all()

    def cancel(self) -> None:
        """Nobody reads on: what is loaded ahead is dropped, and the lanes end."""
        with self._lock:
            if self._walk is not None:
                self._walk.recall(self._walk.position)
                self._walk = None
            self._room.notify_all()

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """No load runs inside; what was loaded ahead before is loaded anew: the source may change here."""
        with self._lock:
            self._paused = True
            if self._walk is not None:
                self._walk.recall(self._walk.position)
            while self._busy:
                self._ready.wait()
        try:
            yield
        finally:
            with self._lock:
                self._paused = False
                self._stale = True
                self._ready.notify_all()
                self._room.notify_all()

    def close(self, wait: bool = True) -> None:
        """Ends all lanes and processes. Without waiting it is safe in any thread at any moment."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
            for lane in self._lanes:
                lane.retired = True
            self._ready.notify_all()
            self._room.notify_all()
        self.dismiss()
        for thread in threads if wait else ():
            if thread is not threading.current_thread():
                thread.join()
        self.dismiss()  # a process that was being started meanwhile
        self._snapshot = None

    # --- worker processes ---------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """The source by value; refuses worker processes for ever if it has none."""
        try:
            return pack(self.source)
        except Exception as error:
            self.refused = unpicklable(self.source, error)
            raise UnusableError(self.refused) from error

    @property
    def starting(self) -> bool:
        return self._starting is not None and self._starting.is_alive()

    def start(self, count: int, expected: tuple[int, bytes] | None = None) -> None:
        """Starts worker processes beside the training; they must give the expected batch (index, fingerprint)."""
        packed = self.pack()
        self._starting = self._thread("fitscope starts", self._start, packed, count, expected)
        self._starting.start()

    def _start(self, packed: Packed, count: int, expected: tuple[int, bytes] | None) -> None:
        try:
            snapshot = self._snapshot = Snapshot(packed)
            threads = max(1, processors() // count)
            started = []
            for _ in range(count - len(self.processes)):
                started.append(WorkerProcess(self._backend, threads))
                with self._lock:
                    self.processes.append(started[-1])
                    if self._closed:
                        raise UnusableError("the Loader is closed")
            for process in started:
                process.take(snapshot)
            if expected and started and started[0].check(expected[0]) != expected[1]:
                raise UnusableError("a worker process gives another batch for the same index")
        except (UnusableError, OSError) as error:
            self.refused = str(error)
            self.dismiss()

    def dismiss(self) -> None:
        """Ends the worker processes."""
        with self._lock:
            processes, self.processes = self.processes, []
        for process in processes:
            process.close()

    def _refresh(self) -> None:
        """Worker processes shall see the source as it is now."""
        try:
            packed = self.pack()
        except UnusableError as error:
            self._refuse(error)
            return
        with self._lock:
            self._stale = False
            if self._snapshot is None or not self._snapshot.is_still(packed):
                self._snapshot = Snapshot(packed)

    def _refuse(self, error: Exception) -> None:
        """From now on without processes; nobody is told but the one who asked for processes."""
        self.refused = str(error)
        self.use(Plan("threads", 1))

    # --- lanes --------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Starts the lanes that the plan wants and there is work for."""
        if self._closed or self.plan.kind == "reader" or self._walk is None or self._walk.exhausted:
            return
        for number in range(len(self._lanes), self.plan.count):
            lane, work = Lane(None), self._work_here
            if self.plan.kind == "processes":
                free = [each for each in self.processes if each not in self._occupied]
                if not free:
                    break  # a lane of an earlier plan is still busy with it
                lane, work = Lane(free[0]), self._work_there
                self._occupied.append(free[0])
            thread = self._thread(f"fitscope loads {number}", work, lane)
            self._lanes.append(lane)
            try:
                thread.start()
            except RuntimeError:  # no more threads: those that there are, or the reader, do it
                self._leave(lane)
                break

    def _thread(self, name: str, work: Callable[..., None], *args: Any) -> threading.Thread:
        thread = threading.Thread(target=work, args=args, name=name, daemon=True)
        with self._lock:
            self._threads = [*(each for each in self._threads if each.is_alive()), thread]
        return thread

    def _may_load(self) -> bool:
        return not self._paused and not (self.in_order and self._busy)

    def _take(self) -> Task:
        assert self._walk is not None
        task = Task(self._walk, self._walk.version, self._walk.taken)
        self._walk.taken += 1
        self._busy += 1
        return task

    def _next(self, lane: Lane, wait: bool = True, done: tuple[Task, Outcome] | None = None) -> Task | None:
        """The next position for this lane, which may have one done. None is the end of a lane that waits."""
        with self._lock:
            if done is not None:
                self._put(*done)
                self._rest()
            until = time.monotonic() + IDLE_SECONDS
            late = False
            while not (lane.retired or self._closed):
                walk = self._walk
                if walk is None:
                    break
                if not walk.exhausted and walk.taken < walk.position + self.ahead and self._may_load():
                    return self._take()
                if not wait:
                    return None
                if late:
                    break
                late = not self._room.wait(max(0.0, until - time.monotonic()))
            if wait:
                self._leave(lane)
            return None

    def _leave(self, lane: Lane) -> None:
        if lane in self._lanes:
            self._lanes.remove(lane)
        if lane.process in self._occupied:
            self._occupied.remove(lane.process)
        self._ready.notify_all()  # the reader may have to do it now

    def _work_here(self, lane: Lane) -> None:
        task = self._next(lane)
        while task:
            task = self._next(lane, done=(task, self._load(task)))

    def _work_there(self, lane: Lane) -> None:
        process = lane.process
        assert process is not None
        under_way: deque[Task] = deque()
        try:
            while True:
                while len(under_way) < (SLOTS if self.load_seconds < SHORT_SECONDS else 1):
                    if (task := self._next(lane, wait=not under_way)) is None:
                        break
                    self._rest()  # the load does not run here
                    under_way.append(task)
                    snapshot = self._snapshot
                    if process.snapshot is not snapshot and snapshot is not None:
                        while len(under_way) > 1:
                            self._fetch(process, under_way)
                        process.take(snapshot)
                    process.ask(task.index, (self._seed, task.walk.number, task.position))
                if not under_way:
                    return
                self._fetch(process, under_way)
        except Exception as error:  # nobody must wait for this lane in vain
            self._give_up(lane, error, under_way)

    def _fetch(self, process: WorkerProcess, under_way: deque[Task]) -> None:
        outcome = process.fetch()
        task = under_way[0]
        if outcome.error is not None and not self._strict:
            raise UnusableError(f"index {task.index} raised {type(outcome.error).__name__} in a worker process")
        under_way.popleft()
        self._note(outcome.error, task.index)
        self.load_seconds = outcome.wall
        self._put(task, outcome)

    def _give_up(self, lane: Lane, error: Exception, tasks: deque[Task]) -> None:
        """What a process could not do is loaded here, unless processes were asked for."""
        with self._lock:
            self._leave(lane)
            if lane.process in self.processes:
                self.processes.remove(lane.process)
            if not self._closed and not lane.retired:
                self._refuse(error)
        assert lane.process is not None
        lane.process.close()
        for task in tasks:
            if self._strict or self._closed:
                outcome = Outcome(error=RuntimeError(f"{self.source.asker}: {error}"))
                self._note(outcome.error, task.index)
            else:
                with self._lock:
                    while not self._may_load():
                        self._ready.wait()
                    self._busy += 1
                outcome = self._load(task)
                self._rest()
            self._put(task, outcome)

    def _load(self, task: Task) -> Outcome:
        outcome = Outcome()
        queued = queued_seconds() if (explores := self.explores) else 0.0
        wall, processor = time.perf_counter(), time.thread_time()
        try:
            outcome.batch = self.source.batch(task.index)
        except BaseException as error:
            outcome.error = error
            self._note(error, task.index)
        outcome.wall, outcome.processor = time.perf_counter() - wall, time.thread_time() - processor
        outcome.queued = queued_seconds() - queued if explores else 0.0
        self.load_seconds = outcome.wall
        return outcome

    def _note(self, error: BaseException | None, index: int) -> None:
        if error is not None:
            error.add_note(f"{self.source.asker}: raised by {self.source.named(index)}")

    def _rest(self) -> None:
        with self._lock:
            self._busy -= 1
            if self.in_order or self._paused:
                self._ready.notify_all()
                self._room.notify_all()

    def _put(self, task: Task, outcome: Outcome) -> None:
        with self._lock:
            if task.version == task.walk.version:
                task.walk.outcomes[task.position] = outcome
                if task.position == task.walk.position - 1:
                    self._ready.notify_all()


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
