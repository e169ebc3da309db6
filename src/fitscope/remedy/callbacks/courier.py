"""One thread that calls a callback's hooks in the order in which the training made them."""

from __future__ import annotations

import collections
import dataclasses
import queue
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

IDLE = 0.2  # seconds between two looks at whether the program has ended
PATIENCE = 1.0  # seconds that a flush waits for logs which Keras' pool still holds


class Recipient(Protocol):
    """What is called, on the courier's thread."""

    def call(self, hook: str, args: tuple[Any, ...], weights: Any) -> None:
        """One hook."""

    def call_together(self, hook: str, records: list[tuple[Any, ...]]) -> None:
        """Several records of one hook at once."""

    def takes_together(self, hook: str) -> bool:
        """Whether `call_together` is for this hook."""

    def close(self) -> None:
        """Nothing more will come."""


@dataclasses.dataclass(slots=True)
class _Slot:
    """A call in its place in the order; `args` are missing until its batch has ended."""

    hook: str
    args: tuple[Any, ...] | None
    weights: Any = None
    phase: str = ""
    began: int = -1
    counts: bool = False
    dropped: bool = False


class Courier:
    """Takes hooks from the training thread and from Keras' pool, and delivers them in order from a thread of its own.

    Everything that arrives goes through one queue of the standard library that may be used inside a signal handler;
    the order is restored on the courier's side. So no lock is ever held by the training thread.
    """

    def __init__(self, recipient: Recipient, name: str, capacity: int, drop: bool) -> None:
        self._recipient = recipient
        self._capacity = capacity
        self._drop = drop
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._slots: collections.deque[_Slot] = collections.deque()
        self._begun = 0  # batches, counted by the training thread
        self._settled = 0  # of these, delivered or given up; counted by the courier
        self._is_busy = False
        self._is_over = False
        self.dropped = 0
        self.delivered = 0
        self.lost = 0
        self.error: BaseException | None = None
        self._error_was_raised = False
        # Not a daemon: a program that ends by an exception still waits until everything is delivered.
        self._thread = threading.Thread(target=self._run, name=f"fitscope-{name}")

    def start(self) -> None:
        """Begins to deliver."""
        self._thread.start()
        _terminations.join(self)

    def batch_begins(
        self, phase: str, batch: int, hook: str | None, args: tuple[Any, ...], counts: bool = True
    ) -> None:
        """A batch takes its place in the order; `hook` is the begin hook, if the callback has one.

        One that does not count takes no room: nothing of weight will come with it.
        """
        self.raise_error()
        dropped = False
        if counts and self._begun - self._settled >= self._capacity:
            if self._drop:
                dropped = True
                self.dropped += 1
            else:
                self._wait_for_room()
        self._begun += counts
        self._events.put(lambda: self._place_batch(phase, batch, hook, args, counts, dropped))

    def batch_ends(self, phase: str, batch: int, args: tuple[Any, ...], weights: Any) -> None:
        """From any thread."""
        self._events.put(lambda: self._fill(phase, batch, args, weights))

    def hook(self, name: str, args: tuple[Any, ...], weights: Any, ended: str | None) -> None:
        """A hook that is no batch hook; `ended` is the phase in which no batch can still be under way."""
        self.raise_error()
        self._events.put(lambda: self._place(name, args, weights, ended))

    def flush(self) -> None:
        """Returns when everything that came before is delivered. May be called in a signal handler."""
        done = threading.Event()
        deadline = time.monotonic() + PATIENCE
        self._events.put(lambda: self._answer(done, deadline))
        while self._thread.is_alive() and not done.wait(IDLE):
            pass

    def finish(self) -> None:
        """Delivers the rest and ends the thread; raises what the callback raised."""
        self.end()
        self._thread.join()
        _terminations.restore()
        self.raise_error()

    def end(self) -> None:
        """Lets the thread deliver the rest and end, without waiting for it."""
        self._events.put(self._end)

    def raise_error(self) -> None:
        """Raises what the callback raised, once."""
        if self.error is not None and not self._error_was_raised:
            self._error_was_raised = True
            raise self.error

    def _wait_for_room(self) -> None:
        # Nothing is waited for while the courier has nothing to do: then it is Keras' pool that is behind.
        while self._begun - self._settled >= self._capacity and (self._is_busy or not self._events.empty()):
            try:
                self._room.get(timeout=IDLE)
            except queue.Empty:
                continue
        self.raise_error()

    # What follows runs on the courier's thread.

    def _run(self) -> None:
        try:
            while not self._is_over:
                try:
                    event = self._events.get(timeout=IDLE)
                except queue.Empty:
                    if not threading.main_thread().is_alive():
                        break
                    continue
                self._is_busy = True
                event()
                self._take_all()
                self._deliver()
                self._is_busy = False
                self._room.put(None) if self._room.empty() else None
        finally:
            self._close()
            _terminations.leave(self)
        if self.error is not None and not threading.main_thread().is_alive():
            self.raise_error()  # nobody is left to raise it in: Python prints it

    def _close(self) -> None:
        try:
            self._recipient.close()
        except Exception as error:
            self.error = self.error or error

    def _take_all(self) -> None:
        """What has arrived meanwhile, so that a callback that takes records together gets many."""
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return
            event()

    def _place_batch(
        self, phase: str, batch: int, hook: str | None, args: tuple[Any, ...], counts: bool, dropped: bool
    ) -> None:
        if hook is not None and not dropped:
            self._slots.append(_Slot(hook, args))
        self._slots.append(
            _Slot(f"on_{phase}_batch_end", None, phase=phase, began=batch, counts=counts, dropped=dropped)
        )

    def _fill(self, phase: str, batch: int, args: tuple[Any, ...], weights: Any) -> None:
        for slot in reversed(self._slots):
            if slot.args is None and slot.phase == phase and slot.began <= batch:
                slot.args, slot.weights = args, weights
                return
        self._slots.append(_Slot(f"on_{phase}_batch_end", args, weights))

    def _place(self, name: str, args: tuple[Any, ...], weights: Any, ended: str | None) -> None:
        if ended is not None:
            # A batch that began and did not end was the end of the data.
            self._give_up(lambda slot: slot.phase == ended)
        self._slots.append(_Slot(name, args, weights))

    def _give_up(self, which: Callable[[_Slot], bool]) -> None:
        given_up = [slot for slot in self._slots if slot.args is None and which(slot)]
        self._settled += sum(slot.counts for slot in given_up)
        self._slots = collections.deque(slot for slot in self._slots if slot.args is not None or not which(slot))

    def _answer(self, done: threading.Event, deadline: float) -> None:
        self._deliver()
        if any(slot.args is None for slot in self._slots) and time.monotonic() < deadline:
            time.sleep(0.001)
            self._events.put(lambda: self._answer(done, deadline))
            return
        done.set()

    def _end(self) -> None:
        self._give_up(lambda slot: True)
        self._deliver()
        self._is_over = True

    def _deliver(self) -> None:
        while self._slots and self._slots[0].args is not None:
            slots = [self._slots.popleft()]
            first = slots[0]
            if self._recipient.takes_together(first.hook) and first.weights is None:
                while self._slots and self._slots[0].hook == first.hook and self._slots[0].args is not None:
                    slots.append(self._slots.popleft())
            self._call([slot for slot in slots if not slot.dropped])
            self._settled += sum(slot.counts for slot in slots)

    def _call(self, slots: list[_Slot]) -> None:
        if not slots:
            return
        if self.error is not None:
            self.lost += len(slots)
            return
        hook, records = slots[0].hook, [slot.args or () for slot in slots]
        try:
            if self._recipient.takes_together(hook):
                self._recipient.call_together(hook, records)
            else:
                self._recipient.call(hook, records[0], slots[0].weights)
            self.delivered += len(slots)
        except BaseException as error:
            error.add_note(f"This was raised in the background, by {hook} for {_named(hook, records)}.")
            self.error = error
            self.lost += len(slots)


