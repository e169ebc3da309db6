"""Stages of a tf.data pipeline put on another dataset: of the prefix to make a store, of the rest to serve one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fitscope.remedy.storing.elements import StoreError
from fitscope.remedy.storing.prefix import MAPS, ORDER, Chain, Stage


def reader(chain: Chain, cut: int, start: int = 0, parallel: bool = False) -> Any:
    """The pipeline up to a cut without the stages that only change the order, from one element on.

    Maps run in parallel, in order; those that call Python only as the user had them, since they need not be safe in
    threads. On a resumption nothing is computed twice behind the last stage that changes the number of elements.
    """
    import tensorflow as tf

    stages = chain.stages[:cut]
    first = max((number for number, stage in enumerate(stages, 1) if stage.changes_length), default=0)
    dataset = stages[first - 1].dataset if first else chain.source[0].dataset
    if start:
        dataset = dataset.skip(start)
    for stage in stages[first:]:
        if stage.kind in MAPS:
            calls = tf.data.AUTOTUNE if parallel and not stage.nature.python else None
            if stage.nature.python and stage.kind == "parallel map":
                calls = int(stage.dataset._num_parallel_calls)
            dataset = _mapped(dataset, stage, calls, "true")
    options = tf.data.Options()
    options.deterministic = True
    return dataset.with_options(options)


@dataclass(frozen=True)
class Remainder:
    """What is left of a pipeline when its first stages are stored."""

    order: tuple[Stage, ...]
    """Shuffles and repeats: they are applied to indices."""
    stages: tuple[Stage, ...]
    options: Any

    @property
    def maps(self) -> tuple[str, ...]:
        """The stages that change elements, by name."""
        return tuple(stage.name for stage in self.stages if stage.wrapper is not None)


def remainder_of(chain: Chain, cut: int) -> Remainder:
    """What goes on top of a store that was cut there; refuses stages that cannot be put there."""
    order = [stage for stage in chain.stages[:cut] if stage.kind in ORDER]
    stages = [stage for stage in chain.stages[cut:] if stage.kind != "options"]
    for stage in stages:
        if stage.kind not in _APPLY:
            raise StoreError(
                f"fitscope cannot put {stage.name} on top of a store: materialize the dataset before that stage, and "
                "apply it to store.as_tf() yourself."
            )
    while stages:
        if stages[0].kind in ORDER:
            order.append(stages.pop(0))
        elif stages[0].kind == "cache" and not order:
            stages.pop(0)  # The store is one.
        elif stages[0].kind == "prefetch" and len(stages) > 1:
            stages.pop(0)  # Between a store and what reads from it there is nothing to wait for.
        else:
            break
    return Remainder(tuple(order), tuple(stages), chain.dataset.options())


def apply(dataset: Any, stage: Stage) -> Any:
    """Puts a stage on top of another dataset, with the settings it had."""
    return _APPLY[stage.kind](dataset, stage, stage.dataset)


_FLAGS = {"true": True, "false": False}

_APPLY: dict[str, Callable[[Any, Stage, Any], Any]] = {
    "map": lambda dataset, stage, old: _mapped(dataset, stage, None),
    "parallel map": lambda dataset, stage, old: _mapped(
        dataset, stage, int(old._num_parallel_calls), old._deterministic
    ),
    "filter": lambda dataset, stage, old: dataset.filter(_function(stage)),
    "flat_map": lambda dataset, stage, old: dataset.flat_map(_function(stage)),
    "interleave": lambda dataset, stage, old: dataset.interleave(
        _function(stage), int(old._cycle_length), int(old._block_length)
    ),
    "parallel interleave": lambda dataset, stage, old: dataset.interleave(
        _function(stage),
        int(old._cycle_length),
        int(old._block_length),
        num_parallel_calls=int(old._num_parallel_calls),
        deterministic=_FLAGS.get(getattr(old, "_deterministic", "default")),
    ),
    "shuffle": lambda dataset, stage, old: _shuffled(dataset, old),
    "repeat": lambda dataset, stage, old: dataset.repeat(int(old._count)),
    "take": lambda dataset, stage, old: dataset.take(int(old._count)),
    "skip": lambda dataset, stage, old: dataset.skip(int(old._count)),
    "shard": lambda dataset, stage, old: dataset.shard(int(old._num_shards), int(old._index)),
    "prefetch": lambda dataset, stage, old: dataset.prefetch(int(old._buffer_size)),
    "cache": lambda dataset, stage, old: dataset.cache(old._filename.numpy().decode()),
    "unbatch": lambda dataset, stage, old: dataset.unbatch(),
    "batch": lambda dataset, stage, old: dataset.batch(
        int(old._batch_size), drop_remainder=bool(old._drop_remainder)
    ),
    "parallel batch": lambda dataset, stage, old: dataset.batch(
        int(old._batch_size),
        drop_remainder=bool(old._drop_remainder),
        num_parallel_calls=int(old._num_parallel_calls),
        deterministic=_FLAGS.get(old._deterministic),
    ),
    "padded batch": lambda dataset, stage, old: dataset.padded_batch(
        int(old._batch_size), old._padded_shapes, old._padding_values, drop_remainder=bool(old._drop_remainder)
    ),
    "assert_cardinality": lambda dataset, stage, old: _asserted(dataset, int(old._expected_cardinality)),
}


def _mapped(dataset: Any, stage: Stage, calls: int | None, deterministic: str = "default") -> Any:
    if calls is None:
        return dataset.map(_function(stage))
    return dataset.map(_function(stage), num_parallel_calls=calls, deterministic=_FLAGS.get(deterministic))


def _asserted(dataset: Any, size: int) -> Any:
    import tensorflow as tf

    return dataset.apply(tf.data.experimental.assert_cardinality(size))


def _function(stage: Stage) -> Any:
    """Calls the function of a stage as it was traced: the user's Python does not run again."""
    import tensorflow as tf
    from tensorflow.python.data.util import structure

    wrapper = stage.wrapper

    def call(*arguments: Any) -> Any:
        spec = wrapper._input_structure
        whole = arguments if isinstance(spec, tuple) else arguments[0]
        flat = wrapper.function(*structure.to_tensor_list(spec, whole))
        return structure.from_compatible_tensor_list(wrapper.output_structure, flat)

    return tf.autograph.experimental.do_not_convert(call)


def _shuffled(dataset: Any, old: Any) -> Any:
    """A shuffle with the two seeds that the old one had; the public method would draw new ones."""
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.ops import gen_dataset_ops

    new = copy.copy(old)
    new._input_dataset = dataset
    variant = gen_dataset_ops.shuffle_dataset_v3(
        dataset._variant_tensor,
        buffer_size=old._buffer_size,
        seed=old._seed,
        seed2=old._seed2,
        seed_generator=gen_dataset_ops.dummy_seed_generator(),
        reshuffle_each_iteration=old._reshuffle_each_iteration,
        **new._common_args,
    )
    dataset_ops.UnaryUnchangedStructureDataset.__init__(new, dataset, variant)
    return new
