"""What a Loader loads from: an object with items, a function of the index, or one that returns an iterator."""

from __future__ import annotations

import hashlib
import inspect
import math
import pickle
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

LARGE = 1 << 24
SAMPLE = 1 << 16


class _Named:
    """Who asked, and what it calls a batch: for the notes on exceptions."""

    asker = "fitscope.Loader"

    def named(self, index: int) -> str:
        return f"batch {index}"


class Items(_Named):
    """The batches of an object with `__getitem__`: a PyDataset, or anything like a list."""

    in_order = False

    def __init__(self, items: Any) -> None:
        self.items = items

    def batch(self, index: int) -> Any:
        return self.items[index]


class Calls(_Named):
    """The batches that a function of the index returns."""

    in_order = False

    def __init__(self, function: Callable[[int], Any]) -> None:
        self.function = function

    def batch(self, index: int) -> Any:
        return self.function(index)


class Stream(_Named):
    """The batches of an iterator that a function returns: in order, and each pass asks for a new iterator."""

    in_order = True

    def __init__(self, function: Callable[[], Any], length: int | None) -> None:
        self.function = function
        self.length = length
        self._iterator: Iterator[Any] | None = None
        self._position = 0
        self._peeked: list[Any] = []
        """What was looked at before the pass began; it belongs to the pass."""

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self.function, "length": self.length}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def peek(self, index: int) -> Any:
        """A batch at the beginning, for its shape; the next pass still has it."""
        if self._iterator is None or self._position:
            self._begin()
        while len(self._peeked) <= index:
            self._peeked.append(self._draw(len(self._peeked)))
        return self._peeked[index]

    def batch(self, index: int) -> Any:
        if self._iterator is None or index != self._position or (index == 0 and not self._peeked):
            self._begin()
        while self._position < index:  # a pass that is taken up in its middle
            self._next()
        return self._next()

    def _next(self) -> Any:
        found = self._peeked.pop(0) if self._peeked else self._draw(self._position)
        self._position += 1
        return found

    def _draw(self, position: int) -> Any:
        assert self._iterator is not None
        try:
            return next(self._iterator)
        except StopIteration:
            self._iterator = None
            if self.length is not None:
                says = f"ended after {position} of length={self.length} batches"
            else:
                says = (
                    f"ended after {position} batches: give Loader length={position}, and each epoch starts it anew, "
                    "or let it yield for ever and give fit steps_per_epoch"
                )
            raise ValueError(f"Loader: the iterator of {name_of(self.function)} {says}") from None

    def _begin(self) -> None:
        close = getattr(self._iterator, "close", None)
        self._iterator, self._position, self._peeked = None, 0, []
        if close is not None:
            close()
        self._iterator = iter(self.function())


Source = Items | Calls | Stream


def source_of(given: Any, length: float | None) -> tuple[Source, int | None]:
    """The source that was meant, and its number of batches; None if it never ends."""
    count = _checked(length)
    if hasattr(type(given), "__getitem__") and not isinstance(given, (type, dict, str, bytes)):
        return Items(given), _length_of(given, length, count)
    if not callable(given):
        raise TypeError(
            f"Loader: batches cannot be loaded from a {type(given).__name__}; give a PyDataset, a function of the "
            "index with length=, an object with __len__ and __getitem__, or a function that returns an iterator"
            + (" (the function, not what it returns)" if isinstance(given, Iterator) else "")
        )
    if not _takes_an_index(given):
        return Stream(given, count), count
    if length is None:
        raise ValueError(
            f"Loader: give length=, how many batches {name_of(given)} has in an epoch "
            "(math.inf if it never ends; then fit needs steps_per_epoch)"
        )
    return Calls(given), count


def _checked(length: float | None) -> int | None:
    if length is None or (isinstance(length, float) and length == math.inf):
        return None
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise ValueError(f"Loader: length must be a number of batches, 1 or more, or math.inf, not {length!r}")
    return length


def _length_of(given: Any, length: float | None, count: int | None) -> int | None:
    name = type(given).__name__
    if hasattr(type(given), "num_batches"):
        own = given.num_batches
    elif hasattr(type(given), "__len__"):
        own = len(given)
    elif length is None:
        raise ValueError(f"Loader: a {name} has no __len__; give length=, its number of batches")
    else:
        return count
    if length is not None and count != own:
        raise ValueError(f"Loader: length={length}, but the {name} has {own} batches; leave out length=")
    if own is not None and own < 1:
        raise ValueError(f"Loader: the {name} has no batches")
    return None if own is None else int(own)


def _takes_an_index(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(each.kind in positional and each.default is inspect.Parameter.empty for each in parameters):
        return True
    return not inspect.isgeneratorfunction(function) and any(
        each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters
    )


def name_of(given: Any) -> str:
    name: str = getattr(given, "__name__", type(given).__name__)
    return name


# --- are two batches, or two states of a source, the same? --------------------------------------------------------


def leaves_of(batch: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of tuples, lists and dictionaries with their paths."""
    if isinstance(batch, dict):
        for key, value in batch.items():
            for path, leaf in leaves_of(value):
                yield f".{key!r}{path}", leaf
    elif isinstance(batch, (tuple, list)):
        for place, value in enumerate(batch):
            for path, leaf in leaves_of(value):
                yield f".{type(batch).__name__}{place}{path}", leaf
    else:
        yield "", batch


def weight_of(batch: Any) -> int:
    """The bytes of a batch's arrays."""
    return sum(int(getattr(leaf, "nbytes", 0)) for _, leaf in leaves_of(batch))


def fingerprint(batch: Any) -> bytes | None:
    """Equal for equal batches, also in another process; None for what cannot be told."""
    import numpy as np

    digest = hashlib.blake2b(digest_size=16)
    try:
        for path, leaf in leaves_of(batch):
            digest.update(path.encode())
            if isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject:
                digest.update(f"{leaf.dtype.str}{leaf.shape}".encode())
                digest.update(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data)
            else:
                digest.update(pickle.dumps(leaf, protocol=5))
    except Exception:
        return None
    return digest.digest()


def trace_of(parts: Sequence[memoryview]) -> bytes:
    """A digest of a pickled source that shows whether loading changes it; samples are enough for large arrays."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if part.nbytes <= LARGE:
            digest.update(part)
        else:
            for start in (0, part.nbytes // 2, part.nbytes - SAMPLE):
                digest.update(part[start : start + SAMPLE])
    return digest.digest()


def chance() -> bytes:
    """The state of the generators that a process has only one of: who draws from them changes it."""
    digest = hashlib.blake2b(repr(random.getstate()).encode(), digest_size=16)
    if numpy := sys.modules.get("numpy"):
        state = numpy.random.get_state(legacy=False)["state"]
        digest.update(state["key"].tobytes() + repr(state["pos"]).encode())
    if torch := sys.modules.get("torch"):
        digest.update(torch.get_rng_state().numpy().tobytes())
    return digest.digest()
