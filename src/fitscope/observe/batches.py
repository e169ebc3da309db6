"""The batch size of a training, whatever it is fed from: how large it is, and how another one is given to it.

Arrays are batched by `fit`. A tf.data pipeline and a torch DataLoader are batched where the script makes them: there
the script's own size is replaced, as it would be by hand. What was made otherwise is cut anew, where that is sure.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import types
import weakref
from collections import Counter
from threading import get_ident
from typing import Any, NamedTuple

from fitscope.observe.loops import is_traced
from fitscope.observe.recorder import recorder

DEFAULT = 32
"""What `fit` takes for arrays where nobody says a size."""
KEEPS_BATCHES = ("Prefetch", "Options", "Map", "ParallelMap", "Cache", "Repeat", "Take", "Skip", "Shuffle", "Shard")
"""Stages of tf.data behind which a batch is as large as before them."""
FEW = 100
"""Batches of an epoch: the last of so few, being smaller, makes a difference to the mean."""

_changed: weakref.WeakSet[Any] = weakref.WeakSet()
"""Pipelines and loaders that were made with another batch size than the script's own."""
_looked_at: set[int] = set()
_called_with: Counter[int] = Counter()
"""Examples that models were called with outside of all that Keras does itself."""
MOST_CALLS = 500


class Size(NamedTuple):
    """What a training is fed from, the size that its batches have, and how many examples a step has on average."""

    source: str
    batch_size: int | None = None
    rows: float | None = None


class Refusal(NamedTuple):
    """Why a batch size cannot be given to a training."""

    why: str
    of_this_size: bool = False
    """Whether a smaller one could be."""


# --- how large it is ---------------------------------------------------------------------------------------


def size_of(given: dict[str, Any]) -> Size:
    """What the arguments of a `fit` say; what cannot be read is not known."""
    x: Any = given.get("x")
    source = source_of(x)
    try:
        if source == "arrays":
            number = _examples(given)
            size = int(given.get("batch_size") or DEFAULT)
            return Size(source, size, float(size) if given.get("steps_per_epoch") else _mean(number, size))
        if source == "tf.data":
            return Size(source, *_of_pipeline(x))
        if source == "PyDataset":
            return Size(source, *_of_items(x))
        if source == "DataLoader" and x.batch_size is not None:
            whole = x.drop_last or not hasattr(x.dataset, "__len__")
            return Size(source, x.batch_size, x.batch_size if whole else _mean(len(x.dataset), x.batch_size))
    except Exception as error:
        recorder.fact("problem", says=f"The batch size could not be read ({type(error).__name__}: {error}).")
    return Size(source)


def source_of(x: Any) -> str:
    """What a training is fed from, in the user's words."""
    adapters: Any = sys.modules["keras.src.trainers.data_adapters"]
    if adapters.is_tf_dataset(x):
        return "tf.data"
    if adapters.is_torch_dataloader(x):
        return "DataLoader"
    if adapters.is_grain_dataset(x):
        return "Grain"
    if isinstance(x, sys.modules["keras"].utils.PyDataset):
        return "PyDataset"
    if isinstance(x, types.GeneratorType):
        return "generator"
    return "arrays"


def rows_of(batch: Any) -> int | None:
    """The examples in a batch: the length of the first array in it."""
    while isinstance(batch, list | tuple | dict):
        inner = list(batch.values()) if isinstance(batch, dict) else list(batch)
        if not inner:
            return None
        batch = inner[0]
    shape = getattr(batch, "shape", None)
    return int(shape[0]) if shape is not None and len(shape) and shape[0] is not None else None


def _examples(given: dict[str, Any]) -> int:
    number = rows_of(given.get("x")) or 0
    split = float(given.get("validation_split") or 0.0)
    return number if given.get("validation_data") is not None else math.floor(number * (1 - split))


def _mean(examples: int, size: int) -> float:
    """Examples per step of an epoch whose last batch may be smaller."""
    return examples / math.ceil(examples / size) if examples else float(size)


def _of_pipeline(dataset: Any) -> tuple[int | None, float | None]:
    stage = dataset
    while not hasattr(stage, "_batch_size"):
        kind = type(stage).__name__.strip("_").removesuffix("Dataset")
        if kind not in KEEPS_BATCHES or not hasattr(stage, "_input_dataset"):
            # Nobody says it: the first batch does. This run is for nothing but measuring.
            rows = next((rows_of(batch) for batch in dataset.take(1)), None)
            return rows, rows
        stage = stage._input_dataset
    size = int(stage._batch_size)
    examples = int(stage._input_dataset.cardinality())
    dropped = bool(getattr(stage, "_drop_remainder", False))
    return size, float(size) if examples <= 0 or dropped else _mean(examples, size)


def _of_items(items: Any) -> tuple[int | None, float | None]:
    first, number = rows_of(items[0]), items.num_batches
    if first is None or number is None or not 1 < number <= FEW:
        return first, first
    last = rows_of(items[number - 1]) or first
    return first, ((number - 1) * first + last) / number


# --- another one -------------------------------------------------------------------------------------------


