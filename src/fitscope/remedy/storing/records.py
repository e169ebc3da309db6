"""The store on disk: one `.npy` file per leaf of an element, and a manifest that says what is in them.

The files are plain `.npy`, and not ArrayRecord or TFRecord, because an element must be found by its index without
reading others (that is what shuffling needs), on three backends, without a dependency: numpy maps them into memory,
and TensorFlow maps the very same files. Leaves whose shapes differ, and texts, are kept flat, with a second file that
says where each begins.

While a store is being made, a journal says which chunks are complete: the values are written and synced first, then a
line of the journal with their checksums. What lies behind the last line of the journal counts as not written, so that
a kill at any moment loses one chunk at most. `manifest.json` appears, by a rename, when everything else is on disk: a
folder without it is not opened.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fitscope.remedy.storing.elements import Layout, Leaf, Node, StoreError, dtype_of, value_of
from fitscope.version import __version__

if TYPE_CHECKING:
    from fitscope.remedy.storing.stacking import Remainder

SCHEMA = 1
HEADER = 256
"""Bytes before the values: numpy's header, padded so that it can be written last, and so that values are aligned."""

MANIFEST, BEGUN, JOURNAL, LOCK = "manifest.json", "begun.json", "journal.jsonl", "lock"


@dataclass(frozen=True)
class Plan:
    """What a store will hold, decided before its first element is written, and kept for a resumption."""

    layout: Layout
    length: int
    code: str
    """Fingerprint of the code that makes the elements."""
    inputs: str
    """Fingerprint of what that code reads."""
    cut: int
    """How many stages of the preprocessing are in the stored elements."""
    why: str
    """Why it was cut there, in a sentence for the user."""
    batch_size: int | None = None
    """Of the batches that the examples came in."""
    token: str = field(default_factory=lambda: os.urandom(4).hex())
    """In the names of the files: a process may still hold those of a store that was in this folder before."""

    def file(self, number: int, part: str = "") -> str:
        """The name of a file of a leaf: of its values, or of a part beside them."""
        return f"leaf-{number:03d}-{self.token}{part and '.'}{part}.npy"

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "fitscope": __version__, **asdict(self)}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Plan:
        leaves = tuple(Leaf(each["kind"], each["dtype"], tuple(each["static"])) for each in value["layout"]["leaves"])
        layout = Layout(value["layout"]["structure"], leaves)
        names = ("length", "code", "inputs", "cut", "why", "batch_size", "token")
        return Plan(layout, **{name: value[name] for name in names})


@dataclass
class Store:
    """Elements on disk, complete and checked, found by their index; made by `materialize`.

    `Store(folder)` opens one without asking whether the code that made it is still the same: call
    `fitscope.materialize` with the dataset for that; it opens a store that is complete at once.

    >>> import tempfile
    >>> import fitscope
    >>> folder = tempfile.mkdtemp()
    >>> store = fitscope.materialize([(1.5, "one"), (2.5, "three")], folder)
    >>> len(store), store[1]
    (2, (2.5, 'three'))
    >>> fitscope.remedy.storing.records.Store(folder)[0]
    (1.5, 'one')
    """

    folder: Path
    remainder: Remainder | None = field(default=None, repr=False)
    """The part of a tf.data pipeline that was not stored; `as_tf` puts it on top of the stored elements."""

    def __init__(self, folder: str | os.PathLike[str], remainder: Remainder | None = None) -> None:
        self.folder = Path(folder)
        self.remainder = remainder
        value = read_manifest(self.folder)
        if value is None:
            begun = (self.folder / BEGUN).exists()
            raise StoreError(
                f"{self.folder} is not complete: call fitscope.materialize again with the same dataset, it resumes."
                if begun
                else f"{self.folder} holds no store: make one with fitscope.materialize(dataset, folder)."
            )
        self.plan = Plan.from_json(value)
        self._chunks = value["chunks"]
        self._leaves = value["leaves"]
        for name, size in self._sizes():
            held = (self.folder / name).stat().st_size if (self.folder / name).exists() else None
            if held != size:
                raise StoreError(
                    f"{self.folder / name} has {held} bytes where its manifest says {size}: it was changed or lost; "
                    "make the store again with overwrite=True."
                )
        self._columns = [self._column(number) for number in range(len(self._leaves))]

    def _sizes(self) -> Iterator[tuple[str, int]]:
        for number, leaf in enumerate(self._leaves):
            yield self.plan.file(number), leaf["bytes"]
            for part, (size, _) in leaf["sides"].items():
                yield self.plan.file(number, part), size

    def _column(self, number: int) -> _Column:
        sides = {
            part: np.asarray(np.load(self.folder / self.plan.file(number, part), mmap_mode="r"))
            for part in self._leaves[number]["sides"]
        }
        leaf, shape = self.plan.layout.leaves[number], self._leaves[number]["shape"]
        values = _mapped(self.folder / self.plan.file(number), dtype_of(leaf.dtype))
        return _Column(leaf, values, None if shape is None else tuple(shape), len(self), **sides)

    @property
    def why(self) -> str:
        """Why the preprocessing was cut where it was."""
        return self.plan.why

    @property
    def nbytes(self) -> int:
        """Bytes on disk, without the manifest."""
        return sum(size for _, size in self._sizes())

    def __len__(self) -> int:
        return self.plan.length

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range: the store has {len(self)} elements")
        index %= len(self)
        leaves = [value_of(column.leaf, column.one(index)) for column in self._columns]
        return self.plan.layout.pack(leaves)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.folder,)

    def batch(self, indices: Sequence[int] | np.ndarray[Any, Any]) -> Any:
        """These elements as one batch, in the structure of an element, with its arrays stacked."""
        chosen = np.asarray(indices, np.int64)
        return self.plan.layout.pack([column.stacked(chosen) for column in self._columns])

    def verify(self) -> None:
        """Reads everything and compares it with the checksums that were noted when it was written."""
        for number, leaf in enumerate(self._leaves):
            path = self.folder / self.plan.file(number)
            with path.open("rb") as file:
                file.seek(HEADER)
                for chunk, written in enumerate(self._chunks):
                    size, crc = written["leaves"][number]["values"]
                    if _checksum(file, size) != crc:
                        first = sum(each["rows"] for each in self._chunks[:chunk])
                        raise StoreError(
                            f"{path} is damaged in elements {first} to {first + written['rows'] - 1}: make the store "
                            "again with overwrite=True."
                        )
            for part, (size, crc) in leaf["sides"].items():
                side = self.folder / self.plan.file(number, part)
                with side.open("rb") as file:
                    if _checksum(file, size) != crc:
                        raise StoreError(f"{side} is damaged: make the store again with overwrite=True.")

    def as_tf(self) -> Any:
        """A tf.data.Dataset of the elements; the rest of the pipeline it was made from is applied on top.

        Shuffling, repeating, batching and everything random happen anew in each epoch, as before. A store that was
        opened by its folder alone knows of no pipeline and gives its elements one by one.
        """
        from fitscope.remedy.storing.views import as_tf

        return as_tf(self)

    def as_pydataset(
        self,
        batch_size: int | None = None,
        shuffle: bool = False,
        seed: int | None = None,
        augment: Any = None,
        **options: Any,
    ) -> Any:
        """A `keras.utils.PyDataset` of batches, for `fit` on every backend.

        Without `batch_size` it has the batches that the store was made from. `augment` is called with each batch:
        put there what must be random. `options` go to PyDataset (`workers=`, `use_multiprocessing=`).
        """
        from fitscope.remedy.storing.views import as_pydataset

        return as_pydataset(self, batch_size, shuffle, seed, augment, options)

    def as_torch(self, augment: Any = None) -> Any:
        """A map-style torch Dataset of examples; arrays are tensors; `augment` is called with each example."""
        from fitscope.remedy.storing.views import as_torch

        return as_torch(self, augment)

    def columns(self) -> list[_Column]:
        """The leaves of all elements, mapped into memory."""
        return self._columns


