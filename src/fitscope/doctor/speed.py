"""How fast the disk is read and memory is copied, each measured in about a second."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

BLOCK = 1 << 20
MOST_WRITTEN = 128 * BLOCK
WRITING, READING, COPYING = 0.8, 0.7, 0.5
"""Seconds."""
COPIED = 64 * BLOCK


@dataclass(frozen=True)
class Read:
    """The rate at which a new file was read back; `how` says what stands between the disk and the number."""

    bytes_per_second: float
    how: str


def disk_rate(folder: Path) -> Read:
    """Writes a file that has no name, so that nothing is left whatever happens, and reads it past the cache."""
    with tempfile.TemporaryFile(dir=folder, prefix=".fitscope-") as file:
        size = _write(file.fileno())
        direct = getattr(os, "O_DIRECT", 0)
        if direct:
            with contextlib.suppress(OSError):
                again = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY | direct)
                try:
                    return Read(_read(again, size), "direct")
                finally:
                    os.close(again)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return Read(_read(file.fileno(), size), "dropped")
        return Read(_read(file.fileno(), size), "cached")


def _write(file: int) -> int:
    block = os.urandom(BLOCK)
    written, began = 0, time.perf_counter()
    while written < MOST_WRITTEN and (time.perf_counter() - began < WRITING or not written):
        written += os.write(file, block)
        os.fdatasync(file)
    return written - written % BLOCK


def _read(file: int, size: int) -> float:
    with mmap.mmap(-1, BLOCK) as buffer:  # begins at a page, as direct reads need it
        read, at, began = 0, 0, time.perf_counter()
        while True:
            read += os.preadv(file, [buffer], at)
            at = (at + BLOCK) % max(BLOCK, size)
            passed = time.perf_counter() - began
            if passed >= READING or (at == 0 and passed >= READING / 4):
                return read / passed


def copy_rate(threads: int) -> float:
    """Bytes per second that so many threads copy in memory together, read and written bytes both counted."""
    buffers = [(ctypes.create_string_buffer(COPIED), ctypes.create_string_buffer(COPIED)) for _ in range(threads)]
    rounds = [0] * threads
    stop = time.perf_counter() + COPYING

    def copy(index: int) -> None:
        source, target = buffers[index]
        while time.perf_counter() < stop:
            ctypes.memmove(target, source, COPIED)
            rounds[index] += 1

    workers = [threading.Thread(target=copy, args=(index,)) for index in range(threads)]
    for index in range(threads):
        ctypes.memmove(*buffers[index], COPIED)  # the first touch of new pages is not what is asked for
    began = time.perf_counter()
    stop = began + COPYING
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return 2 * COPIED * sum(rounds) / (time.perf_counter() - began)
