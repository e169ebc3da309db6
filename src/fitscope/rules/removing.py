"""How experiments take causes away: what the rules say of it, in the words that a proof prints."""

from __future__ import annotations

import re
from typing import Any

from fitscope.model import Part, Region, Removal
from fitscope.rules.hooks import BATCH_HOOK

HOOK = re.compile(r"(?P<callback>[\w()]+)\.(?P<hook>on_\w+)$")
MANY = 20
"""Steps of an epoch from which on it is long enough to have stretches of its own."""


def _by(region: Region, *, steps: bool) -> str:
    return "steps" if steps and region.steps >= MANY * max(1, region.epochs) else "epochs"


def hooks_off(region: Region, *parts: Part, **more: Any) -> Removal | None:
    """The training without these hooks."""
    found = [match for part in parts if (match := HOOK.search(part.name))]
    if region.call != "fit" or not found:
        return None
    hooks = [[match["callback"], match["hook"]] for match in found]
    batches = all(BATCH_HOOK.search(part.name) and part.phase != "validation" for part in parts)
    names = " and ".join(f"{callback}.{hook}" for callback, hook in hooks)
    return Removal("hooks", f"{names} off", region.where, _by(region, steps=batches), {"hooks": hooks, **more})


SAVERS = ("ModelCheckpoint.", "BackupAndRestore.")


def saving_off(region: Region, *parts: Part) -> Removal | None:
    """The training without writing the model to disk, or without the callbacks that do nothing else."""
    if all(part.name.startswith(SAVERS) for part in parts):
        return hooks_off(region, *parts)
    return Removal("saving", "nothing saved", region.where) if region.call == "fit" else None


def validation_off(region: Region) -> Removal | None:
    """The training without its validation."""
    return Removal("validation", "validation off", region.where)


def input_free(region: Region) -> Removal | None:
    """The training on one batch, again and again: what no input could be faster than."""
    if region.call != "fit":
        return None
    return Removal("replay", "one batch replayed from memory", region.where, bound=True)


def changed(region: Region, **settings: Any) -> Removal | None:
    """The training with other settings of `compile`."""
    if region.call != "fit":
        return None
    words = ", ".join(f"{name}={value}" for name, value in settings.items())
    return Removal("settings", words, region.where, arguments={"settings": settings})
