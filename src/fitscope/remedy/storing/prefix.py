"""The stages of a tf.data pipeline, and how far they are deterministic.

The stages from the source to the first random one or batch are the prefix: what a store can hold. A shuffle or repeat
does not end it, since maps give the same elements before it as behind it; it is applied to the indices of the stored
elements instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fitscope.remedy.storing import graphs
from fitscope.remedy.storing.elements import StoreError
from fitscope.remedy.storing.fingerprint import Fingerprint
from fitscope.remedy.storing.graphs import Nature

ORDER = ("shuffle", "repeat")
MAPS = ("map", "parallel map")
NEUTRAL = ("prefetch", "options", "cache")
BATCHES = ("batch", "parallel batch", "padded batch")
READERS = ("records", "lines", "fixed records")

_KINDS = {
    "_TensorDataset": "tensors",
    "_TensorSliceDataset": "slices",
    "_RangeDataset": "range",
    "TFRecordDatasetV2": "records",
    "TextLineDatasetV2": "lines",
    "FixedLengthRecordDatasetV2": "fixed records",
    "_ZipDataset": "zip",
    "_ConcatenateDataset": "concatenate",
    "_MapDataset": "map",
    "_ParallelMapDataset": "parallel map",
    "_FilterDataset": "filter",
    "_FlatMapDataset": "flat_map",
    "_InterleaveDataset": "interleave",
    "_ParallelInterleaveDataset": "parallel interleave",
    "_TakeDataset": "take",
    "_SkipDataset": "skip",
    "_ShardDataset": "shard",
    "_BatchDataset": "batch",
    "_ParallelBatchDataset": "parallel batch",
    "_PaddedBatchDataset": "padded batch",
    "_UnbatchDataset": "unbatch",
    "CacheDataset": "cache",
    "_PrefetchDataset": "prefetch",
    "_OptionsDataset": "options",
    "_AssertCardinalityDataset": "assert_cardinality",
    "_ShuffleDataset": "shuffle",
    "_RepeatDataset": "repeat",
}


@dataclass
class Stage:
    """One stage of a pipeline."""

    dataset: Any
    kind: str
    """Empty where the class is not known."""
    wrapper: Any = None
    """tf.data's own record of the function of this stage."""
    nature: Nature = field(default_factory=Nature)

    @property
    def name(self) -> str:
        """For people: map decode (train.py:12)."""
        code = getattr(getattr(self.wrapper, "_func", None), "__code__", None)
        if code is None:
            return self.kind or type(self.dataset).__name__
        return f"{self.kind} {code.co_name} ({Path(code.co_filename).name}:{code.co_firstlineno})"

    @property
    def trouble(self) -> str | None:
        """Why it is not known to give the same elements in the same order each time."""
        if not self.kind:
            return f"{self.name} is not a stage that fitscope knows"
        if self.kind == "shuffle":
            return "a shuffle draws the order anew in each epoch"
        if self.nature.random:
            return f"{self.name} is random or keeps a state ({self.nature.random})"
        if self.kind not in MAPS and getattr(self.dataset, "_deterministic", None) == "false":
            return f"{self.name} was asked to give elements in any order"
        return None

    @property
    def changes_length(self) -> bool:
        """Whether an element can have another index behind it than before it."""
        return self.kind not in (*MAPS, *NEUTRAL, *ORDER)


@dataclass
class Chain:
    """A pipeline from its source on, and how far of it can be stored."""

    dataset: Any
    source: tuple[Stage, ...]
    """Where the chain begins, and, below a zip, all that it reads from."""
    stages: list[Stage]
    cuts: list[int]
    """Numbers of stages after which a store can be cut, in rising order."""
    stopped: str = ""
    """Why the prefix ends where it ends; nothing where it is the whole pipeline."""

    def end(self, number: int, why: str) -> None:
        """Cuts are only before this stage, for this reason."""
        self.cuts = [cut for cut in self.cuts if cut < number]
        self.stopped = why

    def works(self, cut: int) -> bool:
        """Whether anything is computed up to a cut, so that there is something to save."""
        return any(stage.wrapper is not None for stage in (*self.source, *self.stages[:cut]))


