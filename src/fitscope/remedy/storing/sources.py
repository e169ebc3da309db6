"""Kinds of dataset a store can be made of; this is the one that gives examples or batches by index."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from fitscope import words
from fitscope.remedy.loading.batches import Items
from fitscope.remedy.loading.choice import Chooser
from fitscope.remedy.loading.lanes import Crew, processors
from fitscope.remedy.loading.passes import Pass
from fitscope.remedy.loading.workers import UnusableError
from fitscope.remedy.storing.cuts import SAMPLE_MOST, SAMPLE_SECONDS, Asked, Block, Cut, Source, same, size_of
from fitscope.remedy.storing.elements import DatasetError, Layout, Leaf, StoreError, array_of, layout_of
from fitscope.remedy.storing.fingerprint import Fingerprint

RUN_SECONDS = 0.02
MOST_IN_RUN = 64
"""Items are made in runs of about so much time, and not more items than that."""


def source_of(dataset: Any, asked: Asked) -> Source:
    """Recognizes the kind of a dataset."""
    tf, torch, keras = (sys.modules.get(name) for name in ("tensorflow", "torch", "keras"))
    name = type(dataset).__name__
    if tf is not None and isinstance(dataset, tf.data.Dataset):
        from fitscope.remedy.storing.tf_source import TfSource

        return TfSource(dataset, asked)
    if torch is not None and isinstance(dataset, torch.utils.data.DataLoader | torch.utils.data.IterableDataset):
        raise DatasetError(
            f"{name} has no examples by index: give the map-style Dataset (for a DataLoader, its .dataset)."
        )
    batched = keras is not None and isinstance(dataset, keras.utils.PyDataset)
    if batched and hasattr(dataset, "__len__") and dataset.num_batches is None:
        raise StoreError(f"{name} has an infinite number of batches: give it a length.")
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise DatasetError(
            "materialize takes a tf.data.Dataset, a PyDataset, a torch Dataset or an object with __len__ and "
            f"__getitem__, not {name}: its size must be known and its elements must be found by index."
        )
    return IndexedSource(dataset, asked, batched)


class Runs(Items):
    """Some items after each other, so that making them together takes longer than handing them over."""

    asker = "fitscope.materialize"

    def __init__(self, items: Any, numbers: range, size: int) -> None:
        super().__init__(items)
        self.numbers = numbers
        self.size = min(max(1, size), MOST_IN_RUN)

    def __len__(self) -> int:
        return -(-len(self.numbers) // self.size)

    def batch(self, index: int) -> list[Any]:
        return [self.items[number] for number in self._run(index)]

    def named(self, index: int) -> str:
        run = self._run(index)
        return f"item {run[0]}" if len(run) == 1 else f"one of the items {run[0]} to {run[-1]}"

    def _run(self, index: int) -> range:
        return self.numbers[index * self.size : (index + 1) * self.size]


def backend_in_use() -> str:
    """Keras' backend, for the worker processes, if Keras is there at all."""
    keras = sys.modules.get("keras")
    return str(keras.config.backend()) if keras is not None else os.environ.get("KERAS_BACKEND", "")


