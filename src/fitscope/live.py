"""One line at the bottom of the terminal while a script trains: where the last seconds went, and the first verdict.

The script's own output, progress bar and all, goes to the terminal as ever. The last row is taken out of the part
that scrolls, and is drawn upon with the cursor saved and restored, in one write.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fitscope import words
from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.model import Account, Run
from fitscope.store import Follower

WINDOW = 5.0
"""Seconds that the shares are of."""
EVERY = 1.8
"""Seconds between two drawings: twice as often would cost twice as much and tell no more."""
FIRST_LOOK = 10.0
"""Seconds of training before the first look for a verdict; each further one comes after twice as many."""
NEVER_MORE_LOOKS = 8
GROUPS = {
    "data": ("data", "transfer"),
    "step": ("step",),
    "callbacks": ("callback", "checkpoint", "logs", "progress"),
}
NOTED = 0.05
"""Shares of other phases are shown from here on."""
LEAST_ROWS, LEAST_COLUMNS = 5, 30

SAVE, RESTORE = "\x1b7", "\x1b8"


class Moment(NamedTuple):
    """What was read of the run at some time."""

    at: float
    run: Run | None


class Line:
    """The line, from its first drawing until the terminal is given back."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._size = (0, 0)
        self._drawn = 0.0
        self._follower: Follower | None = None
        self._moments: deque[Moment] = deque()
        self._verdict = ""
        self._candidate = ""
        self._next_look = FIRST_LOOK
        self._looks = 0

    def update(self, path: Path) -> None:
        """Reads what is new in the run file and draws, unless it has just done so."""
        before = self._size
        if self._reserve() and (self._size != before or time.monotonic() - self._drawn >= EVERY):
            self._drawn = time.monotonic()
            self._draw(self._text(path))

    def close(self) -> None:
        """Gives the terminal back as it was."""
        rows = self._size[0]
        if rows:
            self._write(f"{SAVE}\x1b[r\x1b[{rows};1H\x1b[2K{RESTORE}")
            self._size = (0, 0)

    # --- what it says --------------------------------------------------------------------------------------

    def _text(self, path: Path) -> str:
        run = self._read(path)
        if run is None:
            return "fitscope  no training yet"
        now = time.monotonic()
        self._moments.append(Moment(now, run))
        while len(self._moments) > 1 and now - self._moments[1].at >= WINDOW:
            self._moments.popleft()
        before = self._moments[0].run
        lately = account(since(before, run) if before is not None else run)
        self._look(run)
        return f"fitscope  {shares(lately)}{f'  │  {self._verdict}' if self._verdict else ''}"

    def _read(self, path: Path) -> Run | None:
        if self._follower is None or self._follower.path != path:
            if not path.is_file():
                return None
            self._follower, self._moments = Follower(path), deque([Moment(time.monotonic(), None)])
        return self._follower.read()

    def _look(self, run: Run) -> None:
        """The dearest finding, once two looks in a row agree on it."""
        if self._verdict or self._looks >= NEVER_MORE_LOOKS:
            return
        if sum(node.seconds for node in run.nodes.values()) < self._next_look:
            return
        self._looks += 1
        self._next_look *= 2 if self._candidate else 1.5
        findings = diagnose(run, account(run)).findings
        best = f"{findings[0].name} {words.place(findings[0].where)}".rstrip() if findings else ""
        if best and best == self._candidate:
            self._verdict = best
        self._candidate = best

    # --- the terminal --------------------------------------------------------------------------------------

    def _reserve(self) -> bool:
        """Takes the last row out of the part that scrolls, anew when the window has changed."""
        try:
            columns, rows = os.get_terminal_size(self._terminal)
        except OSError:
            return False
        if (rows, columns) == self._size:
            return True
        before = self._size[0]
        if rows < LEAST_ROWS or columns < LEAST_COLUMNS:
            self.close()
            return False
        stale = f"{SAVE}\x1b[{before};1H\x1b[2K{RESTORE}" if 0 < before < rows else ""
        self._size = (rows, columns)
        # Down a line and up again: if the cursor stood in the last row, its line moves up with it.
        self._write(f"{SAVE}\x1b[r{RESTORE}{stale}\x1bD\x1b[1A{SAVE}\x1b[1;{rows - 1}r{RESTORE}")
        return True

    def _draw(self, text: str) -> None:
        rows, columns = self._size
        shown = "".join(character if character.isprintable() else "?" for character in text)
        if len(shown) > columns - 1:
            shown = shown[: columns - 2] + "…"
        self._write(f"{SAVE}\x1b[{rows};1H\x1b[0m\x1b[2K\x1b[2m{shown}\x1b[0m{RESTORE}")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._terminal, text.encode())


def since(before: Run, after: Run) -> Run:
    """What was recorded between two moments of one run, as a run that can be accounted for."""
    nodes = {}
    for number, node in after.nodes.items():
        earlier = before.nodes.get(number)
        if earlier is not None:
            # What was moved to another part since then would be negative here.
            seconds = max(0.0, node.seconds - earlier.seconds)
            node = replace(node, seconds=seconds, count=node.count - earlier.count)
        nodes[number] = node
    return replace(after, nodes=nodes, samples=(), ticks=(), marks=())


def shares(found: Account) -> str:
    """data 34 %  step 45 %  callbacks 12 %."""
    trained = sum(region.wall_seconds for region in found.regions)
    if trained <= 0:
        return f"no training in the last {WINDOW:.0f} s"
    seconds: dict[str, float] = dict.fromkeys(GROUPS, 0.0)
    for part in (part for region in found.regions for part in region.parts):
        group = next((name for name, phases in GROUPS.items() if part.phase in phases), part.phase)
        seconds[group] = seconds.get(group, 0.0) + part.seconds
    shown = [name for name in seconds if name in GROUPS or seconds[name] >= NOTED * trained]
    return "  ".join(f"{name} {words.share(max(0.0, seconds[name]) / trained)}" for name in shown)


def possible(terminal: int) -> bool:
    """Whether there is a terminal to draw on."""
    return os.isatty(terminal) and os.environ.get("TERM", "dumb") != "dumb"