def walk(dataset: Any) -> Chain:
    """The stages of a pipeline; how far they go is decided by their kinds and by the graphs of their functions."""
    stages: list[Stage] = []
    stage = _stage(dataset)
    while len(inputs := _inputs(stage)) == 1 and stage.kind not in READERS:
        stages.insert(0, stage)
        stage = _stage(inputs[0])
    chain = Chain(dataset, tuple(_below(stage)), stages, [0])
    trouble = next((each.trouble for each in chain.source if each.trouble), None)
    if trouble is not None:
        raise StoreError(f"Nothing of this pipeline can be stored: already in its source, {trouble}.")
    ordered = False
    for number, each in enumerate(stages, 1):
        if each.kind in ORDER:
            ordered = True
        elif each.kind in BATCHES:
            chain.stopped = "elements are stored one by one, and then come the batches"
        elif ordered and (each.changes_length or each.kind == "cache"):
            chain.stopped = f"{each.name} depends on the order that was drawn before it"
        else:
            chain.stopped = each.trouble or ""
        if chain.stopped:
            break
        if each.wrapper is not None or each.kind == "assert_cardinality":
            chain.cuts.append(number)
    return chain


def _stage(dataset: Any) -> Stage:
    kind = _KINDS.get(type(dataset).__name__, "")
    wrapper = getattr(dataset, "_map_func", None) or getattr(dataset, "_predicate", None)
    return Stage(dataset, kind, wrapper, graphs.nature_of(wrapper.function) if wrapper is not None else Nature())


def _below(stage: Stage) -> Iterator[Stage]:
    """A stage and all that it reads from."""
    pending = [stage]
    while pending:
        current = pending.pop()
        yield current
        pending += map(_stage, _inputs(current))


def _inputs(stage: Stage) -> list[Any]:
    """The datasets that a stage reads from, as the user wrote it."""
    if stage.kind == "unbatch":  # TensorFlow puts two stages of its own before it.
        return list(stage.dataset._inputs()[0]._inputs()[0]._inputs())
    names = getattr(stage.dataset, "_filenames", None)
    return [names] if hasattr(names, "element_spec") else list(stage.dataset._inputs())


def fingerprints(chain: Chain, store: Path, inputs: list[Path]) -> dict[int, Fingerprint]:
    """Of the code and inputs up to each cut; ends the prefix where something cannot be told."""
    running = Fingerprint(store)
    for path in inputs:
        running.file(str(path))
    for stage in chain.source:
        try:
            _digest(stage, running)
        except StoreError as error:
            raise StoreError(
                f"Nothing of this pipeline can be stored: of {stage.name} in its source, {error}."
            ) from None
    found = {0: running.copy()}
    for number, stage in enumerate(chain.stages[: chain.cuts[-1]], 1):
        if stage.kind not in (*ORDER, *NEUTRAL):
            try:
                _digest(stage, running)
            except StoreError as error:
                chain.end(number, f"{stage.name} cannot be stored: {error}")
                break
            if stage.nature.reads_files and not running.files:
                raise StoreError(
                    f"{stage.name} reads files whose names fitscope does not see, so that changes of them would go "
                    "unnoticed: pass inputs=[the files or folders that it reads]."
                )
        found[number] = running.copy()
    return found


_UNTOLD = (
    "_name",
    "_graph_attr",
    "_variant_tensor_attr",
    "_options_attr",
    "_impl",
    "_structure",
    "_num_parallel_calls",
    "_num_parallel_reads",
    "_deterministic",
    "_use_inter_op_parallelism",
    "_use_unbounded_threadpool",
    "_force_synchronous",
    "_preserve_cardinality",
)
"""Fields of tf.data's objects that do not change what the elements are."""


def _digest(stage: Stage, fingerprint: Fingerprint) -> None:
    """Adds a stage to a fingerprint: its settings, and its function."""
    import tensorflow as tf

    fingerprint.note(stage.kind)
    for name, value in sorted(vars(stage.dataset).items()):
        if name in _UNTOLD or name.startswith("_self_"):
            continue
        for each in tf.nest.flatten(value):
            if hasattr(each, "numpy") or isinstance(each, bool | int | str):
                fingerprint.note(name)
                fingerprint.add(each.numpy() if hasattr(each, "numpy") else each)
    if stage.wrapper is not None:
        fingerprint.note(repr(stage.wrapper.output_structure))
        graphs.digest(stage.wrapper.function, fingerprint)
