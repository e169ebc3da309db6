"""Making a store: chunk after chunk, so that a kill at any moment loses one at most."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fitscope.remedy.storing.elements import StoreError, array_of, dtype_name, dtype_of
from fitscope.remedy.storing.records import BEGUN, HEADER, JOURNAL, LOCK, MANIFEST, Plan

Column = np.ndarray[Any, Any] | list[Any]
"""One leaf of several elements: stacked, or one by one."""


class Writer:
    """Writes elements in order, chunk by chunk; begins where the last complete chunk ended."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.plan = plan
        self.chunks = _journal(folder)
        self.rows = sum(chunk["rows"] for chunk in self.chunks)
        leaves = plan.layout.leaves
        self._files = [_LeafFiles(folder, plan, number, self.chunks) for number in range(len(leaves))]
        self._rows_pending = 0
        self._log = (folder / JOURNAL).open("ab")
        self._log.truncate(sum(len(_line(chunk)) for chunk in self.chunks))

    @property
    def pending(self) -> int:
        """Bytes that are not on disk yet."""
        return sum(files.pending for files in self._files)

    def add(self, rows: int, columns: Sequence[Column]) -> None:
        for files, column in zip(self._files, columns, strict=True):
            files.add(column)
        self._rows_pending += rows

    def flush(self) -> None:
        """Puts what was added on disk; from now on it survives a kill."""
        if not self._rows_pending:
            return
        chunk = {"rows": self._rows_pending, "leaves": [files.flush() for files in self._files]}
        self._log.write(_line(chunk))
        self._log.flush()
        os.fsync(self._log.fileno())
        self.chunks.append(chunk)
        self.rows += self._rows_pending
        self._rows_pending = 0

    def finish(self) -> None:
        """Makes the folder a store, at once, by the rename of its manifest."""
        self.flush()
        if self.rows != self.plan.length:
            raise StoreError(
                f"The dataset announced {self.plan.length:,} elements and gave {self.rows:,}: correct its length "
                f"and delete {self.folder}."
            )
        leaves = [files.finish(self.plan.length) for files in self._files]
        value = {**self.plan.to_json(), "leaves": leaves, "chunks": self.chunks}
        write_atomically(self.folder / MANIFEST, json.dumps(value).encode())
        self.close()
        for files in self._files:
            files.tidy()
        for name in (JOURNAL, BEGUN):
            (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        self._log.close()
        for files in self._files:
            files.close()


class _LeafFiles:
    """The files of one leaf while it is written: values, the shape of each element, the length of each text."""

    def __init__(self, folder: Path, plan: Plan, number: int, chunks: list[dict[str, Any]]) -> None:
        self.folder = folder
        self.leaf = leaf = plan.layout.leaves[number]
        self._named = functools.partial(plan.file, number)
        self.dtype = dtype_of(leaf.dtype)
        parts = ("values", "shapes", "lengths") if leaf.is_text else ("values", "shapes")
        self._ends = {part: sum(chunk["leaves"][number][part][0] for chunk in chunks) for part in parts}
        self._open = {part: os.open(self._path(part), os.O_RDWR | os.O_CREAT, 0o666) for part in parts}
        for part in parts:
            held = os.fstat(self._open[part]).st_size
            if chunks and held < self._ends[part] + (HEADER if part == "values" else 0):
                raise StoreError(f"{self._path(part)} is shorter than its journal says: delete {folder}.")
        self._pending: dict[str, list[Any]] = {part: [] for part in parts}
        self.pending = 0

    def _path(self, part: str) -> Path:
        return self.folder / (self._named() if part == "values" else self._named(f"raw-{part}"))

    def add(self, column: Column) -> None:
        if isinstance(column, np.ndarray) and not self.leaf.is_text:
            if dtype_name(column.dtype) != self.leaf.dtype or column.ndim != self.leaf.rank + 1:
                array_of(self.leaf, column[0])
            shape = np.array(column.shape[1:], np.int64)
            self._take("values", np.ascontiguousarray(column))
            self._take("shapes", np.tile(shape, (len(column), 1)))
            return
        for value in column:
            array = array_of(self.leaf, value)
            self._take("shapes", np.array(array.shape, np.int64))
            if self.leaf.is_text:
                texts = [item.encode() if isinstance(item, str) else item for item in array.ravel()]
                self._take("values", np.frombuffer(b"".join(texts), np.uint8))
                self._take("lengths", np.array([len(text) for text in texts], np.int64))
            else:
                self._take("values", np.ascontiguousarray(array))

    def _take(self, part: str, array: np.ndarray[Any, Any]) -> None:
        self._pending[part].append(array)
        self.pending += array.nbytes

    def flush(self) -> dict[str, list[int]]:
        """Writes and syncs; says of each part how many bytes it wrote and their checksum."""
        written = {}
        for part, arrays in self._pending.items():
            flat = [array.reshape(-1).view(np.uint8) for array in arrays if array.size]
            data = np.concatenate(flat).data if len(flat) > 1 else flat[0].data if flat else b""
            if len(data):
                _write_all(self._open[part], data, self._ends[part] + (HEADER if part == "values" else 0))
                os.fsync(self._open[part])
            self._ends[part] += len(data)
            written[part] = [len(data), zlib.crc32(data)]
            arrays.clear()
        self.pending = 0
        return written

    def finish(self, rows: int) -> dict[str, Any]:
        """Writes the header and, where elements differ, where each begins; says how the leaf is to be read."""
        rank = self.leaf.rank
        shapes = np.fromfile(self._path("shapes"), np.int64, count=rows * rank).reshape(rows, rank)
        same = bool((shapes == shapes[:1]).all())
        shape = tuple(int(size) for size in shapes[0]) if same else None
        sides: dict[str, list[int]] = {}
        items = np.prod(shapes, axis=1, dtype=np.int64)
        if not same:
            sides["starts"] = self._side("starts", np.concatenate([[0], np.cumsum(items)]))
            sides["shapes"] = self._side("shapes", shapes)
        if self.leaf.is_text:
            lengths = np.fromfile(self._path("lengths"), np.int64, count=int(items.sum()))
            sides["offsets"] = self._side("offsets", np.concatenate([[0], np.cumsum(lengths)]))
        total = self._ends["values"] // self.dtype.itemsize
        os.ftruncate(self._open["values"], HEADER + self._ends["values"])
        whole = (rows, *shape) if shape is not None and not self.leaf.is_text else (total,)
        _write_all(self._open["values"], _header(self.dtype, whole), 0)
        os.fsync(self._open["values"])
        return {"shape": shape, "bytes": HEADER + self._ends["values"], "sides": sides}

    def _side(self, part: str, array: np.ndarray[Any, Any]) -> list[int]:
        data = _header(array.dtype, array.shape) + array.astype(np.int64).tobytes()
        write_atomically(self.folder / self._named(part), data)
        return [len(data), zlib.crc32(data)]

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def tidy(self) -> None:
        for part in ("shapes", "lengths"):
            self._path(part).unlink(missing_ok=True)


SPEED = "speed.new"
"""A file that is there while the speed of the disk is measured."""

_OURS = re.compile(rf"({MANIFEST}|{BEGUN}|{JOURNAL}|{SPEED}|leaf-\d{{3}}-[0-9a-f]{{8}}(\.[a-z-]+)?\.npy)(\.new)?")


def remove(folder: Path) -> None:
    """Removes a store, complete or not, the mark of completeness first; other files stay."""
    (folder / MANIFEST).unlink(missing_ok=True)
    for path in sorted(folder.iterdir()):
        if _OURS.fullmatch(path.name):
            path.unlink(missing_ok=True)


def strangers(folder: Path) -> list[str]:
    """Names in a folder that no store has."""
    names = sorted(path.name for path in folder.iterdir())
    return [name for name in names if name != LOCK and not _OURS.fullmatch(name)]


def write_atomically(path: Path, data: bytes) -> None:
    """All of it or nothing, whatever happens meanwhile."""
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    with contextlib.suppress(OSError):  # Some file systems cannot sync a folder.
        os.fsync(directory)
    os.close(directory)


def _write_all(descriptor: int, data: Any, offset: int) -> int:
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], offset + done)
    return done


def _line(chunk: dict[str, Any]) -> bytes:
    text = json.dumps(chunk)
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def _journal(folder: Path) -> list[dict[str, Any]]:
    """The complete chunks; a line that a kill tore ends the list."""
    chunks = []
    data = (folder / JOURNAL).read_bytes() if (folder / JOURNAL).exists() else b""
    for line in data.splitlines(keepends=True):
        crc, _, text = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or crc.decode("ascii", "replace") != f"{zlib.crc32(text):08x}":
            break
        chunks.append(json.loads(text))
    return chunks


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """A `.npy` header of exactly HEADER bytes."""
    plain = dtype.str if dtype.kind != "V" else f"|V{dtype.itemsize}"
    text = repr({"descr": plain, "fortran_order": False, "shape": shape})
    space = HEADER - 10
    if len(text) >= space:
        raise StoreError(f"A leaf of {len(shape) - 1} dimensions cannot be stored.")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", space) + text.ljust(space - 1).encode() + b"\n"
