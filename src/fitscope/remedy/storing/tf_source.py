"""A tf.data pipeline as the source of a store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from fitscope.remedy.storing import prefix
from fitscope.remedy.storing.cuts import SAMPLE_MOST, SAMPLE_SECONDS, Asked, Block, Cut, same, size_of
from fitscope.remedy.storing.elements import Layout, Leaf, StoreError, layout_of
from fitscope.remedy.storing.fingerprint import Fingerprint
from fitscope.remedy.storing.stacking import Remainder, reader, remainder_of

ROWS = 64
"""Elements that are fetched at once where their shapes are known."""


class TfSource:
    """A tf.data pipeline: cut behind any of its deterministic stages."""

    def __init__(self, dataset: Any, asked: Asked) -> None:
        self._asked = asked
        self._chain = prefix.walk(dataset)
        # Before anything runs: a function may change what it refers to.
        self._fingerprints = prefix.fingerprints(self._chain, asked.store, asked.inputs)
        self._end_at_python()
        self._lengths = {cut: int(reader(self._chain, cut).cardinality()) for cut in self._chain.cuts}
        known = [cut for cut in self._chain.cuts if self._lengths[cut] >= 0]
        working = [cut for cut in self._chain.cuts if self._chain.works(cut)]
        if not known or (working and not set(working) & set(known)):
            size = "an infinite" if self._lengths[self._chain.cuts[-1]] == -1 else "an unknown"
            raise StoreError(
                f"The dataset has {size} number of elements: say it with "
                "dataset.apply(tf.data.experimental.assert_cardinality(n)), before any shuffle, repeat or batch."
            )
        if self._lengths[known[-1]] == 0:
            raise StoreError("The dataset is empty: there is nothing to store.")
        self._cuts = [cut for cut in known if cut in working]
        if not self._cuts:
            why = self._chain.stopped or "it has no map"
            raise StoreError(f"There is no preprocessing to store in this pipeline: {why}.")
        remainder_of(self._chain, self._cuts[-1])

    def _end_at_python(self) -> None:
        """Ends the prefix before the first stage whose Python code may give other results when it runs again."""
        chain = self._chain
        for stage in chain.source:
            why = self._objection(0, stage)
            if why:
                raise StoreError(f"Nothing of this pipeline can be stored: already in its source, {why}.")
        for number, stage in enumerate(chain.stages[: chain.cuts[-1]], 1):
            why = self._objection(number, stage)
            if why:
                chain.end(number, why)
                return

    def _objection(self, number: int, stage: prefix.Stage) -> str | None:
        if not stage.nature.python or self._asked.deterministic is True:
            return None
        if self._asked.settled is not None and number <= self._asked.settled:
            return None
        if self._asked.deterministic is False:
            return f"{stage.name} calls Python code that is not deterministic"
        seen = Fingerprint(self._asked.store)
        for function in stage.nature.python:
            seen.add(function)
        if seen.drawing:
            return (
                f"{stage.name} calls Python code that seems to draw at random ({', '.join(sorted(seen.drawing))}); "
                "pass deterministic=True if its results never differ"
            )
        return None if _repeats(reader(self._chain, number)) else f"{stage.name} gives other results when run again"

    @property
    def batch_size(self) -> int | None:
        return None

    @property
    def stopped(self) -> str:
        if self._chain.cuts[-1] != self._cuts[-1]:
            return "the number of elements is not known after it"
        return self._chain.stopped

    def cuts(self) -> list[Cut]:
        found: list[Cut] = []
        count = SAMPLE_MOST
        for cut in reversed(self._cuts):
            dataset = reader(self._chain, cut)
            layout = _layout(dataset.element_spec)
            if layout is None or not self._can_serve(cut):
                continue
            count, size = _sampled(dataset, layout, count)
            seconds = min(_timed(dataset, count) for _ in range(2))
            name = self._chain.stages[cut - 1].name if cut else self._chain.source[0].name
            found.insert(0, Cut(cut, name, layout, self._lengths[cut], size, seconds))
        if not found:
            raise StoreError(
                "The elements hold sparse or ragged tensors, or some of unknown rank, which a store cannot keep: "
                "make them dense."
            )
        return found

    def _can_serve(self, cut: int) -> bool:
        try:
            remainder_of(self._chain, cut)
        except StoreError:
            return False
        return True

    def fingerprint(self, cut: int) -> Fingerprint | None:
        return self._fingerprints.get(cut)

    def blocks(self, cut: int, layout: Layout, start: int) -> Iterator[Block]:
        dataset = reader(self._chain, cut, start, parallel=self._asked.workers != 1)
        if any(None in leaf.static for leaf in layout.leaves):
            for element in dataset.prefetch(2):
                yield 1, [[value] for value in layout.flatten(element)]
        else:
            for batch in dataset.batch(ROWS).prefetch(2):
                columns = [value.numpy() for value in layout.flatten(batch)]
                yield len(columns[0]), columns

    def remainder(self, cut: int) -> Remainder:
        return remainder_of(self._chain, cut)


def _sampled(dataset: Any, layout: Layout, most: int) -> tuple[int, float]:
    """How many elements are made in the time for a sample, and the bytes of one."""
    sizes = []
    began = time.perf_counter()
    for element in dataset.take(most):
        sizes.append(size_of(layout, element))
        if time.perf_counter() - began > SAMPLE_SECONDS:
            break
    if not sizes:
        raise StoreError("The dataset announced elements and gave none: correct its length.")
    return len(sizes), float(np.mean(sizes))


def _timed(dataset: Any, count: int) -> float:
    """Seconds for one element, one after the other, without the price of handing it to Python."""
    began = time.perf_counter()
    dataset.take(count).reduce(np.int64(0), lambda total, *_: total + 1)
    return (time.perf_counter() - began) / count


def _repeats(dataset: Any) -> bool:
    """Whether a sample of the elements is the same when it is made twice."""
    began = time.perf_counter()
    first: list[list[Any]] = []
    for element in dataset.take(SAMPLE_MOST):
        first.append(_arrays(element))
        if time.perf_counter() - began > SAMPLE_SECONDS and len(first) >= 4:
            break
    return all(map(same, first, map(_arrays, dataset.take(len(first)))))


def _arrays(element: Any) -> list[Any]:
    import tensorflow as tf

    found = []
    for each in tf.nest.flatten(element, expand_composites=True):
        text = each.dtype == tf.string
        found.append(np.asarray(each.numpy(), dtype=object if text else None))
    return found


def _layout(spec: Any) -> Layout | None:
    """The layout of elements of this spec; None where a leaf is not a dense tensor of known rank."""
    import tensorflow as tf

    flat = tf.nest.flatten(spec)
    if not all(isinstance(each, tf.TensorSpec) and each.shape.rank is not None for each in flat):
        return None
    structure = layout_of(tf.nest.map_structure(lambda each: np.zeros(0), spec)).structure
    leaves = []
    for each in Layout(structure, ()).flatten(spec):
        text = each.dtype == tf.string
        dtype = "uint8" if text else np.dtype(each.dtype.as_numpy_dtype).name
        leaves.append(Leaf("texts of bytes" if text else "array", dtype, tuple(each.shape.as_list())))
    return Layout(structure, tuple(leaves))
