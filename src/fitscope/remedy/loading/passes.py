"""A pass is one walk over a source in a known order; a plan says who loads its batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fitscope.remedy.loading.workers import Outcome


@dataclass(frozen=True)
class Plan:
    """How batches are loaded: by the reader itself, by threads, or by processes, and by how many."""

    kind: Literal["reader", "threads", "processes"]
    count: int = 0

    def __str__(self) -> str:
        if self.kind == "reader":
            return "no worker"
        word = {"threads": "thread", "processes": "process"}[self.kind]
        return f"1 {word}" if self.count == 1 else f"{self.count} {self.kind}"


READER = Plan("reader")


class Pass:
    """One walk over a source: which index stands at which position, and how far it got."""

    def __init__(self, order: Sequence[int] | None, number: int) -> None:
        self.order = order
        """None: positions are indices, and there is no end."""
        self.number = number
        self.position = 0
        """The one that is read next."""
        self.taken = 0
        """Positions before this one are loaded, or somebody is loading them."""
        self.outcomes: dict[int, Outcome] = {}
        self.version = 0
        """Outcomes of an earlier version are thrown away."""

    @property
    def exhausted(self) -> bool:
        return self.order is not None and self.taken >= len(self.order)

    def index(self, position: int) -> int:
        return position if self.order is None else int(self.order[position])

    def recall(self, position: int) -> None:
        """From this position on, everything is loaded anew."""
        self.position = self.taken = position
        self.outcomes.clear()
        self.version += 1


@dataclass(frozen=True)
class Task:
    """One position of a pass that somebody has taken."""

    walk: Pass
    version: int
    position: int

    @property
    def index(self) -> int:
        return self.walk.index(self.position)
