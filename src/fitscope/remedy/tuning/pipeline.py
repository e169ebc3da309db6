"""A tf.data pipeline as a tree of stages: read from its datasets, changed, and built again.

A stage is built again from the function that TensorFlow has traced already: no code of the user runs for it, and the
seeds that were drawn for it stay what they are. A dataset of a kind that is not known here is kept as it is, with all
below it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.ops import gen_dataset_ops

KEPT = "kept"

_KINDS = {
    "_MapDataset": "map",
    "_ParallelMapDataset": "map",
    "_FilterDataset": "filter",
    "_FlatMapDataset": "flat_map",
    "_InterleaveDataset": "interleave",
    "_BatchDataset": "batch",
    "_ParallelBatchDataset": "batch",
    "_PaddedBatchDataset": "padded_batch",
    "_UnbatchDataset": "unbatch",
    "_ShuffleDataset": "shuffle",
    "CacheDataset": "cache",
    "_PrefetchDataset": "prefetch",
    "_RepeatDataset": "repeat",
    "_TakeDataset": "take",
    "_SkipDataset": "skip",
    "_ShardDataset": "shard",
    "_OptionsDataset": "options",
    "_ZipDataset": "zip",
    "_ConcatenateDataset": "concatenate",
}

_READERS = ("TFRecordDatasetV2", "TextLineDatasetV2", "FixedLengthRecordDatasetV2")


@dataclass(frozen=True, eq=False)
class Stage:
    """One step of a pipeline: a dataset of the user's (`made`), what was changed in it, and what it reads from."""

    kind: str
    made: Any
    inputs: tuple[Stage, ...] = ()
    calls: int | None = None
    """Parallel calls, where they are set here and not by the user."""
    wide: bool = False
    """Whether the calls may use more threads than there are cores: for functions that wait."""
    ordered: bool = True
    size: int | None = None
    """Elements: of a `take`, or of a shuffle whose buffer is cut."""
    seed: int | None = None
    function: Callable[..., Any] | None = None
    """The function of a map that is not the user's own one."""

    @property
    def source(self) -> Stage:
        """The only stage that this one reads from."""
        return self.inputs[0]

    @property
    def parallel(self) -> int | None:
        """Parallel calls, by whomever; -1 is AUTOTUNE."""
        if self.calls is not None:
            return self.calls
        calls = getattr(self.made, "_num_parallel_calls", None)
        return None if calls is None else int(calls)

    @property
    def wrapper(self) -> Any:
        """The traced function of the user's that belongs to it, or None."""
        if self.function is not None:
            return None
        return getattr(self.made, "_map_func", None) or getattr(self.made, "_predicate", None)


def read(dataset: Any) -> Stage:
    """The stages of a dataset, down to the ones that cannot be built again."""
    name = type(dataset).__name__
    ours = type(dataset).__module__.startswith("tensorflow.python.data.")
    if ours and name in _READERS and type(getattr(dataset, "_impl", None)).__name__ in _KINDS:
        return read(dataset._impl)
    kind = _KINDS.get(name) if ours else None
    if kind is None or writes_files(dataset) or is_generator(dataset):
        return Stage(KEPT, dataset)
    return Stage(kind, dataset, tuple(read(each) for each in dataset._inputs()))


def writes_files(dataset: Any) -> bool:
    """Whether this is a cache on disk."""
    return type(dataset).__name__ == "CacheDataset" and dataset._filename.numpy() != b""


def is_generator(dataset: Any) -> bool:
    """Whether this is `Dataset.from_generator`: a Python generator behind a flat_map."""
    if type(dataset).__name__ != "_FlatMapDataset":
        return False
    operations = dataset._map_func.function.graph.get_operations()
    return any(operation.type == "GeneratorDataset" for operation in operations)


def stages(stage: Stage) -> Iterator[Stage]:
    """All stages, last first."""
    yield stage
    for each in stage.inputs:
        yield from stages(each)


def datasets(dataset: Any) -> Iterator[Any]:
    """A dataset and all that it reads from, also where they are kept as they are."""
    yield dataset
    names = getattr(dataset, "_filenames", None)
    below = list(dataset._inputs())
    if isinstance(names, tf.data.Dataset) and not below:
        below = [names]
    for each in below:
        yield from datasets(each)


def change(stage: Stage, edit: Callable[[Stage], Stage]) -> Stage:
    """The same pipeline with every stage put through `edit`, sources first."""
    inputs = tuple(change(each, edit) for each in stage.inputs)
    same = all(new is old for new, old in zip(inputs, stage.inputs, strict=True))
    return edit(stage if same else replace(stage, inputs=inputs))


def build(stage: Stage) -> Any:
    """The dataset that these stages describe, with caches and shuffles of its own."""
    if stage.kind == KEPT:
        return stage.made
    return _BUILDERS[stage.kind](stage, *(build(each) for each in stage.inputs))


def _finish(stage: Stage, kind: Any, source: Any, operation: Any, *inputs: Any, **settings: Any) -> Any:
    """A dataset of TensorFlow's own class, around an operation with these inputs and settings."""
    new = kind.__new__(kind)
    new.__dict__.update(stage.made.__dict__)
    new.__dict__.update({"_input_dataset": source, **settings.pop("attributes", {})})
    known = inspect.signature(operation).parameters
    settings = {name: value for name, value in settings.items() if name in known}
    variant = operation(source._variant_tensor, *inputs, **settings, **new._common_args)
    dataset_ops.UnaryDataset.__init__(new, source, variant)
    return new


