"""tf.data as the training thread sees it: fetches by Python code, and what each stage of a pipeline costs."""

from __future__ import annotations

import inspect
import math
import os
import re
import sys
import threading
import weakref
from types import FrameType
from typing import Any

from fitscope.observe import loaders, loops
from fitscope.observe.ledger import Place, clock
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams, is_library, is_user, place_of, user_frame, without_us

_made: weakref.WeakKeyDictionary[Any, Place] = weakref.WeakKeyDictionary()


def hold(seams: Seams) -> None:
    """Holds the fetch of a batch by Python code, and the making of datasets (for the line that made a stage)."""
    from tensorflow.python.data.ops import iterator_ops

    context: Any = sys.modules["tensorflow.python.eager.context"]

    iterator = iterator_ops.OwnedIterator
    by_hand = loops.fetch_by_hand(iterator._next_internal, "tf.data")
    original_next = iterator._next_internal

    def next_internal(self: Any) -> Any:
        if not context.executing_eagerly():
            return original_next(self)
        batch = by_hand(self)
        try:
            _fetched_from(self)
        except Exception as error:
            recorder.fail(error)
        return batch

    seams.replace(iterator, "_next_internal", next_internal)
    hold_making(seams)
    _hold_python_functions(seams)


def hold_making(seams: Seams) -> None:
    """Holds the making of datasets: a stage belongs to the line that made it."""
    from tensorflow.python.data.ops import dataset_ops

    original = dataset_ops.DatasetV2.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        frame = user_frame(sys._getframe(1))
        if frame is not None and recorder.failure is None:
            _made[self] = Place(frame.f_code.co_filename, frame.f_lineno)

    seams.replace(dataset_ops.DatasetV2, "__init__", init)


def place_of_stage(dataset: Any) -> Place | None:
    """The line that made a stage of a pipeline."""
    return _made.get(dataset)


def _fetched_from(iterator: Any) -> None:
    """Python code has fetched a batch: the stages behind it are read now and then."""
    reader = _readers.get(iterator)
    if reader is None:
        root = loaders.training_root()
        if root is None or loops.reads_arrays():
            return
        reader = _readers[iterator] = _Reader(root, iterator)
    reader.fetched()


class _Reader:
    """Reads now and then what the stages of a pipeline did whose batches Python code fetches."""

    def __init__(self, root: int, iterator: Any) -> None:
        self.stages = Stages(root, iterator)
        self.iterator = weakref.ref(iterator)
        self.batches = 0

    def fetched(self) -> None:
        """One more batch was fetched."""
        self.batches += 1
        if self.batches in LOOKS or self.batches % 100 == 0:
            proto = model_of(self.iterator())
            if proto is not None:
                self.stages.read(proto, self.batches)


LOOKS = (4, 16, 48)
"""Batches after which the stages of a new pipeline are read: at the end of its data some are gone already."""

_readers: weakref.WeakKeyDictionary[Any, _Reader] = weakref.WeakKeyDictionary()


def _hold_python_functions(seams: Seams) -> None:
    """Times the Python functions of pipelines, which TensorFlow calls from threads of its own."""
    from tensorflow.python.ops import script_ops

    registry = script_ops.FuncRegistry
    insert, call = registry.insert, registry.__call__
    functions: dict[Any, loaders.Function | _Inside] = {}

    def inserting(self: Any, function: Any) -> Any:
        token = insert(self, function)
        inner = getattr(function, "_func", function)
        inner = _generator_behind(inner) or inner
        where = place_of(inner)
        name = getattr(inner, "__name__", type(inner).__name__)
        user = where is not None and is_user(where.file)
        if _in_pipeline(sys._getframe(1)):
            functions[token] = loaders.Function(f"{name} (Python)", where if user else None, 0, shown=user)
        elif user:
            functions[token] = _Inside(name, where)
        return token

    def calling(self: Any, token: Any, device: Any, args: Any) -> Any:
        function = functions.get(token)
        if function is None or not recorder.ledgers:
            return call(self, token, device, args)
        with function:
            return call(self, token, device, args)

    seams.replace(registry, "insert", inserting)
    seams.replace(registry, "__call__", calling)


