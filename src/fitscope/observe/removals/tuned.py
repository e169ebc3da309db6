"""A pipeline that went through `fitscope.tune`, in place of the one that the training was given."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from fitscope.observe.removals.replay import Replay

SECONDS = 4.0
"""That tuning may take."""


class Tuned(Replay):
    """Epochs that read a tuned pipeline; it is made once, when it is first needed."""

    def items(self, epochs: Any, original: Any) -> Iterator[Any]:
        """The batches of an epoch, from the pipeline as it is or from the tuned one."""
        if not self.stretches.removed:
            yield from super().items(epochs, original)
            return
        if self._batches is None:
            # By name: remedies need more than the standard library, and are loaded only beside TensorFlow.
            remedy: Any = importlib.import_module("fitscope.remedy.tuning.tune")
            self._batches = remedy.tune(epochs.data_adapter._dataset, seconds=SECONDS, verbose=False)
        epochs._current_iterator = None
        iterator = iter(self._batches)
        each = epochs.steps_per_execution
        for step in range(0, epochs.num_batches or self._steps, each):
            yield step, step + each - 1, iterator
