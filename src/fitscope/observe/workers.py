"""What worker processes of a loader are, and what they hand out: noted as a fact of the training."""

from __future__ import annotations

from typing import Any

from fitscope.observe.recorder import recorder
from fitscope.observe.seams import place_of

_PLAIN = {f"builtins.{kind}" for kind in ("NoneType", "bool", "float", "int", "range", "str")}
_ARRAYS = {"numpy.ndarray", "torch.Tensor"}
_CONTAINERS = {"builtins.dict", "builtins.list", "builtins.tuple"}
MOST_LOOKED_AT = 20
"""Items of a list that are looked at."""


def record_workers(root: int, source: str, iterator: Any) -> None:
    """Says how many processes a DataLoader reads with, whether they outlive an epoch, and what they read."""
    if workers := getattr(iterator, "_num_workers", 0):
        dataset = _whole(getattr(iterator, "_dataset", None))
        file, line = place_of(getattr(type(dataset), "__getitem__", None)) or (None, None)
        recorder.fact(
            "workers",
            root=root,
            source=source,
            workers=workers,
            processes=True,
            persistent=bool(getattr(iterator, "_persistent_workers", False)),
            rows=getattr(getattr(iterator, "_index_sampler", None), "batch_size", None),
            stacked=getattr(getattr(iterator, "_collate_fn", None), "__module__", "").startswith("torch.utils.data"),
            dataset=type(dataset).__name__,
            row_bytes=row_bytes(dataset),
            without=[name for name, held in getattr(dataset, "__dict__", {}).items() if held is None],
            file=file,
            line=line,
        )


def _whole(dataset: Any) -> Any:
    """The dataset that one of torch's own is a part of."""
    while type(dataset).__module__.startswith("torch.") and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    return dataset


def row_bytes(dataset: Any) -> int | None:
    """The size of a row, if all that a dataset holds is arrays and plain values in memory: no file, no function."""
    held = getattr(dataset, "__dict__", {})
    if type(dataset).__module__.startswith("torch."):
        held = {"tensors": held.get("tensors")}
    sizes = [_row(each) for each in held.values()]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) and any(known) else None


def _row(held: Any, depth: int = 2) -> int | None:
    """What a value adds to a row: that of an array, and of each array in a list; None if it may not be in memory."""
    kind = f"{type(held).__module__}.{type(held).__name__}"
    if kind in _PLAIN:
        return 0
    if kind in _ARRAYS:
        return int(held.nbytes) // max(1, len(held)) if held.ndim else 0
    if kind not in _CONTAINERS or not depth:
        return None
    items = list(held.values() if isinstance(held, dict) else held[:MOST_LOOKED_AT])[:MOST_LOOKED_AT]
    sizes = [_row(each, depth - 1) for each in items]
    return None if None in sizes else sum(size for size in sizes if size is not None)
