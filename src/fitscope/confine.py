"""Forbidding a child process to write outside of some folders, by the kernel (Landlock, Linux 5.13 and newer)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

CREATE, ADD, RESTRICT = 444, 445, 446
"""System calls, the same on all machines."""
NO_NEW_PRIVILEGES = 38
WRITE_FILE, REFER, TRUNCATE = 1 << 1, 1 << 13, 1 << 14
CHANGES = sum(1 << bit for bit in range(4, 13))
"""Making and removing files and folders of all kinds."""


class Guard:
    """A set of folders that may be written; a process that enters it, and its children, write nowhere else."""

    def __init__(self, rules: int, libc: ctypes.CDLL) -> None:
        self._rules = rules
        self._libc = libc

    @classmethod
    def beneath(cls, folders: Iterable[Path]) -> Guard | None:
        """A guard that allows these folders; None where the system has none to offer."""
        if not sys.platform.startswith("linux"):
            return None
        libc = ctypes.CDLL(None, use_errno=True)
        version = libc.syscall(CREATE, None, ctypes.c_size_t(0), 1)
        if version < 1:
            return None
        access = WRITE_FILE | CHANGES | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
        attributes = struct.pack("Q", access)
        rules = libc.syscall(CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
        if rules < 0:
            return None
        for folder in folders:
            with contextlib.suppress(OSError):
                place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
                try:
                    libc.syscall(ADD, rules, 1, struct.pack("=Qi", access, place), 0)
                finally:
                    os.close(place)
        return cls(rules, libc)

    def enter(self) -> None:
        """Confines this process for good: to be called between fork and exec."""
        self._libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if self._libc.syscall(RESTRICT, self._rules, 0) != 0:
            raise OSError(ctypes.get_errno(), "the process could not be confined")

    def close(self) -> None:
        """Gives the guard back."""
        os.close(self._rules)
