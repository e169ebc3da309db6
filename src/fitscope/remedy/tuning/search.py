"""The way from a tf.data pipeline to its fastest variant: change after change, each kept if it gains."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import tensorflow as tf
from tensorflow.python.data.ops import debug_mode

from fitscope import words
from fitscope.model import Speedup
from fitscope.remedy.tuning import rewrite
from fitscope.remedy.tuning.nature import Nature, nature, operations, variables
from fitscope.remedy.tuning.pipeline import KEPT, Stage, build, change, datasets, read, stages, writes_files
from fitscope.remedy.tuning.trial import PASS_SECONDS, Trial, count, digests, weight

LEAST_GAIN = 0.96
"""A change stays if the time falls to this share or lower: less is not told from noise."""

LEAST_GAIN_OF_CACHE = 0.9
"""A cache takes memory: it has to be worth it."""

SHARE_OF_MEMORY_IN_FLIGHT = 0.1
"""Of the free memory, what the results of all calls of a map at once may take."""

WIDTH, GREAT_WIDTH = 16, 64
"""Calls at once of a map that waits, for a network, a disk, a lock: tried one after the other."""

MANY = 32
"""Inputs of a flat_map that stand for the rest."""

PREFETCH_ADDED = "prefetch: added at the end"

Variant = tuple[Stage, dict[str, str]]
"""A pipeline, and what is to be said of its changes, by topic."""


class Search:
    """Looks for the fastest variant of a dataset, with so many bytes for a cache and seconds to measure."""

    def __init__(self, dataset: Any, memory: float, seconds: float) -> None:
        self.dataset = dataset
        self.memory = memory
        self.trial = Trial(seconds)
        self.gain: Speedup | None = None
        self.changes: dict[str, str] = {}
        self.notes: list[str] = []
        self._natures: dict[int, Nature] = {}
        self._number: int | None = None
        self._first: list[bytes] | None = None
        ordered = dataset.options().deterministic is not False
        self.ordered = ordered
        self.original = change(read(dataset), lambda stage: replace(stage, ordered=ordered))

    def run(self) -> Any:
        """The dataset to use: a new one, or the one given."""
        obstacle = _obstacle(self.dataset)
        if obstacle is not None:
            return self._unchanged(obstacle)
        for stage in stages(self.original):
            if stage.kind == "map" and stage.parallel is None and self._look(stage).reason is not None:
                self.notes.append(f"{_named(stage)} stays sequential: {self._look(stage).reason}")
        if _reads_generator(self.dataset):
            best = self._unmeasured()
        else:
            try:
                with _nothing_drawn(self.dataset):
                    best = self._best()
            except tf.errors.OpError as error:
                return self._unchanged(f"reading its first elements failed: {error.message.splitlines()[0]}")
        if best is self.original:
            return self._unchanged(*self.notes or ["no change gains"])
        tuned = build(best)
        same = tuned.element_spec == self.dataset.element_spec and tuned.options() == self.dataset.options()
        if not same or int(tuned.cardinality()) != int(self.dataset.cardinality()):
            return self._unchanged("a faster variant would not declare its elements as this one does")
        return tuned

    def _unchanged(self, *notes: str) -> Any:
        self.changes, self.gain, self.notes = {}, None, list(notes)
        return self.dataset

    def _look(self, stage: Stage) -> Nature:
        key = id(stage.wrapper)
        if key not in self._natures:
            self._natures[key] = nature(stage.wrapper)
        return self._natures[key]

    def _unmeasured(self) -> Stage:
        """What surely gains behind a source that may be read only once: random maps in parallel, and a prefetch."""
        self.notes.insert(0, "it reads a Python generator, which may be of use only once: not measured")
        best, says = self._parallel(self.original, None, python=False)
        if best is not self.original:
            self.changes.update(says)
        if best.kind != "prefetch" and not _prefetches(self.dataset.options()):
            best = rewrite.prefetched(best)
            self.changes["prefetch"] = PREFETCH_ADDED
        return best

    def _best(self) -> Stage:
        line = rewrite.trunk(self.original)
        self._source = build(rewrite.join(line[: rewrite.sampled_at(line) + 1]))
        if int(self._source.cardinality()) == 0:
            self.notes.append("it is empty")
            return self.original
        self._most = rewrite.most_elements(line, int(self._source.cardinality()))
        self._few = self._elements = self.trial.elements(self.original, self._most)
        best = self._step(self.original, self._without_repetition(self.original), LEAST_GAIN_OF_CACHE)
        parallel = self._step(best, [self._parallel(best, None), self._parallel(best, WIDTH)])
        if parallel is not best and any(stage.wide for stage in stages(parallel)):
            # Both pass quickly by now, so that little of the time must be left.
            parallel = self._step(parallel, [self._parallel(parallel, GREAT_WIDTH)], reserve=0.1)
        best = parallel
        reads = rewrite.parallel_reads(best, self._look)
        says = f"{_differing(best, reads)}: read ahead, in the same order"
        best = self._step(best, [(reads, {"reads": says})])
        if best.kind != "prefetch" and not _prefetches(self.dataset.options()):
            added = (rewrite.prefetched(best), {"prefetch": PREFETCH_ADDED})
            best = self._step(best, [added], rests=True)
        return best if best is self.original else self._confirmed(best)

    def _confirmed(self, best: Stage) -> Stage:
        """What was found, if it is faster than the original also in a last and longer comparison."""
        rest = self._rest(self.original) if list(self.changes) == ["prefetch"] else 0.0
        seconds = max(0.1 * self.trial.seconds, self.trial.left)
        timing = self.trial.compare([self.original, best], self._few, seconds, rest, least=5)[1]
        if timing is None or timing.ratio > LEAST_GAIN:
            return self.original
        self.gain = timing.gain
        return best

    def _step(
        self,
        best: Stage,
        variants: list[Variant],
        least: float = LEAST_GAIN,
        rests: bool = False,
        reserve: float = 0.3,
    ) -> Stage:
        """The best of the variants, if it gains and has the same elements; else what was best before.

        Nothing is tried if less than the reserve, a share of the seconds, is left.
        """
        variants = [each for each in variants if each[0] is not best]
        if not variants or self.trial.left < reserve * self.trial.seconds:
            return best
        rest = self._rest(best) if rests else 0.0
        seconds = 0.05 * self.trial.seconds * (1 + len(variants))
        timings = self.trial.compare([best, *(plan for plan, _ in variants)], self._elements, seconds, rest)
        found = [(timing, each) for timing, each in zip(timings[1:], variants, strict=True) if timing is not None]
        for timing, (plan, says) in sorted(found, key=lambda pair: pair[0].ratio):
            if timing.ratio <= least and self._is_same(plan):
                self.changes.update(says)
                self._elements = self._longer(plan, min(timing.seconds))
                return plan
        return best

    def _longer(self, plan: Stage, passed: float) -> int:
        """Elements for a pass of the usual length, now that they come faster; into a cache they come as before."""
        wanted = round(self._elements * max(1.0, PASS_SECONDS / passed))
        if any(stage.kind == "cache" for stage in stages(plan)):
            wanted = min(wanted, 4 * self._few)
        return min(self._most, wanted)

    def _rest(self, plan: Stage) -> float:
        """As long as a batch takes to come: the consumer that gains most by a prefetch."""
        timing = self.trial.compare([plan], self._few, 0.0)[0]
        batches = len(digests(plan, self._few))
        return 0.0 if timing is None else min(timing.seconds) / max(1, batches)

    def _is_same(self, plan: Stage) -> bool:
        """Whether the first elements are bit for bit those of the original, where that gives the same ones twice."""
        if not self.ordered:
            return True
        few = min(self._few, max(16, self._few // 4))
        if self._first is None:
            first, again = (digests(self.original, few) for _ in range(2))
            self._first = first if first == again else []
        return not self._first or digests(plan, few) == self._first

    def _parallel(self, plan: Stage, wide: int | None, python: bool = True) -> Variant:
        changed = rewrite.parallel_maps(plan, self._look, python=python)
        if wide is not None:
            changed = rewrite.parallel_maps(changed, self._look, wide)
            free = SHARE_OF_MEMORY_IN_FLIGHT * psutil.virtual_memory().available
            crowds = [stage for stage in stages(changed) if stage.wide]
            if not crowds or any(wide * weight(build(stage), 0.0) > free for stage in crowds):
                return plan, {}
        says = {"maps": "in parallel, order kept", "wide": f"up to {wide} calls at once, order kept"}
        names = {"maps": "", "wide": ""}
        for stage in reversed(list(stages(changed))):
            if stage.kind == "map" and stage.calls is not None and stage.function is None:
                topic = "wide" if stage.wide else "maps"
                names[topic] += f"{', ' if names[topic] else ''}{_named(stage)}"
        return changed, {topic: f"{name}: {says[topic]}" if name else "" for topic, name in names.items()}

    def _without_repetition(self, plan: Stage) -> list[Variant]:
        """What saves work: maps of whole batches, a cache, and both."""
        variants = self._cached(plan)
        whole = rewrite.vectorized_maps(plan, self._look)
        if whole is not plan:
            says = {"whole": f"{_differing(plan, whole)}: called once for a batch, not for each element"}
            variants.append((whole, says))
            variants += [(both, {**says, **cache}) for both, cache in self._cached(whole)]
        return variants

    def _cached(self, plan: Stage) -> list[Variant]:
        """The pipeline with a cache after the last stage where it freezes nothing and fits; none if there is none."""
        if self.memory <= 0:
            return []
        plan = rewrite.sunk_maps(plan, self._look)
        line = rewrite.trunk(plan)
        for place in rewrite.cache_places(plan, self._look):
            after = build(rewrite.join(line[: place + 1]))
            number = int(after.cardinality())
            if number == tf.data.UNKNOWN_CARDINALITY:
                number = rewrite.size_after(line, place, self._count())
            if number < 0:
                self._note(f"no cache after {_named(line[place])}: how many elements there are is not known")
                continue
            total = number * weight(after, 0.03 * self.trial.seconds)
            if total <= self.memory:
                says = f"cache after {_named(line[place])}: {words.size(total)} in memory"
                return [(rewrite.cached(plan, place), {"cache": says})]
            self._note(f"no cache after {_named(line[place])}: it would take {words.size(total)}")
        return []

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _count(self) -> int:
        """How many elements come out where samples are taken, counted or estimated; -1 if that takes too long."""
        if self._number is None:
            number = count(self._source, 0.2 * self.trial.seconds)
            self._number = self._extrapolated() if number < 0 else number
        return self._number

    def _extrapolated(self) -> int:
        """The same from the first of many inputs of a flat_map, such as windows; of few, as of files, -1."""
        line = rewrite.trunk(self.original)
        place = rewrite.sampled_at(line)
        inputs = int(build(line[place].source).cardinality()) if place else 0
        if inputs < 10 * MANY:
            return -1
        first = rewrite.join([*line[:place], Stage("take", None, size=MANY), line[place]])
        found = count(build(first), 0.1 * self.trial.seconds)
        return -1 if found < 0 else round(1.2 * found / MANY * inputs)


def _obstacle(dataset: Any) -> str | None:
    """Why a dataset may not be read for measuring, if so."""
    if debug_mode.DEBUG_MODE:
        return "tf.data is in its debug mode"
    for each in datasets(dataset):
        name = type(each).__name__
        if writes_files(each) or name in ("_SnapshotDataset", "_SaveDataset"):
            return "it writes files, which a short pass would leave incomplete: not measured"
    if any(isinstance(each, tf.data.DatasetSpec) for each in tf.nest.flatten(dataset.element_spec)):
        return "its elements are datasets themselves"
    for stage in stages(read(dataset)):
        if stage.kind == KEPT and any(_is_seeded_shuffle(each) for each in datasets(stage.made)):
            return "it has a seeded shuffle that cannot be built again, and measuring would use up its first orders"
    return None


def _reads_generator(dataset: Any) -> bool:
    graphs = [function.function.graph for each in datasets(dataset) for function in each._functions()]
    return any(operation.type == "GeneratorDataset" for graph in graphs for operation in operations(graph))


def _prefetches(options: Any) -> bool:
    """Whether TensorFlow adds a prefetch at the end by itself."""
    rewrites = options.experimental_optimization
    switches = (options.autotune.enabled, rewrites.apply_default_optimizations, rewrites.inject_prefetch)
    return not any(switch is False for switch in switches)


def _is_seeded_shuffle(dataset: Any) -> bool:
    return type(dataset).__name__ == "_ShuffleDataset" and bool(int(dataset._seed) or int(dataset._seed2))


@contextmanager
def _nothing_drawn(dataset: Any) -> Iterator[None]:
    """Leaves random numbers and variables as they were, whatever the measured passes draw and count."""
    held = [(each, each.numpy()) for each in variables(dataset)]
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        for each, value in held:
            each.assign(value)


def _named(stage: Stage) -> str:
    """A stage in the user's words: map(augment, train.py:12)."""
    function = getattr(stage.wrapper, "_func", None) if stage.made is not None else None
    if stage.function is not None:
        function = stage.made._map_func._func
    code = getattr(function, "__code__", None)
    if stage.kind == KEPT:
        return "the source"
    if code is None:
        return stage.kind
    if "tensorflow" in Path(code.co_filename).parts:
        return "files" if stage.kind in ("flat_map", "interleave") else stage.kind
    return f"{stage.kind}({code.co_name}, {Path(code.co_filename).name}:{code.co_firstlineno})"


def _differing(old: Stage, new: Stage) -> str:
    """The stages of a changed pipeline that are not those of the old one, in the order of the data."""
    known = {(id(stage.made), stage.calls, stage.wide, stage.function) for stage in stages(old)}
    changed = [s for s in stages(new) if (id(s.made), s.calls, s.wide, s.function) not in known]
    return ", ".join(dict.fromkeys(_named(stage) for stage in reversed(changed)))