@dataclass(frozen=True)
class _Column:
    """One leaf of all elements, mapped into memory."""

    leaf: Leaf
    values: np.ndarray[Any, Any]
    shape: tuple[int, ...] | None
    """Of every element, or None where they differ."""
    length: int
    starts: np.ndarray[Any, Any] | None = None
    shapes: np.ndarray[Any, Any] | None = None
    offsets: np.ndarray[Any, Any] | None = None

    def one(self, index: int) -> np.ndarray[Any, Any]:
        if self.shape is not None:
            size = math.prod(self.shape)
            start, end, shape = index * size, (index + 1) * size, self.shape
        else:
            assert self.starts is not None
            assert self.shapes is not None
            start, end, shape = int(self.starts[index]), int(self.starts[index + 1]), tuple(self.shapes[index])
        if self.offsets is None:
            return np.array(self.values[start:end]).reshape(shape)
        found = np.empty(end - start, object)
        for item in range(start, end):
            text = self.values[self.offsets[item] : self.offsets[item + 1]].tobytes()
            found[item - start] = text.decode() if self.leaf.kind.endswith("str") else text
        return found.reshape(shape)

    def stacked(self, indices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if self.shape is not None and self.offsets is None:
            table = self.values.reshape(self.length, *self.shape)
            if len(indices) and (np.diff(indices) == 1).all():
                return np.array(table[indices[0] : indices[-1] + 1])
            return np.asarray(table[indices])
        rows = [self.one(int(index)) for index in indices]
        if len({row.shape for row in rows}) > 1:
            raise ValueError(
                f"Elements of the shapes {rows[0].shape} and others cannot be stacked to a batch: pad them before "
                "they are stored, or use batch_size=1."
            )
        stacked = np.empty((len(rows), *rows[0].shape), object if self.offsets is not None else rows[0].dtype)
        for number, row in enumerate(rows):
            stacked[number] = row[()] if row.ndim == 0 else row
        return stacked


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a complete store, None where there is none; refuses one of a later fitscope."""
    return _read_plan(folder / MANIFEST)


def read_begun(folder: Path) -> Plan | None:
    """The plan of a store that is not complete, None where there is none."""
    value = _read_plan(folder / BEGUN)
    return None if value is None else Plan.from_json(value)


def _read_plan(path: Path) -> dict[str, Any] | None:
    try:
        value: Node = json.loads(path.read_bytes())
        schema = value["schema"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is not a manifest of fitscope: delete {path.parent}.") from error
    if schema != SCHEMA:
        age = "later" if schema > SCHEMA else "earlier"
        raise StoreError(
            f"{path.parent} was made by a {age} fitscope ({value.get('fitscope')}, schema {schema}; this is "
            f"{__version__}, schema {SCHEMA}): delete {path.parent} or pass overwrite=True to make it again."
        )
    return value


def _mapped(path: Path, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """All values of a file in one row; a plain array, because numpy's memmap is slow to index."""
    if path.stat().st_size == HEADER:
        return np.empty(0, dtype)
    return np.asarray(np.memmap(path, np.uint8, mode="r", offset=HEADER)).view(dtype)


def _checksum(file: Any, size: int) -> int:
    crc = 0
    while size:
        block = file.read(min(size, 1 << 22))
        if not block:
            return -1
        size -= len(block)
        crc = zlib.crc32(block, crc)
    return crc
