"""A store as the three kinds of dataset that `fit` and training loops take."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fitscope.remedy.storing.elements import dtype_of, tensor_of, value_of
from fitscope.remedy.storing.stacking import apply

if TYPE_CHECKING:
    from fitscope.remedy.storing.records import Store

BLOCK = 64
"""Elements that are read at once where the pipeline wants them one by one."""


def as_tf(store: Store) -> Any:
    """Reads by index, whole batches where that is what comes next, and without Python code except for texts."""
    import tensorflow as tf

    rest = store.remainder
    stages = list(rest.stages) if rest is not None else []
    indices = tf.data.Dataset.range(len(store))
    for stage in rest.order if rest is not None else ():
        indices = apply(indices, stage)
    columns = [_Mapped(store, number) for number in range(len(store.columns()))]
    if not all(column.stackable for column in columns):
        dataset = _read(indices, store, columns, one=True)
    elif stages and stages[0].kind in ("batch", "parallel batch"):
        dataset = _read(apply(indices, stages.pop(0)), store, columns)
    else:
        size = indices.cardinality()
        dataset = _read(indices.batch(BLOCK), store, columns).unbatch()
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(size))
    for stage in stages:
        dataset = apply(dataset, stage)
    return dataset if rest is None else dataset.with_options(rest.options)


def _read(indices: Any, store: Store, columns: list[_Mapped], one: bool = False) -> Any:
    """The elements, or whole batches of them, with these indices, in their order."""
    import tensorflow as tf

    def read(index: Any) -> Any:
        leaves = [column.one(index) if one else column.batch(index) for column in columns]
        return store.plan.layout.pack(leaves, lists=tuple)

    convert = tf.autograph.experimental.do_not_convert
    return indices.map(convert(read), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


class _Mapped:
    """One leaf of all elements as a tensor over the mapped file: nothing is read before it is used."""

    def __init__(self, store: Store, number: int) -> None:
        import tensorflow as tf

        self.column = store.columns()[number]
        self.stackable = self.column.shape is not None
        path = functools.partial(_path, store, number)
        if self.column.leaf.is_text:
            self.dtype = tf.string
            return
        self.dtype = tf.as_dtype(dtype_of(self.column.leaf.dtype))
        # TensorFlow refuses a mapped file as truth values, because of the header in it.
        kept = tf.uint8 if self.dtype == tf.bool else self.dtype
        self.values = _tensor(path(), kept, self.column.values.size)
        if self.stackable:
            assert self.column.shape is not None
            self.values = tf.reshape(self.values, (len(store), *self.column.shape))
        else:
            assert self.column.starts is not None
            assert self.column.shapes is not None
            self.starts = _tensor(path("starts"), tf.int64, self.column.starts.size)
            shapes = _tensor(path("shapes"), tf.int64, self.column.shapes.size)
            self.shapes = tf.reshape(shapes, self.column.shapes.shape)

    def batch(self, indices: Any) -> Any:
        import tensorflow as tf

        if not self.column.leaf.is_text:
            return tf.cast(tf.gather(self.values, indices), self.dtype)
        found = tf.numpy_function(self.column.stacked, [indices], tf.string)
        assert self.column.shape is not None
        return tf.ensure_shape(found, (indices.shape[0], *self.column.shape))

    def one(self, index: Any) -> Any:
        import tensorflow as tf

        if self.column.leaf.is_text:
            found = tf.numpy_function(self.column.one, [index], tf.string)
        elif self.stackable:
            found = tf.cast(tf.gather(self.values, index), self.dtype)
        else:
            values = self.values[self.starts[index] : self.starts[index + 1]]
            found = tf.cast(tf.reshape(values, self.shapes[index]), self.dtype)
        return tf.ensure_shape(found, self.column.leaf.static if self.column.shape is None else self.column.shape)


def _path(store: Store, number: int, part: str = "") -> str:
    return str((store.folder / store.plan.file(number, part)).resolve())


def _tensor(path: str, dtype: Any, count: int) -> Any:
    """The values of a file as a tensor that TensorFlow maps into memory."""
    import tensorflow as tf

    from fitscope.remedy.storing.records import HEADER

    if count == 0:
        return tf.zeros((0,), dtype)
    before = HEADER // dtype.size
    with tf.device("CPU:0"):
        return tf.raw_ops.ImmutableConst(dtype=dtype, shape=[before + count], memory_region_name=path)[before:]


def as_pydataset(
    store: Store,
    batch_size: int | None,
    shuffle: bool,
    seed: int | None,
    augment: Callable[[Any], Any] | None,
    options: dict[str, Any],
) -> Any:
    """Batches for Keras; the order of an epoch is drawn when it begins."""
    size = batch_size if batch_size is not None else store.plan.batch_size or 32
    if size < 1:
        raise ValueError(f"batch_size must be at least 1, not {size}")
    _warn_of(store, augment)
    return _pydataset_class()(store, size, shuffle, seed, augment, options)


@functools.cache
def _pydataset_class() -> Any:
    """The class is made when it is first needed: importing fitscope must not import Keras."""
    import keras

    class StoreBatches(keras.utils.PyDataset):  # type: ignore[misc]
        """The batches of a store."""

        def __init__(
            self, store: Store, size: int, shuffle: bool, seed: int | None, augment: Any, options: dict[str, Any]
        ) -> None:
            super().__init__(**options)
            self._arguments = (store, size, shuffle, seed, augment, options)
            self.store, self.size, self.shuffle, self.augment = store, size, shuffle, augment
            self._random = np.random.default_rng(seed)
            self._lock = threading.Lock()
            self._order = np.arange(len(store))
            self.on_epoch_end()

        def __len__(self) -> int:
            return -(-len(self.store) // self.size)

        def __getitem__(self, index: int) -> Any:
            if not 0 <= index < len(self):
                raise IndexError(f"batch {index} is out of range: there are {len(self)}")
            with self._lock:
                order = self._order
            batch = self.store.batch(order[index * self.size : (index + 1) * self.size])
            return batch if self.augment is None else self.augment(batch)

        def on_epoch_end(self) -> None:
            if self.shuffle:
                with self._lock:
                    self._order = self._random.permutation(len(self.store))

        def __reduce__(self) -> tuple[Any, ...]:
            return _made_again, self._arguments

    return StoreBatches


def _made_again(*arguments: Any) -> Any:
    return _pydataset_class()(*arguments)


def as_torch(store: Store, augment: Callable[[Any], Any] | None) -> Any:
    """Examples for torch's DataLoader, also in its worker processes."""
    _warn_of(store, augment)
    return _torch_class()(store, augment)


