"""Stretches of a training, with the cause and without it by turns: when to change over, and how long each took.

The order is with, without, without, with, and so on: a machine that gets slower by and by is so for both. A stretch
is made of steps inside epochs, or of whole epochs. Behind a change that the input notices, one epoch that does not
count lets the old pipeline go and the new one start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

TURNS = (False, True, True, False)
SETTLING = 3
"""Steps of an epoch that does not count."""
LEAST_STEPS = 3

clock: Callable[[], float] = time.perf_counter


class Stretches:
    """Whether the cause is removed now; told of every step and epoch of the training."""

    def __init__(self, plan: dict[str, Any], write: Callable[[dict[str, Any]], None]) -> None:
        self.removed = False
        self.counts = False
        """Whether what happens now belongs to a stretch."""
        self.flip: Callable[[bool], None] = lambda removed: None
        """Takes the cause away, or puts it back."""
        self.finish: Callable[[], None] = lambda: None
        """Does what the present stretch left to be done."""
        self.multiple = 1
        """Epochs that belong together, where something happens every so many of them."""
        self._write = write
        self._by_steps = plan["by"] == "steps"
        self._seconds: float = plan["seconds"]
        self._warm: float = plan["warm"]
        self._cut: int | None = plan["cut"]
        self._whole_first: bool = plan["whole_first"]
        self._settles: bool = plan["settles"]
        self._number = 0
        self._epochs_seen = 0
        self._known: set[bool] = set()
        self._settling = False
        self._warm_from: float | None = None
        self._epoch_began = 0.0
        self._first: float | None = None
        self._last = 0.0
        self._in_epoch = 0
        self._clear()

    def _clear(self) -> None:
        self._total = self._loop = self._rest = 0.0
        self._steps = self._epochs = 0
        self._began = time.time()

    # --- what the training tells ------------------------------------------------------------------------------

    def epoch_begins(self) -> None:
        """An epoch begins: whole epochs change over here."""
        if not self._by_steps:
            self._turn_epoch()
        self._epoch_began = clock()
        self._first = None
        self._in_epoch = 0

    def step_ends(self, steps: int, wait: Callable[[], None]) -> None:
        """A step, or several in one, has ended; `wait` waits for the device."""
        now = clock()
        if self._warm_from is None:
            self._warm_from = now  # the first step was compiled
        if self._first is None:
            self._first = self._last = now
            return
        self._in_epoch += steps
        if self._by_steps:
            self._step(now, steps, wait)
        else:
            self._last = now

    def epoch_ends(self) -> None:
        """An epoch has ended, callbacks and all."""
        self._epochs_seen += 1
        if self._by_steps or not self.counts:
            return
        now = clock()
        if self._is_enough(self._total + now - self._epoch_began, self._epochs + 1):
            self.finish()
            now = clock()
        first = self._first if self._first is not None else now
        last = max(first, self._last) if self._in_epoch else first
        self._total += now - self._epoch_began
        self._loop += last - first
        self._rest += (first - self._epoch_began) + (now - last)
        self._steps += self._in_epoch
        self._epochs += 1
        if self._is_enough(self._total, self._epochs):
            self._close()

    def _is_enough(self, seconds: float, epochs: int) -> bool:
        """Whether a stretch of so many whole epochs is long enough."""
        return seconds >= self._seconds and epochs % self.multiple == 0

    @property
    def most_steps(self) -> int | None:
        """Steps after which this epoch is cut off; None if it goes to its end."""
        if self._settling and self.removed in self._known:
            return SETTLING
        if self._epochs_seen == 0 and self._whole_first:
            return None  # a cache is filled by a whole pass only
        return self._cut

    @property
    def may_skip(self) -> bool:
        """Whether what comes behind the steps of this epoch may be left out: it does not count, and is compiled."""
        return self._settling and self.removed in self._known

    def give_up(self, reason: str) -> None:
        """The cause cannot be taken away here."""
        self._write({"impossible": reason})

    # --- changing over ----------------------------------------------------------------------------------------

    def _step(self, now: float, steps: int, wait: Callable[[], None]) -> None:
        if not self.counts:
            self._last = now
            if self._warm_from is not None and now - self._warm_from >= self._warm:
                wait()
                self._change()
                self._last = clock()
            return
        self._loop += now - self._last
        self._steps += steps
        self._last = now
        if self._loop >= self._seconds and self._steps >= LEAST_STEPS:
            wait()
            self.finish()
            after = clock()
            self._loop += after - now
            self._total = self._loop
            self._close()
            self._change()
            self._last = clock()

    def _turn_epoch(self) -> None:
        """At the beginning of an epoch: the next stretch, the epoch before it, or more of the present one."""
        if self._epochs_seen == 0:
            return
        self._known.add(False)
        if self._settling:
            self._known.add(self.removed)
            self._settling = False
            self.counts = True
            self._clear()
        elif not self.counts:
            before = self.removed
            self._change()
            if self._settles and self.removed != before:
                self._settling, self.counts = True, False

    def _change(self) -> None:
        removed = TURNS[self._number % len(TURNS)]
        if removed != self.removed:
            self.removed = removed
            self.flip(removed)
        self.counts = True
        self._clear()

    def _close(self) -> None:
        self._write(
            {
                "stretch": self._number,
                "removed": self.removed,
                "seconds": self._total,
                "epochs": self._epochs,
                "steps": self._steps,
                "loop": self._loop,
                "rest": self._rest,
                "began": self._began,
                "ended": time.time(),
            }
        )
        self._number += 1
        self.counts = False
