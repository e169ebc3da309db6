"""What differs between the backends: one module each, with the same functions in the same order."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

from fitscope.observe.calls import Call, Waits
from fitscope.observe.ledger import Ledger
from fitscope.observe.seams import Seams

NAMES = ("tensorflow", "jax", "torch")


class Backend(Protocol):
    """The functions that each backend's module brings."""

    name: str
    fetches_before_step: bool
    """Whether the loop fetches the batch itself, before the batch-begin hooks."""

    def trainer_module(self) -> ModuleType:
        """The module of Keras that holds the trainer."""

    def trainer(self) -> Any:
        """The class whose `fit` every model inherits."""

    def epoch_iterator(self) -> Any:
        """The class that goes through the batches of an epoch."""

    def reading_waits(self) -> bool:
        """Whether turning logs into numbers waits for the device."""

    def waits(self, ledger: Ledger, call: Call, iterator: Any) -> Waits | None:
        """How the wait for data inside the step is found, where it happens there."""

    def hold(self, seams: Seams) -> None:
        """Holds what only this backend has: its input, its compiler."""

    def device(self) -> str:
        """The kind of device that trains: cpu, gpu, tpu, mps."""

    def evaluates(self) -> bool | None:
        """Whether what the user's code computes just now is surely no training; None where nothing tells."""

    def start_trace(self, folder: str) -> None:
        """Starts the backend's own profiler; raises if it cannot, or if somebody else uses it."""

    def stop_trace(self, folder: str) -> str:
        """Stops it; the name of the file that it wrote below the folder."""

    def mark(self, name: str) -> Any:
        """A context manager that marks what happens in it on the profiler's timeline."""

    def mark_step(self, number: int) -> Any:
        """The same for a step, as the tools that read the trace expect it."""

    def scope(self, name: str) -> Any:
        """A context manager: operations that are traced in it have its name in a profile, and their gradients do."""

    def repeat_step(
        self, model: Any, function: Any, arguments: tuple[Any, ...]
    ) -> tuple[Callable[[], None], Any, list[str]]:
        """From a call of the model's compiled step: the same on one batch, as often as wanted.

        Gives what makes one step and waits for its end, the batch, and what is different from the model's own step.
        """

    def compiling(self) -> Callable[[], bool]:
        """What tells whether a compiler goes through Python code just now that nothing of ours may be in."""

    def extent(self, traced: Any) -> int:
        """How far the trace of a step has come."""

    def cut(self, extent: int, given: tuple[Any, ...], variables: list[Any], batch_size: int | None) -> Any:
        """What a step that is being traced computes for some variables since then; None if it cannot be cut out."""


def load(name: str) -> Backend:
    """The module of a backend."""
    module: Any = importlib.import_module(f"fitscope.observe.backends.{name}")
    return module  # type: ignore[no-any-return]
