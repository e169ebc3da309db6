"""Input through Grain: the time inside the user's own transformations and data source, and who runs them.

Grain calls them once for each element, in its own threads or in the training thread. Timing every call would cost
more than many of them take, so past the first ones only some are timed, and counted for the rest.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from threading import get_ident
from typing import Any

from fitscope.observe.ledger import clock
from fitscope.observe.loaders import Function, training_root
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams, is_user, place_of

ALL_UP_TO = 256
ONE_IN = 16
"""So many calls of a function are timed one by one; after that one in so many."""

_TRANSFORMS = ("map", "random_map", "np_random_map", "map_with_index")

_PREFETCH = "grain-prefetch"
"""How Grain names the threads that read ahead."""


class _Each(Function):
    """A function that is called for each element."""

    threads = 1

    def __init__(self, name: str, where: Any) -> None:
        super().__init__(name, where, workers=0)
        self._calls = 0

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Its result; the time of this call, if it is one of those that are timed, stands for others."""
        self._calls += 1
        times = 1 if self._calls <= ALL_UP_TO else ONE_IN
        if times > 1 and self._calls % ONE_IN:
            return function(*args)
        began, cpu = clock(), time.thread_time_ns()
        try:
            return function(*args)
        finally:
            self._note(times, clock() - began, time.thread_time_ns() - cpu)

    def _note(self, times: int, spent: int, worked: int) -> None:
        try:
            if get_ident() not in recorder.ledgers:
                recorder.loading.cpu += worked * times
            ahead = threading.current_thread().name.startswith(_PREFETCH)
            self.ran(spent * times, worked * times, elements=times, parallelism=_Each.threads if ahead else 1)
        except Exception as error:
            recorder.fail(error)


@functools.lru_cache(maxsize=256)
def _timer(function: Any) -> _Each | None:
    """The timer of a function, if it is the user's own."""
    where = place_of(function)
    if where is None or not is_user(where.file):
        return None
    return _Each(getattr(function, "__qualname__", type(function).__name__), where)


def _known(function: Any) -> _Each | None:
    """The timer of the user's function in this one: itself, or the transformation that Grain's loader put into it."""
    try:
        found = _timer(getattr(function, "__func__", function))
        if found is None and getattr(function, "__module__", None) == "grain._src.python.data_loader":
            transforms = [cell.cell_contents for cell in function.__closure__ or ()]
            methods = [getattr(type(each), name, None) for each in transforms for name in _TRANSFORMS]
            found = next((timer for method in methods if method is not None and (timer := _timer(method))), None)
        return found
    except (TypeError, ValueError):  # not hashable, or an empty cell
        return None


def hold(seams: Seams) -> None:
    """Holds Grain's own classes; nothing is set on the user's datasets, which may travel to other processes."""
    from grain._src.python.dataset.transformations import map as maps
    from grain._src.python.dataset.transformations import prefetch, process_prefetch, source

    for kind, method in (
        (maps.MapMapDataset, "_map_element"),
        (maps.RandomMapMapDataset, "_random_map_element"),
        (maps.MapWithIndexMapDataset, "_map_with_index_fn"),
    ):
        seams.replace(kind, method, _timed(vars(kind)[method], lambda dataset: dataset._map_fn))
    reads = vars(source.SourceMapDataset)["__getitem__"]
    seams.replace(
        source.SourceMapDataset, "__getitem__", _timed(reads, lambda dataset: type(dataset._source).__getitem__)
    )
    for kind in vars(maps).values():
        if isinstance(kind, type) and kind.__module__ == maps.__name__ and kind.__name__.endswith("DatasetIterator"):
            seams.replace(kind, "__init__", _timed_iterator(vars(kind)["__init__"]))
    _note_workers(seams, prefetch.PrefetchIterDataset, process_prefetch.ProcessPrefetchIterDataset)


def _timed(original: Any, function_of: Callable[[Any], Any]) -> Any:
    @functools.wraps(original)
    def method(self: Any, *args: Any) -> Any:
        timer = _known(function_of(self)) if recorder.ledgers else None
        return original(self, *args) if timer is None else timer.call(original, self, *args)

    return method


def _timed_iterator(original: Any) -> Any:
    """Grain's own iterator calls the user's function through one that is timed."""

    @functools.wraps(original)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        function: Any = getattr(self, "_map_fn", None)
        timer = _known(function) if recorder.ledgers else None
        if timer is not None:
            self._map_fn = functools.partial(timer.call, function)

    return made


def _note_workers(seams: Seams, threads: Any, processes: Any) -> None:
    by_threads, by_processes = threads.__iter__, processes.__iter__

    @functools.wraps(by_threads)
    def read_ahead(self: Any) -> Any:
        _Each.threads = max(1, getattr(self._read_options, "num_threads", None) or 1)
        return by_threads(self)

    @functools.wraps(by_processes)
    def in_processes(self: Any) -> Any:
        root = training_root() if recorder.ledgers else None
        if root is not None:
            workers[root] = workers.get(root, 0) + 1
            recorder.fact("workers", root=root, source="Grain", workers=workers[root], processes=True)
        return by_processes(self)

    workers: dict[int, int] = {}
    seams.replace(threads, "__iter__", read_ahead)
    seams.replace(processes, "__iter__", in_processes)
