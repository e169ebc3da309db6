"""The changes that make a tf.data pipeline faster and leave its elements as they are: each a function of stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow as tf

from fitscope.remedy.tuning.elementwise import batched
from fitscope.remedy.tuning.nature import Nature, is_deterministic
from fitscope.remedy.tuning.pipeline import KEPT, Stage, change, datasets, stages

Look = Callable[[Stage], Nature]
"""What the function of a stage does."""

_SPREADS = ("flat_map", "interleave")
_MOVABLE = ("shuffle", "repeat", "prefetch")
"""Stages that do not look into their elements: a pure map gives the same before and after them."""


def trunk(plan: Stage) -> list[Stage]:
    """The stages in the order in which the data passes them, from the first one that is kept or has many inputs."""
    found = [plan]
    while found[-1].kind != KEPT and len(found[-1].inputs) == 1:
        found.append(found[-1].source)
    return found[::-1]


def join(line: list[Stage]) -> Stage:
    """The last of these stages, each reading from the one before."""
    plan = line[0]
    for stage in line[1:]:
        plan = stage if stage.inputs and stage.source is plan else replace(stage, inputs=(plan,))
    return plan


def parallel_maps(plan: Stage, look: Look, wide: int | None = None, python: bool = True) -> Stage:
    """Maps in parallel where that cannot change an element; if `wide`, those that wait with so many calls at once.

    Without `python`, those that call Python code stay as they are.
    """
    saved = {id(stage.wrapper) for stage in _below_cache(plan)}
    rewrites = _rewrites(next(stage.made for stage in stages(plan) if stage.made is not None).options())

    def edit(stage: Stage) -> Stage:
        if stage.kind != "map" or stage.wrapper is None or id(stage.wrapper) in saved:
            return stage
        if stage.parallel not in (None, tf.data.AUTOTUNE) and not stage.wide:
            return stage
        traits = look(stage)
        if traits.reason is not None or getattr(stage.made, "_force_synchronous", False):
            return stage
        if traits.python and not python:
            return stage
        if wide is not None:
            return replace(stage, calls=wide, wide=True) if traits.waits else stage
        if stage.parallel is not None or (traits.stateless and rewrites):
            return stage
        return replace(stage, calls=tf.data.AUTOTUNE)

    return change(plan, edit)


def _below_cache(plan: Stage) -> list[Stage]:
    """The stages that run in the first epoch only."""
    caches = [stage for stage in stages(plan) if stage.kind == "cache"]
    return [each for cache in caches for each in stages(cache)]


def _rewrites(options: Any) -> bool:
    """Whether TensorFlow makes maps parallel by itself, where it takes them for stateless."""
    rewrites = options.experimental_optimization
    switches = (options.autotune.enabled, rewrites.apply_default_optimizations, rewrites.map_parallelization)
    return not any(switch is False for switch in switches)


def parallel_reads(plan: Stage, look: Look) -> Stage:
    """Files (or what else a flat_map or interleave opens) read ahead, their elements in the same order."""
    saved = {id(stage.wrapper) for stage in _below_cache(plan)}

    def edit(stage: Stage) -> Stage:
        if stage.kind not in _SPREADS or stage.parallel is not None or id(stage.wrapper) in saved:
            return stage
        if not look(stage).pure:
            return stage
        if stage.kind == "interleave" and int(stage.made._cycle_length) < 1 and not _cycles_alike():
            return stage
        return replace(stage, calls=tf.data.AUTOTUNE)

    return change(plan, edit)


def _cycles_alike() -> bool:
    """Whether TensorFlow, left to choose, cycles over as many inputs in parallel as in turn on this machine."""
    numbers = tf.data.Dataset.range(512)
    in_turn, parallel = (
        numbers.interleave(lambda number: tf.data.Dataset.from_tensors(number).repeat(2), **calls)
        for calls in ({}, {"num_parallel_calls": tf.data.AUTOTUNE, "deterministic": True})
    )
    return [int(each) for each in in_turn] == [int(each) for each in parallel]


def vectorized_maps(plan: Stage, look: Look) -> Stage:
    """Maps that compute each number by itself, called once for each batch and not once for each element of it."""
    line = trunk(plan)
    for place in reversed(range(1, len(line))):
        if line[place].kind != "batch":
            continue
        while True:
            below = place - 1
            while below > 0 and line[below].kind in (*_MOVABLE, "take", "skip"):
                below -= 1
            stage = line[below]
            if below == 0 or stage.kind != "map" or stage.wrapper is None or not _in_order(stage):
                break
            if look(stage).reason is not None or (function := batched(stage.wrapper)) is None:
                break
            whole = replace(stage, function=function, calls=tf.data.AUTOTUNE)
            line = [*line[:below], *line[below + 1 : place + 1], whole, *line[place + 1 :]]
            place -= 1
    return join(line)


def _in_order(stage: Stage) -> bool:
    order = getattr(stage.made, "_deterministic", "true")
    return order == "true" or (order == "default" and stage.made.options().deterministic is not False)


def sunk_maps(plan: Stage, look: Look) -> Stage:
    """Pure maps moved below shuffles and repeats, so that a cache can stand between them."""
    line = trunk(plan)
    for start in range(2, len(line)):
        place = start
        while place > 1 and line[place - 1].kind in _MOVABLE and _is_pure_map(line[place], look):
            line[place - 1], line[place] = line[place], line[place - 1]
            place -= 1
    return join(line)


def _is_pure_map(stage: Stage, look: Look) -> bool:
    return stage.kind == "map" and stage.wrapper is not None and look(stage).pure and _in_order(stage)


def cache_places(plan: Stage, look: Look) -> list[int]:
    """After which stages of the trunk a cache would freeze nothing, the last one first."""
    line = trunk(plan)
    made = [each for stage in stages(plan) if stage.made is not None for each in datasets(stage.made)]
    if any(stage.kind == "cache" for stage in stages(plan)) or any(
        type(each).__name__ == "CacheDataset" for each in made
    ):
        return []
    if not is_deterministic(line[0].made):
        return []
    last = 0
    for stage in line[1:]:
        if not _is_cacheable(stage, look):
            break
        last += 1
    return [place for place in range(last, 0, -1) if place >= sampled_at(line) and line[place].kind != "prefetch"]


def _is_cacheable(stage: Stage, look: Look) -> bool:
    if stage.kind in ("repeat", "cache") or not _in_order(stage):
        return False
    if stage.kind == "shuffle":
        return stage.made._reshuffle_each_iteration is False
    return stage.wrapper is None or look(stage).pure


def cached(plan: Stage, place: int) -> Stage:
    """With a cache in memory after that stage of the trunk."""
    line = trunk(plan)
    return join([*line[: place + 1], Stage("cache", None), *line[place + 1 :]])


def prefetched(plan: Stage) -> Stage:
    """With a buffer at the end that is filled while the consumer works."""
    return Stage("prefetch", None, (plan,))


def sampled_at(line: list[Stage]) -> int:
    """The place in a trunk from which on one element in gives about one element out."""
    return max(place for place, stage in enumerate(line) if place == 0 or stage.kind in (*_SPREADS, "unbatch"))


def size_after(line: list[Stage], place: int, first: int) -> int:
    """At most how many elements leave that stage of a trunk, if so many come out where samples are taken (or -1)."""
    number = first
    if first < 0:
        return -1
    for stage in line[sampled_at(line) + 1 : place + 1]:
        if stage.kind in ("batch", "padded_batch"):
            number = -(-number // int(stage.made._batch_size))
    return number


def most_elements(line: list[Stage], cardinality: int) -> int:
    """How many elements of a trunk may be read where samples are taken: not more than the user reads."""
    most = cardinality if cardinality > 0 else MOST_ELEMENTS
    for stage in line[sampled_at(line) + 1 :]:
        if stage.kind == "take" and int(stage.made._count) > 0:
            most = min(most, int(stage.made._count))
        elif stage.kind not in ("map", "shuffle", "prefetch", "cache", "options"):
            break
    return most


MOST_ELEMENTS = 1 << 20

SHORT_BUFFER = 64
"""Elements in the shuffle buffers of a sample: filling a long one takes longer than the sample itself."""


def sample(plan: Stage, elements: int, seed: int | None = None) -> Stage:
    """The same work for the first elements only, each pass alike; a seed makes its shuffles comparable."""

    def shorten(stage: Stage) -> Stage:
        if stage.kind != "shuffle":
            return stage
        return replace(stage, size=min(SHORT_BUFFER, max(1, int(stage.made._buffer_size))), seed=seed)

    line = trunk(change(plan, shorten))
    cut = sampled_at(line) + 1
    rest = [stage for stage in line[cut:] if stage.kind not in ("repeat", "take", "skip", "shard")]
    return join([*line[:cut], Stage("take", None, size=elements), *rest])
