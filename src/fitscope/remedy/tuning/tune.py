"""`tune`: a tf.data pipeline made faster without its source, with the same elements."""

from __future__ import annotations

import numbers
import sys
from dataclasses import dataclass
from typing import Any

import psutil

from fitscope import words
from fitscope.model import Speedup

SHARE_OF_MEMORY = 0.25
"""Of the free memory, what a cache may take unless `memory` says otherwise."""


@dataclass(frozen=True)
class Tuning:
    """What `tune` did to a dataset and what that gained; `str()` says it in a few lines."""

    changes: tuple[str, ...]
    gain: Speedup | None
    """Times faster, measured without a model behind it; None where nothing was measured or nothing changed."""
    notes: tuple[str, ...] = ()
    """What was left as it is, and why."""

    def __str__(self) -> str:
        if not self.changes:
            head = "fitscope.tune: the dataset stays as it is"
        elif self.gain is None:
            head = "fitscope.tune: changed, not measured"
        else:
            head = f"fitscope.tune: the data come {words.speedup(self.gain)}"
        lines = [head, *(f"  {change}" for change in self.changes)]
        return "\n".join(lines + [f"  {note}" for note in self.notes[: max(1, 5 - len(lines))]])


def tune(dataset: Any, *, memory: int | None = None, seconds: float = 5.0, verbose: bool = True) -> Any:
    """Returns a tf.data.Dataset with the same elements as `dataset`, read faster where that is possible.

    Maps run in parallel, also random and Python ones; maps that compute each number by itself are called once for a
    batch; what is the same in every epoch is cached in memory, if it fits; files are read ahead; batches are
    prefetched. A change stays only if it gains in short measured passes over the first elements, which take about
    `seconds` in all. What was changed, what it gained and what was left alone is printed to stderr (unless `verbose`
    is False) and stands in the attribute `tuning` of the result. If nothing gains, `dataset` itself is returned.

    Elements, their order, `element_spec`, cardinality and options stay the same, bit for bit, wherever the pipeline
    is deterministic: a function with seeded random numbers (also by `tf.random.set_seed` or
    `keras.utils.set_random_seed`) or with a state is called in turn, as before. Random numbers without a seed are
    drawn from the same distribution. Nothing random is ever cached, nor a Python function, which might be random, nor
    a generator. A pipeline that starts with `from_generator` is not read at all, for a generator may be of use only
    once; it gets, unmeasured, what cannot fail to gain: maps with random numbers in parallel, and a prefetch where
    TensorFlow would not add one.

    A Python function (`py_function`, `numpy_function`) must be safe to be called by several threads at once. `memory`
    is what a cache may take in bytes, 0 for none; if it is not given, a quarter of the free memory. Where TensorFlow
    does not know how many elements there are, they are counted, or estimated from the first ones, and of an endless
    dataset only the part that ends is cached. A cache pays from the second epoch on, and keeps what was read in the
    first: call `tune` again if the files change.

    >>> import fitscope
    >>> import tensorflow as tf
    >>> numbers = tf.data.Dataset.range(1000).map(lambda n: tf.cast(n, tf.float32) / 10).batch(100)
    >>> tuned = fitscope.tune(numbers, seconds=1, verbose=False)
    >>> bool(tf.reduce_all(next(iter(tuned)) == next(iter(numbers))))
    True
    >>> isinstance(tuned.tuning.changes, tuple)
    True
    """
    tf = sys.modules.get("tensorflow")
    if tf is None or not isinstance(dataset, tf.data.Dataset):
        raise TypeError(f"tune() takes a tf.data.Dataset, not {type(dataset).__name__}.")
    if memory is not None and not (_is_number(memory) and memory >= 0):
        raise ValueError(f"tune(): memory is a number of bytes, 0 or more, not {memory!r}.")
    if not (_is_number(seconds) and seconds > 0):
        raise ValueError(f"tune(): seconds is a positive number, not {seconds!r}.")
    if not tf.executing_eagerly():
        raise ValueError("tune() measures the dataset, which is not possible inside a tf.function: call it before.")
    budget = psutil.virtual_memory().available * SHARE_OF_MEMORY if memory is None else memory
    from fitscope.remedy.tuning.search import Search

    search = Search(dataset, budget, seconds)
    tuned = search.run()
    changes = tuple(change for change in search.changes.values() if change)
    tuned.tuning = tuning = Tuning(changes, search.gain, tuple(search.notes))
    if verbose:
        print(tuning, file=sys.stderr)
    return tuned


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
