"""Hand-over between processes: values in anonymous shared memory, short messages beside them.

The memory has no name in any folder, so nothing is left when the processes that hold it end, however they end.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import struct
import tempfile
from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np

ALIGNMENT = 64
"""Of arrays in the memory; what JAX wants to take an array without a copy."""
_NUMBER = struct.Struct("<Q")


class Packed:
    """A value as one short pickle and the memory of its arrays, which is not copied."""

    def __init__(self, value: Any, by_value: bool = False) -> None:
        buffers: list[pickle.PickleBuffer] = []
        try:
            if by_value:
                raise pickle.PicklingError
            head = _dumps(_Pickler, value, buffers)
        except Exception:  # objects of the script itself: their classes travel, too
            buffers.clear()
            head = _dumps(_CloudPickler, value, buffers)
        self.parts: list[memoryview] = [memoryview(head), *(buffer.raw() for buffer in buffers)]
        lengths = [part.nbytes for part in self.parts]
        self._preface = b"".join(map(_NUMBER.pack, (len(lengths), *lengths)))
        self._starts, self.size = _lay_out(len(self._preface), lengths)

    def write(self, memory: memoryview) -> None:
        memory[: len(self._preface)] = self._preface
        target = np.frombuffer(memory, np.uint8)
        for start, part in zip(self._starts, self.parts, strict=True):
            # numpy copies without the interpreter lock
            np.copyto(target[start : start + part.nbytes], np.frombuffer(part, np.uint8))

    def equals(self, memory: memoryview) -> bool:
        """Whether this is what stands in the memory."""
        if memory.nbytes != self.size or memory[: len(self._preface)] != self._preface:
            return False
        there = np.frombuffer(memory, np.uint8)
        step = 1 << 20
        for start, part in zip(self._starts, self.parts, strict=True):
            here = np.frombuffer(part, np.uint8)
            for at in range(0, part.nbytes, step):
                piece = here[at : at + step]
                if not np.array_equal(piece, there[start + at : start + at + len(piece)]):
                    return False
        return True


def unpack(memory: memoryview) -> Any:
    """The value; its arrays are views of the memory."""
    count = _NUMBER.unpack_from(memory)[0]
    lengths = [_NUMBER.unpack_from(memory, _NUMBER.size * (each + 1))[0] for each in range(count)]
    starts, _ = _lay_out(_NUMBER.size * (count + 1), lengths)
    parts = [memory[start : start + length] for start, length in zip(starts, lengths, strict=True)]
    return pickle.loads(parts[0], buffers=parts[1:])


def copy_out(memory: memoryview) -> memoryview:
    """The same bytes in new memory of this process."""
    spare = np.empty(memory.nbytes + ALIGNMENT, np.uint8)
    start = -spare.ctypes.data % ALIGNMENT
    copy = spare[start : start + memory.nbytes]
    np.copyto(copy, np.frombuffer(memory, np.uint8))
    return copy.data


def _lay_out(start: int, lengths: Sequence[int]) -> tuple[list[int], int]:
    starts = []
    for length in lengths:
        start += -start % ALIGNMENT
        starts.append(start)
        start += length
    return starts, start


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return _reduce_strided(value)


class _CloudPickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, value: Any) -> Any:
        found = _reduce_strided(value)
        return super().reducer_override(value) if found is NotImplemented else found


def _reduce_strided(value: Any) -> Any:
    """numpy puts arrays with gaps into the pickle itself; a compact copy is handed over like all others."""
    if type(value) is not np.ndarray or value.dtype.hasobject or value.flags.c_contiguous or value.flags.f_contiguous:
        return NotImplemented
    return np.ascontiguousarray(value).__reduce_ex__(5)


def _dumps(pickler: Any, value: Any, buffers: list[pickle.PickleBuffer]) -> bytes:
    file = io.BytesIO()
    pickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
    return file.getvalue()


class Memory:
    """Shared memory without a name; who has its descriptor has it, and the last one who lets go ends it."""

    _close = staticmethod(os.close)  # at the end of the program, modules may be gone before this object

    def __init__(self, descriptor: int | None = None, private: bool = False) -> None:
        self.descriptor = _anonymous() if descriptor is None else descriptor
        self._private = private
        """Writing changes a copy of one's own."""
        self._map: mmap.mmap | None = None
        self._size = 0

    def view(self, size: int) -> memoryview:
        """The first bytes. Not to be used after the next call with a larger size."""
        if self._map is None or size > self._size:
            there = os.fstat(self.descriptor).st_size
            if size > there:
                there = size + size // 4 if there else size
                os.ftruncate(self.descriptor, there)
            flags = mmap.MAP_PRIVATE if self._private else mmap.MAP_SHARED
            self._map, self._size = mmap.mmap(self.descriptor, there, flags), there
        return memoryview(self._map)[:size]

    def close(self) -> None:
        """Lets go of it; views that are still used stay valid."""
        self._map = None
        if self.descriptor >= 0:
            self._close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()


def _anonymous() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("fitscope", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Channel:
    """Short messages and descriptors, in order, between two processes; EOFError when the other one is gone."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, *message: Any) -> None:
        text = pickle.dumps(message, protocol=5)
        self._end.sendall(_NUMBER.pack(len(text)) + text)

    def receive(self) -> tuple[Any, ...]:
        length = _NUMBER.unpack(self._read(_NUMBER.size))[0]
        message: tuple[Any, ...] = pickle.loads(self._read(length))
        return message

    def send_memory(self, memory: Memory) -> None:
        socket.send_fds(self._end, [b"m"], [memory.descriptor])

    def receive_memory(self) -> Memory:
        _, descriptors, _, _ = socket.recv_fds(self._end, 1, 1)
        if not descriptors:
            raise EOFError
        return Memory(descriptors[0], private=True)

    def _read(self, length: int) -> bytearray:
        found = bytearray(length)
        rest = memoryview(found)
        while rest.nbytes:
            count = self._end.recv_into(rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return found

    def hang_up(self) -> None:
        """Wakes whoever waits here, on both sides."""
        try:
            self._end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def __del__(self) -> None:
        self._end.close()
