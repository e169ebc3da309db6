"""One running `fit`, `evaluate`, `predict` or `…_on_batch`: where it is in its course, and which node that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fitscope.observe.ledger import NOWHERE, Ledger, Place, Tree
from fitscope.observe.recorder import Region, recorder


class Stations:
    """The nodes below one call, resolved once and used by all later calls from the same place."""

    __slots__ = (
        "_tree",
        "between",
        "callbacks",
        "close",
        "data",
        "dispatch",
        "end",
        "first_batch",
        "first_run",
        "logs",
        "loop",
        "metrics",
        "open",
        "own",
        "root",
        "setup",
        "start",
        "step",
        "trace",
        "transfer",
        "wait",
    )

    def __init__(self, tree: Tree, root: int, step: str = "step") -> None:
        def node(phase: str, name: str) -> int:
            return tree.node(root, phase, name)

        self._tree = tree
        self.root = root
        self.callbacks: dict[tuple[str, str, Place | None], int] = {}
        self.setup = node("setup", "preparing")
        self.first_batch = node("setup", "first batch, to build the model")
        self.start = node("epoch", "start of the epoch")
        self.open = node("epoch", "opening the input pipeline")
        self.close = node("epoch", "closing the input pipeline")
        self.end = node("epoch", "end of the epoch")
        self.step = node("step", step)
        self.wait = node("step", "waiting for the device")
        self.transfer = node("transfer", "to the device")
        self.trace = node("compile", "tracing")
        self.first_run = node("compile", "first run of a traced step")
        self.logs = node("logs", "reading the logs")
        self.loop = node("step", "Keras' loop around the step")
        self.dispatch = node("callback", "CallbackList.on_batch_end")
        self.own = node("unexplained", "fitscope itself")
        self.metrics = node("logs", "metrics of the epoch")
        self.data = node("data", "input")
        self.between = node("data", "your code between calls")

    def source(self, name: str) -> None:
        """The kind of input is known: its wait gets that name."""
        self.data = self._tree.node(self.root, "data", name)

    def compile(self, name: str) -> int:
        """The node of one kind of compilation."""
        return self._tree.node(self.root, "compile", name)

    def callback(self, phase: str, name: str, where: Place | None) -> int:
        """The node of one hook of one callback."""
        key = (phase, name, where)
        found = self.callbacks.get(key)
        if found is None:
            found = self.callbacks[key] = self._tree.node(self.root, phase, name, where)
        return found


def note_first(root: int, nanoseconds: int) -> None:
    """The first batch of an epoch was waited for so long."""
    row = recorder.first_waits.row(root)
    row[0] += nanoseconds
    row[1] += 1


class Waits(Protocol):
    """Finds the wait for data inside step calls that fetch their own batch."""

    begun: list[int]
    """When the step calls that are not settled yet began."""

    def began(self, now: int) -> None:
        """A step call begins; from now on the step owns the time."""

    def took(self, returned: list[int], owned: list[int], begun: list[int]) -> None:
        """Step calls have returned, when the step owned so much in all; those after them began at once, if told."""

    def room(self) -> int:
        """After how many more calls it has to be told of them."""

    def finish(self) -> None:
        """The input is at its end, or is left."""


class Call:
    """One running call; calls nest (validation in a fit, a predict in a callback)."""

    __slots__ = (
        "batch",
        "batch_size",
        "begun",
        "close",
        "contention",
        "dispatched",
        "each",
        "executions",
        "in_epoch",
        "kind",
        "model",
        "outer",
        "reading",
        "region",
        "resume",
        "root",
        "stations",
        "step_began",
        "stepping",
        "waits",
    )

    def __init__(
        self,
        kind: str,
        stations: Stations,
        ledger: Ledger,
        region: Region | None,
        model: Any,
    ) -> None:
        self.kind = kind
        self.stations = stations
        self.root = stations.root
        self.region = region
        self.outer: Call | None = ledger.call
        self.resume = ledger.node
        self.model = model
        self.begun = False
        self.in_epoch = False
        self.step_began = 0
        self.waits: Waits | None = None
        self.batch: Any = None
        """The batch of the running step, where it is at hand: it shows why a step is compiled again."""
        self.batch_size: int | None = None
        self.each = max(1, getattr(model, "steps_per_execution", 1) or 1)
        self.executions = 0
        """Steps of this epoch that are over, with `steps_per_execution` batches each."""
        self.reading = NOWHERE
        """The node that reading the logs of a step is charged to."""
        self.dispatched: Any = None
        """The steps that only Keras' pool of threads waits for, where there are such."""
        self.stepping: Any = None
        """What is told of the running epoch's steps (stepping.Stepping), if no callback has a hook before them."""
        self.contention: Any = None
        self.close: Callable[[], None] | None = None

    @property
    def top(self) -> Call:
        """The outermost call that this one runs in."""
        call = self
        while call.outer is not None:
            call = call.outer
        return call
