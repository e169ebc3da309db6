"""Input written in Python: the time inside the user's own loading function, and how many workers run it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from threading import get_ident
from typing import Any

from fitscope.observe import loops, padding
from fitscope.observe.batches import rows_of
from fitscope.observe.calls import Call
from fitscope.observe.ledger import Ledger, Place, clock
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams, place_of, without_us
from fitscope.observe.workers import record_workers

MOST_PEEKS = 3
"""Batches that are timed where Keras itself takes them before processes do, for each place that trains."""
MOST_HELD, MOST_COUNTS = 50, 20
"""Attributes of a dataset whose sizes are noted, and how often that is done for each place that trains."""
_peeks: Counter[int] = Counter()
_counts: Counter[int] = Counter()


class Function:
    """The user's loading function, as a stage of the input."""

    _open = threading.local()

    def __init__(self, name: str, where: Place | None, workers: int, *, shown: bool = True) -> None:
        self.name = name
        self.where = where
        self.workers = workers
        self.shown = shown

    def __enter__(self) -> None:
        stack: list[tuple[int, int]] = self._open.__dict__.setdefault("stack", [])
        stack.append((clock(), time.thread_time_ns()))

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:  # TensorFlow writes the traceback into the message that the user gets
            error.__traceback__ = without_us(error.__traceback__)
        stack: list[tuple[int, int]] = self._open.stack
        began, cpu = stack.pop()
        spent, worked = clock() - began, time.thread_time_ns() - cpu
        if not stack and get_ident() not in recorder.ledgers:
            recorder.loading.cpu += worked
            recorder.loading.wall += spent if self.fetches else 0
        self.ran(spent, worked)

    @property
    def fetches(self) -> bool:
        """Whether tf.data itself calls it, to make the next element."""
        return self.workers == 0

    def ran(self, nanoseconds: int, worked: int, elements: int = 1, parallelism: int | None = None) -> None:
        """It made something in that time, and held a processor for a part of it."""
        root = training_root() if self.shown else None
        if root is None:
            return
        file, line = self.where or (None, None)
        row = recorder.stages.row(root, self.name, file, line)
        row[0] += nanoseconds
        row[1] += elements
        row[2] += 0 if self.fetches else 1  # one element, of which a batch may need many
        row[3] += parallelism or max(1, self.workers)
        row[5] += 1
        row[6] += worked


class Peek(Function):
    """A loading function that worker processes call; Keras takes the first batches itself, to learn their shapes."""

    def ran(self, nanoseconds: int, worked: int, elements: int = 1, parallelism: int | None = None) -> None:
        """It made a batch in that time, in this process."""
        ledger = recorder.ledgers.get(get_ident())
        call: Call | None = ledger.call if ledger is not None else None
        if call is None or call.region is None or call.begun or _peeks[call.root] >= MOST_PEEKS:
            return  # for a validation, or nothing new
        _peeks[call.root] += 1
        file, line = self.where or (None, None)
        recorder.fact("peeked", root=call.root, nanoseconds=nanoseconds, file=file, line=line)


def training_root() -> int | None:
    """The region that is open now, in this thread or, for a worker thread, in the only one that trains."""
    ledger = recorder.ledgers.get(get_ident())
    candidates = [ledger] if ledger is not None and ledger.call is not None else list(recorder.ledgers.values())
    for candidate in candidates:
        if isinstance(candidate.call, Call):
            return candidate.call.top.root
        if candidate.loop is not None:
            root: int = candidate.loop.root
            return root
    return None


def look_at(batch: Any) -> None:
    """One of the first batches is looked at for padding."""
    root = training_root()
    if root is not None:
        padding.fetched(root, batch)


def _note_items(dataset: Any, batch: Any) -> None:
    """How many things a dataset holds under each name, and how many make a batch: some are drawn again and again."""
    try:
        root, rows = training_root(), rows_of(batch)
        if root is not None and rows is not None and _counts[root] < MOST_COUNTS:
            _counts[root] += 1
            held = dict(list(vars(dataset).items())[:MOST_HELD])
            sizes = {name: len(value) for name, value in held.items() if _is_list(value)}
            recorder.fact("items", root=root, rows=rows, sizes=sizes)
    except Exception as error:  # batches of an unusual kind: how many items there are stays unknown
        says = f"The items of a dataset could not be counted ({type(error).__name__}: {error})."
        recorder.fact("problem", says=says)


def _is_list(value: Any) -> bool:
    """Whether something is a list, or another collection whose length is no code of the user's."""
    is_array = type(value).__module__ == "numpy" and bool(getattr(value, "shape", ()))
    return is_array or type(value) in (dict, list, tuple)