def resize(given: dict[str, Any], size: int) -> Refusal | None:
    """Gives the arguments of a `fit` another batch size, unless that is refused."""
    x: Any = given.get("x")
    source = source_of(x)
    if source == "arrays":
        number = _examples(given)
        if size > number:
            return Refusal(f"there are only {number:,} examples", of_this_size=True)
        given["batch_size"] = size
        return None
    if source == "tf.data":
        return _resize_pipeline(given, size)
    if source == "PyDataset":
        return _resize_items(x, size)
    if source == "DataLoader":
        changed = x in _changed or x.batch_size == size
        return None if changed else Refusal("its DataLoader is not made with a batch_size")
    return Refusal(f"a {source} makes its own batches")


def _resize_pipeline(given: dict[str, Any], size: int) -> Refusal | None:
    dataset = given["x"]
    if not hasattr(dataset, "_inputs"):
        return Refusal("its dataset is distributed over several devices")
    if _made_from_changed(dataset):
        return None
    static = dataset.element_spec
    while isinstance(static, list | tuple | dict):
        static = (list(static.values()) if isinstance(static, dict) else list(static))[0]
    try:
        given["x"] = dataset.rebatch(size, drop_remainder=static.shape[0] is not None)
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        return Refusal(f"the batches of its pipeline cannot be cut anew ({type(error).__name__})")
    return None


def _made_from_changed(dataset: Any) -> bool:
    return dataset in _changed or any(_made_from_changed(each) for each in dataset._inputs())


def _resize_items(items: Any, size: int) -> Refusal | None:
    """Sets the attribute that a PyDataset keeps its batch size in, if its batches then are as large as that."""
    before, number = rows_of(items[0]), items.num_batches
    for name in ("batch_size", "_batch_size"):
        if getattr(items, name, None) != before or before is None:
            continue
        setattr(items, name, size)
        follows = rows_of(items[0]) == size
        # The same examples in other batches: as many as before, but for the last batch.
        fits = number is None or abs(items.num_batches * size - number * before) < max(size, before)
        if follows and fits:
            return None
        setattr(items, name, before)
    return Refusal("its PyDataset does not take the batch size from an attribute batch_size")


# --- where pipelines and loaders are made ------------------------------------------------------------------


def hold_tensorflow(wish: dict[str, Any]) -> None:
    """Where the script batches a pipeline with its own batch size, it has the other one."""
    from tensorflow.python.data.ops import dataset_ops, iterator_ops

    tf: Any = sys.modules["tensorflow"]
    _look_at_batches(iterator_ops.OwnedIterator)
    own, size = wish.get("own_batch_size"), wish.get("batch_size")
    if own is None or size is None:
        return
    for name in ("batch", "padded_batch"):
        original = getattr(dataset_ops.DatasetV2, name)
        setattr(dataset_ops.DatasetV2, name, _batching(original, own, size, tf.executing_eagerly))


def _batching(original: Any, own: int, size: int, eager: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def batch(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        # Inside a function of the pipeline it is a window that is batched, not the training's examples.
        if not eager() or int(bound.arguments["batch_size"]) != own:
            return original(*args, **kwargs)
        bound.arguments["batch_size"] = size
        made = original(*bound.args, **bound.kwargs)
        _changed.add(made)
        return made

    return batch


def hold_torch(wish: dict[str, Any]) -> None:
    """Where the script makes a DataLoader with its own batch size, it has the other one."""
    data: Any = sys.modules["torch"].utils.data
    _look_at_batches(data.dataloader._BaseDataLoaderIter)
    own, size = wish.get("own_batch_size"), wish.get("batch_size")
    if own is None or size is None:
        return
    original = data.DataLoader.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        changes = given.get("batch_size", 1) == own and given.get("batch_sampler") is None
        if changes:
            given["batch_size"] = size
        original(*bound.args, **bound.kwargs)
        if changes:
            _changed.add(args[0])

    data.DataLoader.__init__ = init


def _look_at_batches(iterator: Any) -> None:
    """Notes how many examples the first batch of a loop written by hand has."""
    original = iterator.__next__

    @functools.wraps(original)
    def following(self: Any) -> Any:
        batch = original(self)
        ledger = recorder.ledgers.get(get_ident())
        loop: Any = ledger.loop if ledger is not None and ledger.call is None else None
        if loop is not None and loop.root not in _looked_at:
            _looked_at.add(loop.root)
            recorder.fact("rows", root=loop.root, rows=rows_of(batch))
        return batch

    iterator.__next__ = following


def hold_models() -> None:
    """Counts how many examples models are called with by code of the user's, as long as that is not much."""
    from keras.src.models.model import Model

    original = Model.__call__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _called_with.total() < MOST_CALLS and args and not is_traced(args[0]):
            ledger = recorder.ledgers.get(get_ident())
            rows = rows_of(args[0]) if ledger is None or ledger.call is None else None
            if rows is not None:
                _called_with[rows] += 1
        return original(self, *args, **kwargs)

    Model.__call__ = call


def note_calls() -> None:
    """Notes what models were called with most often: of an eager loop over nothing that is held, the batch."""
    if _called_with:
        recorder.fact("called-with", rows=_called_with.most_common(1)[0][0])
