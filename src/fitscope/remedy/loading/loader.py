"""Batches loaded beside the training, by threads or processes, whichever is faster here."""

from __future__ import annotations

import itertools
import random
import sys
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

import keras
import numpy as np

from fitscope.remedy.loading.batches import Items, Stream, source_of
from fitscope.remedy.loading.choice import Chooser
from fitscope.remedy.loading.lanes import Crew
from fitscope.remedy.loading.passes import Pass
from fitscope.remedy.loading.workers import UnusableError

REMEMBERED = 4
"""Passes that are kept in mind: somebody may read two of them in turn."""


class Loader(keras.utils.PyDataset):  # type: ignore[misc]
    """Loads batches beside the training; `fit`, `evaluate` and `predict` take it on all backends.

    >>> import numpy as np, keras, fitscope
    >>> def batch(index):
    ...     x = np.full((8, 4), index, "float32")
    ...     return x, x.sum(axis=1)
    >>> model = keras.Sequential([keras.layers.Dense(1)])
    >>> model.compile(loss="mse")
    >>> with fitscope.Loader(batch, length=10) as loader:
    ...     history = model.fit(loader, epochs=2, verbose=0)
    >>> len(history.history["loss"])
    2

    `source` is a `keras.utils.PyDataset`, an object with `__len__` and `__getitem__`, a function of the index (then
    give `length`, the number of batches in an epoch, or `math.inf`), or a function that returns an iterator: that one
    is read in order, ahead of the training, and called anew for each epoch of `length` batches. Without `length` it
    must go on for ever, and `fit` needs `steps_per_epoch`.

    `workers="auto"` tries threads, processes, and neither, on the first batches of the training, and keeps what is
    fastest. `processes=True` or `False` leaves no choice between the two, a number of workers is not questioned, and
    0 loads in the thread that reads. By itself, a Loader uses several workers only for a source that gives the same
    batch for the same index and does not change when it is read. One that counts, draws from `numpy.random`, or
    cannot be pickled (it holds a lock or a connection) is loaded one batch at a time and in order; give a number to
    overrule that. In processes, each batch then begins with random numbers of its own, made from `seed`. `ahead` is
    how many batches are made ready before they are needed.

    The order is what `fit` asks for: `fit(shuffle=True)`, its default, shuffles the batches of a finite source. With
    `shuffle=True` or `False` the Loader decides instead, from `seed`, and the same batches come in the same order
    whatever `fit` says. An exception in the source is raised in `fit` at its batch, with a note of its index.

    Worker processes are fresh ones: they do not run the script again, and end with the training's process, even if
    that is killed. They get the source by value, again at the start of an epoch if it has changed, and return arrays
    through shared memory. `close()`, the end of `with`, or the end of the program ends them. `print(loader)` says
    what was chosen, and why.
    """

    def __init__(
        self,
        source: Any,
        workers: int | str = "auto",
        *,
        processes: bool | None = None,
        length: float | None = None,
        ahead: int | None = None,
        shuffle: bool | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(workers=1)
        if workers != "auto" and (isinstance(workers, (str, bool)) or not isinstance(workers, int) or workers < 0):
            raise ValueError(f'Loader: workers must be "auto" or a number, 0 or more, not {workers!r}')
        if ahead is not None and (isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < 1):
            raise ValueError(f"Loader: ahead must be a number of batches, 1 or more, not {ahead!r}")
        if workers == 0 and processes:
            raise ValueError("Loader: workers=0 loads in the thread that reads; leave out processes=True")
        self.source = source
        self._reader, self._length = source_of(source, length)
        if self._reader.in_order and not isinstance(workers, str) and workers > 1:
            raise ValueError(
                "Loader: an iterator is read in order, by one worker at most; give a function of the index"
            )
        if shuffle and self._reader.in_order:
            raise ValueError("Loader: an iterator has an order of its own; leave out shuffle=True")
        if shuffle and self._length is None:
            raise ValueError("Loader: a source without an end cannot be shuffled; leave out shuffle=True")
        self._shuffle = False if self._reader.in_order else shuffle
        self._seed = random.getrandbits(32) if seed is None else seed
        self._number = 0
        self._walks: list[_Walk] = []
        self._crew = Crew(self._reader, keras.config.backend(), self._seed, strict=bool(processes))
        count = None if isinstance(workers, str) else int(workers)
        if self._reader.in_order and processes:
            count = 1
        self._end = weakref.finalize(self, self._crew.close, wait=False)
        try:
            self._chooser = Chooser(self._crew, count, processes, ahead)
        except UnusableError as error:
            raise ValueError(f"Loader: {error}; leave out processes=True to load with threads") from error.__cause__

    # --- what Keras asks ----------------------------------------------------------------------------------------

    @property
    def num_batches(self) -> int | None:
        """Batches in an epoch; None without an end."""
        if isinstance(self._reader, Items) and hasattr(type(self.source), "num_batches"):
            self._length = self.source.num_batches
        return self._length

    def __len__(self) -> int:
        if (found := self.num_batches) is None:
            raise TypeError("this Loader has no end")
        return found

    def __getitem__(self, index: int) -> Any:
        asked = _asking(sys._getframe(1))
        if asked is None:
            return self._look(index)
        walk = self._walk_of(asked, index)
        if walk is None:
            return self._look(index)
        return self._chooser.read(walk.walk, index if walk.where is None else walk.where[index])

    def __iter__(self) -> Iterator[Any]:
        length = self.num_batches
        walk = self._new_pass(None if length is None else range(length))
        for position in itertools.count() if length is None else range(length):
            yield self._chooser.read(walk, position)

    def on_epoch_begin(self) -> None:
        """Keras calls it; the source's own method is called when no batch is being loaded."""
        self._tell("on_epoch_begin")

    def on_epoch_end(self) -> None:
        """As `on_epoch_begin`."""
        self._tell("on_epoch_end")

    def _tell(self, name: str) -> None:
        method = getattr(self.source, name, None) if isinstance(self._reader, Items) else None
        if method is None or getattr(method, "__func__", None) is getattr(keras.utils.PyDataset, name):
            return
        with self._crew.at_rest():
            method()

    # --- reading ------------------------------------------------------------------------------------------------

    def _look(self, index: int) -> Any:
        """A batch that is not part of a pass: Keras looks at shapes, or you at a batch."""
        return self._crew.load_alone(
            index, self._reader.peek if isinstance(self._reader, Stream) else self._reader.batch
        )

    def _walk_of(self, asked: _Asked, index: int) -> _Walk | None:
        """The pass that this read belongs to; None if it is Keras that only wants to know shapes."""
        for walk in self._walks:
            if walk.asked.order is asked.order and not (asked.order is None and index == 0):
                return walk
        if asked.builds():
            return None
        found = _Walk(asked, self._new_pass(asked.order), None)
        if isinstance(asked.order, list):
            found.where = {index: position for position, index in enumerate(asked.order)}
        self._walks = [found, *(walk for walk in self._walks if walk.asked.order is not asked.order)][:REMEMBERED]
        return found

    def _new_pass(self, order: Sequence[int] | None) -> Pass:
        if order is not None and self._shuffle is not None:
            order = range(len(order))
            if self._shuffle:
                order = np.random.default_rng([self._seed, self._number]).permutation(len(order)).tolist()
        self._number += 1
        return Pass(order, self._number)

    # --- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends all threads and processes; batches can no longer be read."""
        self._end.detach()
        self._crew.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        size = "without an end" if self._length is None else f"of {self._length} batches"
        return f"<fitscope.Loader {size}, {self._crew.plan}: {self._chooser.why}>"


@dataclass(frozen=True)
class _Asked:
    """A read by Keras' own walk over the batches."""

    order: Sequence[int] | None
    """The indices in the order in which Keras will ask for them. There is one such object in each walk."""
    frame: FrameType

    def builds(self) -> bool:
        """Whether Keras reads one batch to build the model, and will begin again afterwards."""
        frame: FrameType | None = self.frame
        for _ in range(20):
            if frame is None:
                break
            if frame.f_code.co_name == "_symbolic_build":
                return True
            frame = frame.f_back
        return False


@dataclass
class _Walk:
    """A walk of Keras and the pass that it reads."""

    asked: _Asked
    walk: Pass
    where: dict[int, int] | None
    """At which position Keras asks for an index, if not at that one."""


def _asking(frame: FrameType | None) -> _Asked | None:
    """Keras' walk, if it is what asks. It alone knows its order, which may be random.

    If Keras changes here, nothing is found, and each batch is loaded when it is asked for: slower, but the same one.
    """
    for _ in range(3):  # who records the training may stand between
        if frame is None:
            return None
        name = frame.f_code.co_name
        if name in ("_finite_generator", "_infinite_generator") and "data_adapters" in frame.f_code.co_filename:
            if name == "_infinite_generator":
                return _Asked(None, frame)
            order = frame.f_locals.get("indices")
            return _Asked(order, frame) if isinstance(order, (list, range)) else None
        frame = frame.f_back
    return None
