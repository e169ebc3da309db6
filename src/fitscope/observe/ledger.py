"""The time of one thread: at every instant exactly one node of the tree owns the clock.

A node is a place in the course of a training: "fit called on line 40", below it "the step", "the callback
Waits.on_train_batch_end", below that "predict called on line 12". Every node holds the nanoseconds that it
owned alone, so the nodes below a call always add up to the wall time of that call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, NamedTuple

clock: Callable[[], int] = perf_counter_ns

NOWHERE = 0
"""The node above all others. It owns no time: each thread has a node for what it does outside trainings."""


class Place(NamedTuple):
    """A line of source code."""

    file: str
    line: int


class Node(NamedTuple):
    """A place in the course of a training, below the place that contains it."""

    parent: int
    phase: str
    name: str
    where: Place | None
    thread: int


class Tree:
    """All nodes of a process, with the nanoseconds that each owned and how often it was entered."""

    def __init__(self) -> None:
        self.nodes = [Node(-1, "nowhere", "", None, 0)]
        self.spent = [0]
        self.counts = [0]
        self._ids: dict[Node, int] = {}
        self._lock = threading.RLock()  # the garbage collector may run, and ask for a node, inside

    def node(self, parent: int, phase: str, name: str = "", where: Place | None = None, thread: int = 0) -> int:
        """The id of a node, made when it is first asked for."""
        key = Node(parent, phase, name, where, thread)
        found = self._ids.get(key)
        if found is not None:
            return found
        with self._lock:
            if key not in self._ids:
                self.spent.append(0)
                self.counts.append(0)
                self.nodes.append(key)
                self._ids[key] = len(self.nodes) - 1
            return self._ids[key]

    def path(self, node: int) -> list[int]:
        """The ids from a root down to the node."""
        path = []
        while node > NOWHERE:
            path.append(node)
            node = self.nodes[node].parent
        return path[::-1]


class Ledger:
    """The cursor of one thread: which node owns the time now, and since when."""

    __slots__ = (
        "call",
        "counts",
        "gc_spans",
        "gradients_traced",
        "hook",
        "ident",
        "last_batch",
        "last_update",
        "loop",
        "node",
        "outside",
        "seen_outside",
        "since",
        "spent",
        "traces",
        "traces_update",
        "tree",
        "updated",
        "updates_traced",
    )

    def __init__(self, tree: Tree, ident: int) -> None:
        self.tree = tree
        self.spent = tree.spent
        self.counts = tree.counts
        self.ident = ident
        self.outside = tree.node(NOWHERE, "outside", "", None, ident)
        self.node = self.outside
        self.since = clock()
        self.call: Any = None
        """The call that is running (calls.Call), or None."""
        self.hook: str | None = None
        """The hook whose callbacks are about to be called."""
        self.loop: Any = None
        """The loop written by hand that is open (loops.Loop), or None."""
        self.last_batch: tuple[int, int, int] | None = None
        self.last_update: tuple[int, int, int] | None = None
        self.traces = 0
        """How many functions are being traced outside of all trainings, one in the other."""
        self.traces_update = False
        """Whether they update weights."""
        self.updates_traced = 0
        """How many updates of weights were traced so far."""
        self.updated = 0
        """How often loops over a dataset changed weights so far, eagerly or in a compiled step that is known."""
        self.gradients_traced = 0
        """How many gradients of a model were: the weights may be updated in that function, or eagerly after it."""
        self.seen_outside: list[tuple[str, int, str, str]] = []
        """The lines that the sampler saw since the last step of a loop by hand: the loop's, if it goes on."""
        self.gc_spans: list[tuple[int, int]] = []

    def enter(self, node: int) -> int:
        """The owner up to now is charged; from now on `node` owns the time. Returns the instant."""
        now = clock()
        self.spent[self.node] += now - self.since
        self.counts[node] += 1
        self.node = node
        self.since = now
        return now

    def back(self, node: int) -> int:
        """As `enter`, for a node that goes on after an interruption: not counted as another entry."""
        now = clock()
        self.spent[self.node] += now - self.since
        self.node = node
        self.since = now
        return now

    def rename(self, node: int) -> None:
        """What the present owner has held since it was entered belongs to `node` after all."""
        self.node = node

    def move(self, source: int, target: int, nanoseconds: int) -> None:
        """Part of what one node was charged with is known to belong to another."""
        self.spent[source] -= nanoseconds
        self.spent[target] += nanoseconds