class _Items:
    """A PyDataset whose items are timed; everything else is the user's own object."""

    def __init__(self, dataset: Any, function: Function) -> None:
        self.__dict__["_dataset"] = dataset
        self.__dict__["_function"] = function
        self.__dict__["_noted"] = False

    def __getitem__(self, index: Any) -> Any:
        with self._function:
            batch = self._dataset[index]
        look_at(batch)
        if not self._noted:
            self.__dict__["_noted"] = True
            _note_items(self._dataset, batch)
        return batch

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._dataset, attribute)

    def __setattr__(self, attribute: str, value: Any) -> None:
        setattr(self._dataset, attribute, value)


def hold(seams: Seams) -> None:
    """Holds Keras' adapters for PyDataset and generators."""
    from keras.src.trainers.data_adapters.generator_data_adapter import GeneratorDataAdapter
    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    def adapting(ledger: Ledger, adapter: Any, args: Any, kwargs: Any) -> Any:
        return adapter, next(iter([*args, *kwargs.values()]), None)

    def adapted_dataset(ledger: Ledger, token: Any, result: Any, error: BaseException | None) -> None:
        adapter, dataset = token
        if error is not None:
            return
        workers = int(getattr(dataset, "workers", 1))
        processes = bool(getattr(dataset, "use_multiprocessing", False))
        kind = type(dataset)
        function = Function(f"{kind.__name__}.__getitem__", place_of(kind.__getitem__), workers)
        if processes and adapter.enqueuer is not None:
            root = training_root()
            if root is not None:
                recorder.fact("workers", root=root, source="PyDataset", workers=workers, processes=True)
            adapter.py_dataset = _Items(dataset, Peek(function.name, function.where, workers))
            return
        adapter.py_dataset = _Items(dataset, function)
        if adapter.enqueuer is not None:
            adapter.enqueuer.py_dataset = adapter.py_dataset

    def adapted_generator(ledger: Ledger, token: Any, result: Any, error: BaseException | None) -> None:
        adapter, generator = token
        if error is not None:
            return
        code = getattr(generator, "gi_code", None)
        name = code.co_name if code is not None else type(generator).__name__
        where = Place(code.co_filename, code.co_firstlineno) if code is not None else None
        if where is None:
            where = place_of(getattr(type(generator), "__next__", None))
        restore = adapter.generator
        function = Function(name, where, 1)
        adapter.generator = lambda: _timed(restore(), function)

    seams.hold(PyDatasetAdapter, "__init__", adapting, adapted_dataset)
    seams.hold(GeneratorDataAdapter, "__init__", adapting, adapted_generator)


_END = object()


def _timed(batches: Any, function: Function) -> Iterator[Any]:
    iterator = iter(batches)
    while True:
        with function:
            batch = next(iterator, _END)
        if batch is _END:
            return
        look_at(batch)
        yield batch


def hold_torch(seams: Seams) -> None:
    """Holds torch's DataLoader: loops over it, and the user's dataset behind it."""
    from torch.utils.data import dataloader
    from torch.utils.data._utils import fetch

    iterator = dataloader._BaseDataLoaderIter
    seams.replace(iterator, "__next__", loops.fetch_by_hand(iterator.__next__, "DataLoader"))

    def making(ledger: Ledger, fetcher: Any, args: Any, kwargs: Any) -> Any:
        return fetcher

    def made(ledger: Ledger, fetcher: Any, result: Any, error: BaseException | None) -> None:
        """Times the user's dataset at torch's own object, which fetches from it in this process."""
        kind: Any = type(getattr(fetcher, "dataset", None))
        if error is not None or kind.__module__.startswith(("keras.", "torch.")):
            return
        by_index = isinstance(fetcher, fetch._MapDatasetFetcher)
        method = getattr(kind, "__getitems__", None) or kind.__getitem__ if by_index else kind.__iter__
        function = Function(f"{kind.__name__}.{method.__name__}", place_of(method), 1)
        original = fetcher.fetch

        def timed(indices: Any) -> Any:
            with function:
                return original(indices)

        fetcher.fetch = timed

    for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        seams.hold(kind, "__init__", making, made)

    def starting(ledger: Ledger, iterator: Any, args: Any, kwargs: Any) -> Any:
        return iterator, clock()

    def started(ledger: Ledger, token: Any, result: Any, error: BaseException | None) -> None:
        iterator, began = token
        root = training_root()
        if error is not None:
            return
        if root is None:
            loops.opened(ledger, iterator, clock() - began)
        else:
            record_workers(root, "DataLoader", iterator)

    seams.hold(dataloader._MultiProcessingDataLoaderIter, "__init__", starting, started)