def _named(hook: str, records: list[tuple[Any, ...]]) -> str:
    if "batch" not in hook and "epoch" not in hook:
        return "the whole training"
    what = "batch" if "batch" in hook else "epoch"
    first, last = records[0][0], records[-1][0]
    return f"{what} {first}" if first == last else f"{what}es {first} to {last}"


class _Terminations:
    """While couriers are on their way, SIGTERM ends the program only after they have delivered."""

    def __init__(self) -> None:
        self._couriers: set[Courier] = set()
        self._before: Any = None
        self._is_held = False

    def join(self, courier: Courier) -> None:
        self._couriers.add(courier)
        if self._is_held or threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGTERM)
        if before is not signal.SIG_IGN and before is not None:
            self._before = before
            self._is_held = True
            signal.signal(signal.SIGTERM, self._terminate)

    def leave(self, courier: Courier) -> None:
        self._couriers.discard(courier)

    def restore(self) -> None:
        """On the main thread, when the last training has ended."""
        if self._couriers or not self._is_held or threading.current_thread() is not threading.main_thread():
            return
        self._is_held = False
        if signal.getsignal(signal.SIGTERM) == self._terminate:
            signal.signal(signal.SIGTERM, self._before)

    def _terminate(self, number: int, frame: Any) -> None:
        for courier in list(self._couriers):
            courier.flush()
        if callable(self._before):
            self._before(number, frame)
            return
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)


_terminations = _Terminations()
