"""Protocol buffers as they lie in a file: fields by number, without a schema and without a library.

An XSpace has a dozen kinds of fields in all; reading them takes one loop, and no backend has to be installed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
LONGEST_VARINT = 63


class DamagedError(ValueError):
    """The bytes are no message: cut off, or something else altogether."""


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of every field of a message; a message in a message is a view of its bytes."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at, end)
        kind = tag & 7
        if kind == VARINT:
            value, at = _varint(data, at, end)
            yield tag >> 3, value
            continue
        if kind == BYTES:
            size, at = _varint(data, at, end)
        elif kind == FIXED64:
            size = 8
        elif kind == FIXED32:
            size = 4
        else:
            raise DamagedError("a field of no known kind")
        if at + size > end or tag >> 3 == 0:
            raise DamagedError("a field that goes past the end")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    if at >= end:
        raise DamagedError("cut off")
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    value = byte & 0x7F
    shift = 7
    while True:
        if at >= end:
            raise DamagedError("cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > LONGEST_VARINT:
            raise DamagedError("a number that is too long")


def packed(data: memoryview) -> list[int]:
    """Numbers that lie one after the other in one field."""
    found, at = [], 0
    while at < len(data):
        value, at = _varint(data, at, len(data))
        found.append(value)
    return found


def signed(value: int) -> int:
    """An int64, which is written as if it were unsigned."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(data: memoryview) -> float:
    """A 64-bit floating point number."""
    return float(struct.unpack("<d", data)[0])
