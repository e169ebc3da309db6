"""One batch, replayed from memory: the input is free, and the step cannot tell."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterator
from typing import Any

from fitscope.observe.backends import Backend
from fitscope.observe.removals.hooks import Nothing
from fitscope.observe.removals.stretches import Stretches
from fitscope.observe.seams import Seams


class Replay(Nothing):
    """Epochs without a pipeline: as many steps as the others have, on one and the same batch."""

    replaces_input = True

    def __init__(self, plan: dict[str, Any], stretches: Stretches) -> None:
        super().__init__(plan, stretches)
        self._backend = ""
        self._model: Any = None
        self._batches: Any = None
        self._steps = 0

    def hold(self, seams: Seams, backend: Backend) -> None:
        """Knows the backend; where an epoch does not count, nothing is validated."""
        self._backend = backend.name
        trainer = backend.trainer()
        asked = trainer._should_eval

        @functools.wraps(asked)
        def should_eval(model: Any, *args: Any, **kwargs: Any) -> Any:
            skipped = model is self._model and self.stretches.may_skip
            return not skipped and asked(model, *args, **kwargs)

        seams.replace(trainer, "_should_eval", should_eval)

    def begin(self, model: Any, callbacks: Any) -> None:
        """Knows its own."""
        self._model = model

    def items(self, epochs: Any, original: Any) -> Iterator[Any]:
        """The batches of an epoch: the pipeline's, or the one that is kept."""
        if not self.stretches.removed:
            seen = 0
            for item in original(epochs):
                seen = max(seen, item[1] + 1)
                self._steps = max(self._steps, seen)
                yield item
            return
        if self._batches is None:
            self._batches = self._kept(epochs)
        epochs._current_iterator = None  # a pipeline that nobody reads must not go on beside
        each = epochs.steps_per_execution
        for step in range(0, epochs.num_batches or self._steps, each):
            yield step, step + each - 1, self._batches

    def _kept(self, epochs: Any) -> Any:
        if epochs.steps_per_epoch and epochs._current_iterator is not None:
            batch = next(epochs._current_iterator)  # one that goes on from epoch to epoch: there may be no other
        else:
            epochs.data_adapter.on_epoch_begin()
            batch = next(iter(epochs._get_iterator()))
            epochs.data_adapter.on_epoch_end()
        return _dataset(epochs, batch) if self._backend == "tensorflow" else itertools.repeat(batch)


def _dataset(epochs: Any, batch: Any) -> Any:
    """An iterator over one batch with the same types as the pipeline's, so that no graph is traced anew."""
    tf: Any = sys.modules["tensorflow"]
    dataset = epochs._get_iterator()
    if not isinstance(dataset, tf.data.Dataset):
        raise RuntimeError("a batch cannot be replayed to several devices")
    from tensorflow.python.data.ops import dataset_ops

    repeated = tf.data.Dataset.from_tensors(batch).repeat()
    return iter(dataset_ops._VariantDataset(repeated._variant_tensor, dataset.element_spec))
