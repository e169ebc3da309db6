"""How much of the sequences that a model is given is padding, from a few rows of what is in memory anyway."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from fitscope.observe.recorder import recorder

ROWS = 256
"""Rows that are looked at of one array."""
BATCHES = 4
"""Batches that are looked at where data comes in batches."""
SHORTEST = 16
"""Shorter sequences are not worth a look."""
MOST_NUMBERS = 2_000_000

_seen: dict[tuple[int, int, bool], list[tuple[int, int]]] = {}
"""By region, length of the sequence and whether its positions hold features: where the content of each row is."""
_batches: dict[int, int] = {}


def given(root: int, data: Any) -> None:
    """Looks at the arrays, or the tensors at the beginning of a tf.data pipeline, that a training was given."""
    if root in _batches:
        return
    _batches[root] = BATCHES  # the batches of what was looked at as a whole need no look
    _look_at(root, lambda: _leaves(data) or _tensors_of(data))
    if not any(key[0] == root for key in _seen):
        _batches[root] = 0


def fetched(root: int, batch: Any) -> None:
    """Looks at one of the first batches, where data comes in batches."""
    if _batches.get(root, 0) < BATCHES:
        _batches[root] = _batches.get(root, 0) + 1
        _look_at(root, lambda: _leaves(batch[0] if isinstance(batch, list | tuple) and batch else batch))


def looped(root: int, item: Any) -> None:
    """Looks at what Keras' loop fetched: the first and the last step, and a list of batches."""
    batches = item[-1] if isinstance(item, tuple) and item else None
    if isinstance(batches, list) and batches:
        fetched(root, batches[0])


def _look_at(root: int, find: Callable[[], list[Any]]) -> None:
    try:
        for array in find():
            _look(root, array)
    except Exception:  # data of an unusual kind: what is padding in it stays unknown
        _batches[root] = BATCHES


def _leaves(data: Any, depth: int = 3) -> list[Any]:
    """The arrays in what was given as input: one, or several in a list or a dictionary."""
    if isinstance(data, list | tuple) and depth and len(data) <= 64:
        return [leaf for item in data for leaf in _leaves(item, depth - 1)]
    if isinstance(data, dict) and depth:
        return [leaf for item in data.values() for leaf in _leaves(item, depth - 1)]
    return [data] if hasattr(data, "shape") and hasattr(data, "dtype") else []


def _tensors_of(dataset: Any) -> list[Any]:
    """The tensors that a tf.data pipeline begins with, if `from_tensor_slices` was given some."""
    found: list[Any] = []
    pending = [dataset] if hasattr(dataset, "_inputs") else []
    for _ in range(50):
        if pending:
            stage = pending.pop()
            found += stage._tensors if type(stage).__name__ == "_TensorSliceDataset" else []
            pending += stage._inputs()
    return found


def _look(root: int, array: Any) -> None:
    """Where the content of each row begins and ends: what stands before or after is one and the same value."""
    shape = tuple(array.shape)
    if len(shape) not in (2, 3) or not all(isinstance(size, int) for size in shape):
        return
    rows, length = shape[:2]
    if rows < 2 or length < SHORTEST:
        return
    numpy: Any = sys.modules["numpy"]
    values = _values(numpy, array)
    if values is None or values.dtype.kind not in ("iu" if len(shape) == 2 else "iuf"):
        return
    found = min((_contents(numpy, values, end) for end in (-1, 0)), key=lambda each: sum(b - a for a, b in each))
    features = len(shape) == 3
    seen = _seen.setdefault((root, length, features), [])
    seen += found
    _note(root, length, features, seen)


def _values(numpy: Any, array: Any) -> Any:
    """Some rows of an array on the host, without a copy of the others; None for what is elsewhere."""
    library = type(array).__module__.partition(".")[0]
    if library not in ("jax", "jaxlib", "numpy", "tensorflow", "torch"):
        return None
    if library != "numpy" and "cpu" not in str(getattr(array, "device", "")).lower():
        return None
    if library.startswith("jax"):
        array = numpy.asarray(array)  # its own slices would be compiled
    rows = max(16, min(ROWS, MOST_NUMBERS // max(1, math.prod(array.shape[1:]))))
    some = array[:: max(1, array.shape[0] // rows)][:rows]
    return some if library in ("numpy", "jax", "jaxlib") else some.numpy()


def _contents(numpy: Any, values: Any, end: int) -> list[tuple[int, int]]:
    """First and last position of each row's content, if the padding is at one end: what most rows have there."""
    edge = values[:, end] if values.ndim == 2 else values[:, end].min(axis=-1)
    kinds, counts = numpy.unique(edge, return_counts=True)
    filled = values != kinds[counts.argmax()]
    if filled.ndim == 3:
        filled = filled.any(axis=-1)
    length, some = filled.shape[1], filled.any(axis=1)
    if end == 0:
        begins = numpy.where(some, filled.argmax(axis=1), length)
        return [(int(begin), length) for begin in begins]
    ends = numpy.where(some, length - filled[:, ::-1].argmax(axis=1), 0)
    return [(0, int(last)) for last in ends]


def _note(root: int, length: int, features: bool, seen: list[tuple[int, int]]) -> None:
    sizes = sorted(end - begin for begin, end in seen)
    recorder.fact(
        "padding",
        lasting=True,
        root=root,
        length=length,
        features=features,
        rows=len(sizes),
        mean=round(sum(sizes) / len(sizes), 1),
        most=sizes[-1],
        p95=sizes[math.ceil(0.95 * len(sizes)) - 1],
        side="before" if any(begin for begin, _ in seen) else "after",
    )