def _map(stage: Stage, source: Any) -> Any:
    from tensorflow.python.data.ops import map_op

    order = "true" if stage.ordered else "default"
    if stage.function is not None:
        calls = {} if stage.calls is None else {"num_parallel_calls": stage.calls, "deterministic": stage.ordered}
        return source.map(stage.function, **calls)
    made, function = stage.made, stage.made._map_func.function
    settings: dict[str, Any] = {
        "f": function,
        "use_inter_op_parallelism": made._use_inter_op_parallelism,
        "preserve_cardinality": made._preserve_cardinality,
    }
    if stage.parallel is None:
        settings["force_synchronous"] = getattr(made, "_force_synchronous", False)
        return _finish(stage, type(made), source, gen_dataset_ops.map_dataset, function.captured_inputs, **settings)
    if stage.calls is not None:
        attributes = {
            "_num_parallel_calls": tf.constant(stage.calls, tf.int64),
            "_deterministic": order if not hasattr(made, "_deterministic") else made._deterministic,
            "_use_unbounded_threadpool": stage.wide,
        }
    else:
        attributes = {name: made.__dict__[name] for name in ("_num_parallel_calls", "_deterministic")}
        attributes["_use_unbounded_threadpool"] = getattr(made, "_use_unbounded_threadpool", False)
    settings.update({name[1:]: value for name, value in attributes.items()})
    operation = gen_dataset_ops.parallel_map_dataset_v2
    kind = map_op._ParallelMapDataset
    return _finish(stage, kind, source, operation, function.captured_inputs, attributes=attributes, **settings)


def _filter(stage: Stage, source: Any) -> Any:
    function = stage.made._predicate.function
    operation = gen_dataset_ops.filter_dataset
    return _finish(stage, type(stage.made), source, operation, function.captured_inputs, predicate=function)


def _spread(stage: Stage, source: Any) -> Any:
    """A flat_map or an interleave; the first one is the second with a cycle of one."""
    from tensorflow.python.data.ops import interleave_op

    made, function = stage.made, stage.made._map_func.function
    flat = stage.kind == "flat_map"
    cycle = [] if flat else [made._cycle_length, made._block_length]
    if stage.parallel is None:
        operation = gen_dataset_ops.flat_map_dataset if flat else gen_dataset_ops.interleave_dataset
        return _finish(stage, type(made), source, operation, function.captured_inputs, *cycle, f=function)
    automatic = tf.constant(tf.data.AUTOTUNE, tf.int64)
    one = tf.constant(1, tf.int64)
    calls = stage.parallel
    attributes = {
        "_cycle_length": one if flat else made._cycle_length,
        "_block_length": one if flat else made._block_length,
        "_buffer_output_elements": getattr(made, "_buffer_output_elements", automatic),
        "_prefetch_input_elements": getattr(made, "_prefetch_input_elements", automatic),
        "_num_parallel_calls": tf.constant(calls, tf.int64),
    }
    return _finish(
        stage,
        interleave_op._ParallelInterleaveDataset,
        source,
        gen_dataset_ops.parallel_interleave_dataset_v4,
        function.captured_inputs,
        *attributes.values(),
        f=function,
        deterministic="true" if stage.ordered else "default",
        attributes=attributes,
    )


def _batch(stage: Stage, source: Any) -> Any:
    made = stage.made
    if stage.parallel is None:
        return source.batch(made._batch_size, made._drop_remainder, name=made._name)
    order = {"true": True, "false": False}.get(made._deterministic)
    return source.batch(made._batch_size, made._drop_remainder, made._num_parallel_calls, order, name=made._name)


def _padded_batch(stage: Stage, source: Any) -> Any:
    made = stage.made
    return source.padded_batch(
        made._batch_size, made._padded_shapes, made._padding_values, made._drop_remainder, name=made._name
    )


def _unbatch(stage: Stage, source: Any) -> Any:
    from tensorflow.python.ops import gen_experimental_dataset_ops

    return _finish(stage, type(stage.made), source, gen_experimental_dataset_ops.unbatch_dataset)


def _shuffle(stage: Stage, source: Any) -> Any:
    made = stage.made
    settings = {
        "buffer_size": made._buffer_size if stage.size is None else tf.constant(stage.size, tf.int64),
        "seed": made._seed if stage.seed is None else tf.constant(stage.seed, tf.int64),
        "seed2": made._seed2 if stage.seed is None else tf.constant(stage.seed, tf.int64),
        "reshuffle_each_iteration": made._reshuffle_each_iteration,
        "seed_generator": gen_dataset_ops.dummy_seed_generator(),
    }
    return _finish(stage, type(made), source, gen_dataset_ops.shuffle_dataset_v3, **settings)


def _options(stage: Stage, source: Any) -> Any:
    return source.with_options(stage.made.options())


def _zip(stage: Stage, *sources: Any) -> Any:
    return tf.data.Dataset.zip(tf.nest.pack_sequence_as(stage.made._datasets, sources), name=stage.made._name)


_BUILDERS: dict[str, Callable[..., Any]] = {
    "map": _map,
    "filter": _filter,
    "flat_map": _spread,
    "interleave": _spread,
    "batch": _batch,
    "padded_batch": _padded_batch,
    "unbatch": _unbatch,
    "shuffle": _shuffle,
    "cache": lambda stage, source: source.cache(),
    "prefetch": lambda stage, source: source.prefetch(
        tf.data.AUTOTUNE if stage.made is None else int(stage.made._buffer_size)
    ),
    "repeat": lambda stage, source: source.repeat(stage.made._count, name=stage.made._name),
    "take": lambda stage, source: source.take(stage.made._count if stage.size is None else stage.size),
    "skip": lambda stage, source: source.skip(stage.made._count, name=stage.made._name),
    "shard": lambda stage, source: source.shard(stage.made._num_shards, stage.made._index, name=stage.made._name),
    "options": _options,
    "zip": _zip,
    "concatenate": lambda stage, first, second: first.concatenate(second, name=stage.made._name),
}