@functools.cache
def _torch_class() -> Any:
    import torch

    class StoreExamples(torch.utils.data.Dataset):  # type: ignore[misc]
        """The examples of a store."""

        def __init__(self, store: Store, augment: Callable[[Any], Any] | None) -> None:
            self.store, self.augment = store, augment

        def __len__(self) -> int:
            return len(self.store)

        def __getitem__(self, index: int) -> Any:
            if not -len(self) <= index < len(self):
                raise IndexError(f"example {index} is out of range: there are {len(self)}")
            leaves = [_torch_leaf(column, index % len(self)) for column in self.store.columns()]
            example = self.store.plan.layout.pack(leaves)
            return example if self.augment is None else self.augment(example)

        def __reduce__(self) -> tuple[Any, ...]:
            return as_torch, (self.store, self.augment)

    return StoreExamples


def _torch_leaf(column: Any, index: int) -> Any:
    array = column.one(index)
    if column.leaf.kind == "array" and array.dtype.kind not in "SUmM":
        return tensor_of(column.leaf, array)
    return value_of(column.leaf, array)


def _warn_of(store: Store, augment: Callable[[Any], Any] | None) -> None:
    if store.remainder is not None and store.remainder.maps and augment is None:
        warnings.warn(
            f"the stored elements come without {', '.join(store.remainder.maps)}, which tf.data applied behind the "
            "stored part: pass augment= to do that here, or use as_tf()",
            UserWarning,
            stacklevel=4,
        )
