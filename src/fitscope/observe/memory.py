"""How fast this process goes through memory, measured once, where a large table is updated in every step."""

from __future__ import annotations

import sys
import time
from typing import Any

from fitscope.observe.calls import Call
from fitscope.observe.ledger import Ledger
from fitscope.observe.recorder import recorder

LARGE = 8_000_000
"""Bytes of a table from which on going through it in every step may cost something."""
PROBE = 32_000_000
"""Bytes of each of the two arrays that are gone through: more than caches hold."""

_tables: dict[int, bool] = {}


def table(root: int, size: int) -> None:
    """A training updates a table of so many bytes."""
    if size >= LARGE:
        _tables.setdefault(root, True)


def note(ledger: Ledger, call: Call) -> None:
    """A training is over: if it has a large table, notes how long memory takes, once."""
    if not _tables.get(call.root):
        return
    _tables[call.root] = False
    numpy: Any = sys.modules["numpy"]
    node = ledger.node
    ledger.enter(call.stations.own)
    one, other = (numpy.ones(PROBE // 4, "float32") for _ in range(2))
    times = []
    for _ in range(3):
        began = time.perf_counter()
        numpy.add(one, other, out=one)
        times.append(time.perf_counter() - began)
    ledger.back(node)
    recorder.fact("memory", lasting=True, root=call.root, seconds_per_byte=min(times) / PROBE)
