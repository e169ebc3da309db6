"""Why a step was compiled again: each compilation is counted under its cause."""

from __future__ import annotations

from typing import Any

from fitscope.observe.calls import Call
from fitscope.observe.ledger import Place
from fitscope.observe.recorder import recorder

_examples: dict[tuple[int, str, str], str] = {}
"""What the first compilation of each cause looked like: the others are counted with it."""
_last: dict[tuple[int, str], tuple[Any, int]] = {}


def shapes(batch: Any) -> Any:
    """The shapes of a batch's arrays, as cheaply as they can be had."""
    if isinstance(batch, (tuple, list)):
        return tuple([shapes(item) for item in batch])
    if isinstance(batch, dict):
        return tuple([(key, shapes(item)) for key, item in batch.items()])
    return getattr(batch, "shape", None)


def note(owner: Any, function: str, nanoseconds: int, where: Place | None = None) -> None:
    """A function was compiled in a call or a loop: counts it under the cause that its batch shows."""
    signature, model = shapes(getattr(owner, "batch", None)), id(getattr(owner, "model", None))
    before = _last.get((owner.root, function))
    _last[owner.root, function] = (signature, model)
    region = owner.region if isinstance(owner, Call) else None
    if before is None or (region is not None and not region.steps):
        cause, detail = "first", ""  # until a first step is done the model is built, its layers one after another
    elif before[0] != signature:
        cause, detail = "changed shape", f"{_plain(before[0])} -> {_plain(signature)}"
    elif before[1] != model:
        cause, detail = "new function", "the model was built or compiled anew"
    else:
        cause, detail = "another argument", ""
    count(owner.root, function, cause, detail, nanoseconds, where)


def count(root: int, function: str, cause: str, detail: str, nanoseconds: int, where: Place | None = None) -> None:
    """One more compilation of a function, for a cause, called from that line."""
    example = _examples.setdefault((root, function, cause), detail[:200])
    row = recorder.compiles.row(root, function, cause, example, *(where or (None, None)))
    row[0] += 1
    row[1] += nanoseconds


def _plain(signature: Any) -> str:
    return str(signature).replace("TensorShape", "").replace("torch.Size", "")