def _generator_behind(function: Any) -> Any:
    """The generator function that `from_generator` was given, if this is TensorFlow's way to ask it for a row."""
    if getattr(function, "__name__", "") != "generator_py_func":
        return None
    function = inspect.unwrap(function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    state = cells.get("generator_state")
    return getattr(state.cell_contents, "_generator", None) if state is not None else None


class _Inside:
    """A Python function of the user's that a compiled step calls back."""

    def __init__(self, name: str, where: Place | None) -> None:
        self.name = name
        self.where = where
        self._began = threading.local()

    def __enter__(self) -> None:
        self._began.__dict__.setdefault("stack", []).append(clock())

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            error.__traceback__ = without_us(error.__traceback__)
        spent = clock() - self._began.stack.pop()
        root = loaders.training_root()
        if root is not None:
            row = recorder.inside.row(root, self.name, *(self.where or (None, None)))
            row[0] += spent
            row[1] += 1


def _in_pipeline(frame: FrameType | None) -> bool:
    """Whether a function is being built into a dataset, not into a model."""
    while frame is not None:
        if os.path.join("tensorflow", "python", "data") in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def autotunes(iterator: Any) -> bool:
    """Whether tf.data keeps a model of this pipeline, with its gaps and stages."""
    dataset = getattr(iterator, "_dataset", None)
    try:
        return dataset is None or dataset.options().autotune.enabled is not False
    except Exception:
        return True


def model_of(iterator: Any) -> Any:
    """tf.data's own account of a pipeline, or None where it keeps none."""
    tf = sys.modules["tensorflow"]
    try:
        return tf.data.experimental.get_model_proto(iterator)
    except (tf.errors.OpError, ValueError, AttributeError):
        return None


def busy(proto: Any) -> int | None:
    """Nanoseconds that all stages of a pipeline have worked or slept so far; below a repeat, nobody knows."""
    if any("Repeat" in node.name for node in proto.nodes.values()):
        return None
    return sum(int(node.processing_time) for node in proto.nodes.values())


_described: set[tuple[int, int]] = set()
"""The datasets of each region whose stages are known already: an epoch makes a new iterator, not a new pipeline."""


class Stages:
    """What each stage of one pipeline has cost since it was last read."""

    def __init__(self, root: int, iterator: Any) -> None:
        self.root = root
        self.dataset = weakref.ref(iterator._dataset) if getattr(iterator, "_dataset", None) is not None else None
        self._places: dict[str, tuple[str, Place | None]] | None = None
        self._seen: dict[int, tuple[int, int]] = {}
        self._total = 0

    def read(self, proto: Any, total: int) -> None:
        """Adds what the stages did since the last time; so many batches were fetched in all."""
        batches, self._total = total - self._total, total
        if self._places is None:
            dataset = self.dataset() if self.dataset is not None else None
            chain = places(dataset)
            if dataset is not None and (self.root, id(dataset)) not in _described:
                _described.add((self.root, id(dataset)))
                recorder.fact("pipeline", lasting=True, root=self.root, stages=describe(dataset), **_options(dataset))
            self._places = {str(key): value for key, value in _join(proto, chain).items()}
        for key, node in proto.nodes.items():
            label, where = self._places.get(str(key), (node.name, None))
            if node.name == "Root":
                continue
            busy, elements = self._seen.get(key, (0, 0))
            self._seen[key] = (node.processing_time, node.num_elements)
            file, line = where or (None, None)
            row = recorder.stages.row(self.root, label, file, line)
            row[0] += max(0, node.processing_time - busy)
            row[1] += max(0, node.num_elements - elements)
            row[2] += batches
            row[3] += round(next((p.value for p in node.parameters if p.name == "parallelism"), 1))
            row[4] += node.buffered_elements
            row[5] += 1


def places(dataset: Any) -> list[tuple[str, Place | None]]:
    """The stages of a dataset, last first: kind, and the line of the user's function or of the stage."""
    chain: list[tuple[str, Place | None]] = []
    seen = 0
    pending = [dataset] if dataset is not None else []
    while pending and seen < 200:
        stage = pending.pop(0)
        seen += 1
        chain.append((_kind(type(stage).__name__), _function_place(stage) or _made.get(stage)))
        pending += list(stage._inputs())
    return chain


def describe(dataset: Any) -> list[dict[str, Any]]:
    """What each stage of a dataset is, last first, as far as it shows without running it."""
    found: list[dict[str, Any]] = []
    pending = [dataset] if dataset is not None else []
    while pending and len(found) < 100:
        stage = pending.pop(0)
        where = _function_place(stage) or _made.get(stage)
        file, line = where or (None, None)
        calls = getattr(stage, "_num_parallel_calls", None)
        found.append(
            {
                "kind": _kind(type(stage).__name__),
                "file": file,
                "line": line,
                "made": _made.get(stage),
                "parallel": _number(calls) if calls is not None else None,
                "size": _number(getattr(stage, "_buffer_size", getattr(stage, "_count", None))),
                "bytes": _bytes(getattr(stage, "element_spec", None)),
                **_nature(stage),
            }
        )
        pending += list(stage._inputs())
    return found


def _number(value: Any) -> int | None:
    try:
        return int(value.numpy() if hasattr(value, "numpy") else value)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return None


def _bytes(spec: Any) -> int | None:
    """Bytes of one element, an unknown first dimension left out; None where a size is unknown."""
    tf = sys.modules["tensorflow"]
    total = 0
    for each in tf.nest.flatten(spec):
        shape = getattr(each, "shape", None)
        if shape is None or shape.rank is None or each.dtype == tf.string:
            return None
        sizes = shape.as_list()
        if None in sizes[1:]:
            return None
        total += each.dtype.size * math.prod(size for size in sizes if size is not None)
    return total


def _nature(stage: Any) -> dict[str, Any]:
    """Whether the function of a stage calls Python or draws random numbers, and the size of what it cuts windows of.

    Its graph is not serialized for that: a constant in it may be gigabytes large. What a nested function with a
    state does is not looked at; it is taken for random, as tf.data itself takes it.
    """
    function = getattr(getattr(stage, "_map_func", None), "function", None)
    if function is None:
        return {}
    operations = function.graph.get_operations()
    kinds = {operation.type for operation in operations}
    return {
        "python": any("PyFunc" in kind for kind in kinds),
        "random": any(_RANDOM.search(kind) for kind in kinds),
        "cut": max((_cut(operation) for operation in operations if "Slice" in operation.type), default=0),
    }


def _cut(operation: Any) -> int:
    """Bytes of what an operation takes a window of, if that was decoded from a record; 0 if its size is unknown."""
    whole = operation.inputs[0]
    if not whole.shape.is_fully_defined():
        return 0
    source = whole.op
    for _ in range(MOST_BETWEEN):
        if source.type.startswith(DECODES):
            return int(whole.dtype.size * whole.shape.num_elements())
        if not source.inputs:
            break
        source = source.inputs[0].op
    return 0


DECODES = ("Decode", "Parse", "ReadFile")
MOST_BETWEEN = 8
"""Operations between decoding and cutting: a reshape, a cast, a transposition."""


_RANDOM = re.compile(
    r"Random|Multinomial|RngRead|RngSkip|TruncatedNormal|SampleDistorted|^(StatefulPartitionedCall|If|Case|While)$"
)


def _options(dataset: Any) -> dict[str, Any]:
    try:
        options = dataset.options()
        rewrites = options.experimental_optimization
        on = rewrites.inject_prefetch is not False and rewrites.apply_default_optimizations is not False
        return {"inject_prefetch": on}
    except AttributeError:
        return {}


def _function_place(stage: Any) -> Place | None:
    for attribute in ("_map_func", "_predicate", "_reduce_func", "_finalize_func"):
        function = getattr(getattr(stage, attribute, None), "_func", None)
        where = place_of(function) if function is not None else None
        if where is not None and not is_library(where.file) and is_user(where.file):
            return where
    return None


def _kind(stage: str) -> str:
    """`_ParallelMapDataset`, `ParallelMapV2` and `Map(…)` are all a map."""
    name = re.sub(r"^_|Dataset.*$|V\d+.*$|\(.*|\[.*", "", stage)
    return re.sub(r"^Parallel(?=[A-Z])", "", name).lower()


def _join(proto: Any, chain: list[tuple[str, Place | None]]) -> dict[int, tuple[str, Place | None]]:
    """Finds for each node of tf.data's model the stage in the source that it came from."""
    joined: dict[int, tuple[str, Place | None]] = {}
    remaining = list(chain)

    def visit(key: int, outer: Place | None) -> None:
        node = proto.nodes.get(key)
        if node is None or key in joined:
            return
        kind = _kind(node.name)
        where = outer if kind == "generator" else None
        parts = ("batch", "map") if kind == "mapandbatch" else (kind,)
        for part in parts:
            found = next((i for i, (name, _) in enumerate(remaining) if name == part), None)
            if found is not None:
                where = remaining[found][1]
                del remaining[: found + 1]
        joined[key] = (re.sub(r"V\d+$", "", node.name), where)
        for child in node.inputs:
            visit(child, where)

    visit(next((key for key, node in proto.nodes.items() if node.name == "Root"), 1), None)
    return joined
