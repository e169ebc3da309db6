"""What worker processes of a loader are, and what they hand out: noted as a fact of the training."""

from __future__ import annotations

from typing import Any

from fitscope.observe.recorder import recorder
from fitscope.observe.seams import place_of

_PLAIN = ("NoneType", "bool", "dict", "float", "int", "list", "range", "str", "tuple")
_IN_MEMORY = {"numpy.ndarray", "torch.Tensor", *(f"builtins.{kind}" for kind in _PLAIN)}


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
            dataset=type(dataset).__name__,
            in_memory=is_in_memory(dataset),
            file=file,
            line=line,
        )


def _whole(dataset: Any) -> Any:
    """The dataset that one of torch's own is a part of."""
    while type(dataset).__module__.startswith("torch.") and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    return dataset


def is_in_memory(dataset: Any) -> bool:
    """Whether all that a dataset holds is arrays and tensors in memory, and plain values: no file, no function."""
    held = getattr(dataset, "__dict__", {})
    tensors = held.get("tensors") if type(dataset).__module__.startswith("torch.") else None
    kinds = {f"{type(each).__module__}.{type(each).__name__}" for each in tensors or held.values()}
    return bool(kinds) and kinds <= _IN_MEMORY