class IndexedSource:
    """A PyDataset of batches, or a sequence or torch Dataset of examples: stored as it gives them, uncut."""

    def __init__(self, dataset: Any, asked: Asked, batched: bool) -> None:
        self._dataset, self._asked, self._batched = dataset, asked, batched
        self._name = type(dataset).__name__
        self._count = len(dataset)
        if self._count == 0:
            raise StoreError(f"{self._name} is empty: there is nothing to store.")
        self._fingerprint = Fingerprint(asked.store)
        self._fingerprint.add(dataset)
        self._fingerprint.note("items", self._count)
        for path in asked.inputs:
            self._fingerprint.file(str(path))
        if asked.settled is None:
            self._refuse_random()

    def _refuse_random(self) -> None:
        if self._asked.deterministic is False:
            raise StoreError(f"{self._name} is not deterministic: a store would freeze what is random in it.")
        drawing = ", ".join(sorted(self._fingerprint.drawing))
        if self._asked.deterministic is None and drawing and not isinstance(self._dataset, list | tuple):
            raise StoreError(
                f"{self._name} seems to draw at random ({drawing}), and a store would freeze that: move it out "
                "(store.as_pydataset and as_torch take augment=), or pass deterministic=True if its elements never "
                "differ."
            )

    @functools.cached_property
    def _first(self) -> Any:
        return self._dataset[0]

    @functools.cached_property
    def _rows(self) -> int:
        """Examples in an item."""
        return self._rows_of(self._first) if self._batched else 1

    def _rows_of(self, batch: Any) -> int:
        layout = layout_of(batch)
        leaves = zip(layout.leaves, layout.flatten(batch), strict=True)
        sizes = {len(value) if leaf.static else 0 for leaf, value in leaves}
        if len(sizes) != 1 or sizes == {0}:
            raise StoreError(f"The arrays of a batch of {self._name} do not have one common length: give them one.")
        return sizes.pop()

    @property
    def batch_size(self) -> int | None:
        return self._rows if self._batched else None

    @property
    def stopped(self) -> str:
        return ""

    def fingerprint(self, cut: int) -> Fingerprint:
        return self._fingerprint

    def remainder(self, cut: int) -> None:
        return None

    def cuts(self) -> list[Cut]:
        numbers = np.unique(np.linspace(0, self._count - 1, min(self._count, SAMPLE_MOST), dtype=int)).tolist()
        began = time.perf_counter()
        sample = []
        for number in numbers:
            sample.append(self._dataset[number])
            if time.perf_counter() - began > SAMPLE_SECONDS and len(sample) >= 4:
                break
        spent = time.perf_counter() - began
        if self._asked.deterministic is None:
            self._compare(numbers[: len(sample)], sample)
        last = self._rows_of(self._dataset[self._count - 1]) if self._batched else 1
        length = (self._count - 1) * self._rows + last
        size = sum(size_of(layout_of(item), item) for item in sample) / len(sample) / self._rows
        return [Cut(1, self._name, self._layout(), length, size, spent / len(sample) / self._rows)]

    def _compare(self, numbers: list[int], sample: list[Any]) -> None:
        """Makes a sample again, this time in threads, as it may be going to be made."""
        for number, first, second in zip(numbers, sample, self._in_threads(numbers), strict=True):
            layout = layout_of(first)
            arrays = [list(map(array_of, layout.leaves, layout.flatten(item))) for item in (first, second)]
            if not same(*arrays):
                raise StoreError(
                    f"{self._name}[{number}] gives other values when it is asked for again, and a store would freeze "
                    "them: move what is random out of it (store.as_pydataset and as_torch take augment=), or, if it "
                    "is only not safe in threads, pass workers=1."
                )

    def _layout(self) -> Layout:
        """Of an example; of its shapes only the ranks are known."""
        layout = layout_of(self._first)
        ranks = [leaf.rank - 1 if self._batched else leaf.rank for leaf in layout.leaves]
        leaves = [
            Leaf(leaf.kind, leaf.dtype, (None,) * rank) for leaf, rank in zip(layout.leaves, ranks, strict=True)
        ]
        return Layout(layout.structure, tuple(leaves))

    def _in_threads(self, numbers: Iterable[int]) -> Iterator[Any]:
        workers = self._asked.workers or processors()
        if workers == 1:
            return map(self._dataset.__getitem__, numbers)
        with ThreadPoolExecutor(workers, "fitscope-materialize") as pool:
            return iter(list(pool.map(self._dataset.__getitem__, numbers)))

    def _ordered(self, numbers: range) -> Iterator[Any]:
        """Makes items ahead, in threads or processes, whichever is faster, and gives them in order."""
        if self._asked.workers == 1:
            yield from map(self._dataset.__getitem__, numbers)
            return
        began = time.perf_counter()
        self._dataset[numbers[0]]
        runs = Runs(self._dataset, numbers, size=round(RUN_SECONDS / max(1e-6, time.perf_counter() - began)))
        crew = Crew(runs, backend_in_use(), seed=0, strict=False)
        try:
            crew.pack()
            chooser = Chooser(crew, self._asked.workers, exact=True)
        except UnusableError:  # it cannot go to another process, but a sample was made in threads
            chooser = Chooser(crew, self._asked.workers or processors(), processes=False)
        walk = Pass(range(len(runs)), 1)
        try:
            for position in range(len(runs)):
                yield from chooser.read(walk, position)
        finally:
            crew.close()

    def blocks(self, cut: int, layout: Layout, start: int) -> Iterator[Block]:
        numbers = range(start // self._rows, self._count)
        for number, item in zip(numbers, self._ordered(numbers), strict=True):
            leaves = layout.flatten(item)
            if not self._batched:
                yield 1, [[leaf] for leaf in leaves]
                continue
            rows = self._rows_of(item)
            if rows != self._rows and number != self._count - 1:
                raise StoreError(
                    f"Batch {number} of {self._name} has {words.count(rows, 'example')} where the first has "
                    f"{self._rows}: only the last may differ."
                )
            yield rows, leaves
