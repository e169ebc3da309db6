"""Loops over the examples inside a compiled step that the user's own layer or loss brings: `tf.map_fn`, `lax.map`."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable
from threading import get_ident
from types import FrameType
from typing import Any

from fitscope.observe.ledger import Place
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams, is_user

_OPS = tuple(os.path.join("keras", "src", *path) for path in (("ops", ""), ("backend", "tensorflow", "core"),
                                                                ("backend", "jax", "core")))  # fmt: skip


def hold(seams: Seams, owner: Any, names: Iterable[str], through: str = "") -> None:
    """Notes the user's line behind every such loop that is traced while something trains.

    `through`: only what comes through a file of that name; any other loop may be over time, or over anything.
    """
    for name in names:
        if hasattr(owner, name):
            seams.replace(owner, name, _noted(getattr(owner, name), through))


def _noted(original: Any, through: str) -> Any:
    @functools.wraps(original)
    def loop(*args: Any, **kwargs: Any) -> Any:
        ledger = recorder.ledgers.get(get_ident())
        training: Any = (ledger.call or ledger.loop) if ledger is not None else None
        if training is not None:
            where = _asked_by(sys._getframe(1), through)
            if where is not None:
                recorder.fact("loop-in-model", lasting=True, root=training.root, file=where.file, line=where.line)
        return original(*args, **kwargs)

    return loop


def _asked_by(frame: FrameType | None, through: str) -> Place | None:
    """The user's line that wants the loop; None where it is a layer of Keras' own, such as a recurrent one."""
    passed = not through
    while frame is not None:
        file = frame.f_code.co_filename
        passed = passed or os.path.basename(file) == through
        if os.path.join("keras", "src", "") in file and not any(part in file for part in _OPS):
            return None
        if is_user(file):
            return Place(file, frame.f_lineno) if passed else None
        frame = frame.f_back
    return None
