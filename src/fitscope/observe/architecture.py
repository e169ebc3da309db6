"""What a model is made of, as far as single causes ask for it: embeddings, recurrent layers, work along sequences."""

from __future__ import annotations

import math
import re
import sys
from typing import Any

from fitscope.observe import made, memory
from fitscope.observe.recorder import recorder

MOST_LAYERS = 50
"""Layers of one kind that are noted of one model."""

SEQUENTIAL = re.compile(r"RNN$|Attention$|Conv1D$|^(Bidirectional|GRU|LSTM)$")
"""The layers whose work grows with the length of a sequence."""


def note(root: int, model: Any, batch_size: int | None) -> None:
    """Notes the layers of a model that a rule may ask for, one fact each."""
    layers = list(model._flatten_layers(include_self=False)) if hasattr(model, "_flatten_layers") else []
    keras: Any = sys.modules["keras"]
    kinds = keras.layers
    embeddings = [layer for layer in layers if isinstance(layer, kinds.Embedding)]
    recurrent = [layer for layer in layers if isinstance(layer, kinds.RNN)]
    optimizer = _optimizer(getattr(model, "optimizer", None))
    for layer in embeddings[:MOST_LAYERS]:
        found = _embedding(layer, batch_size)
        if found is not None:
            memory.table(root, found["bytes"])
            recorder.fact("embedding", lasting=True, root=root, **found, **optimizer, **made.place_of(layer))
    for layer in recurrent[:MOST_LAYERS]:
        recorder.fact("recurrent", lasting=True, root=root, **_recurrent(layer), **made.place_of(layer))
    along = _along_sequences(model, layers, embeddings)
    if along is not None:
        recorder.fact("sequences", lasting=True, root=root, embeds=bool(embeddings), **along)


def _optimizer(optimizer: Any) -> dict[str, Any]:
    """What an optimizer does with every weight in every step, by its settings."""
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    wanted = ("clipnorm", "global_clipnorm", "clipvalue", "weight_decay", "use_ema", "momentum", "amsgrad")
    return {
        "optimizer": type(optimizer).__name__ if optimizer is not None else None,
        "decides": {name: _plain(getattr(optimizer, name)) for name in wanted if getattr(optimizer, name, None)},
    }


def _embedding(layer: Any, batch_size: int | None) -> dict[str, Any] | None:
    table = next((weight for weight in layer.trainable_variables if len(weight.shape) == 2), None)
    if table is None:
        return None  # frozen, or not built
    places = _places(layer, "input", last=True)
    return {
        "name": str(layer.name),
        "rows": int(table.shape[0]),
        "width": int(table.shape[1]),
        "bytes": math.prod(table.shape) * _size(table.dtype),
        "reads": math.prod(places) * batch_size if places is not None and batch_size else None,
    }


def _size(dtype: Any) -> int:
    return {"float16": 2, "bfloat16": 2, "float64": 8}.get(str(dtype), 4)


def _recurrent(layer: Any) -> dict[str, Any]:
    cell = layer.cell
    names = ("recurrent_dropout", "dropout", "units", "use_bias", "reset_after")
    functions = ("activation", "recurrent_activation")
    places = _places(layer, "input")
    return {
        "name": str(layer.name),
        "layer": type(layer).__name__,
        "cell": type(cell).__name__,
        "unroll": bool(layer.unroll),
        "steps": places[0] if places else None,
        **{name: _plain(getattr(cell, name, None)) for name in names},
        **{name: getattr(getattr(cell, name, None), "__name__", None) for name in functions},
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str)) else None


def _along_sequences(model: Any, layers: list[Any], embeddings: list[Any]) -> dict[str, Any] | None:
    """Which lengths the sequences have, and the share of the multiplications that is proportional to them.

    Where a subclassed model keeps no shapes, both are unknown. Attention is quadratic, too: that is left out. What is
    looked up in a table is not multiplied, also inside a layer that has other weights.
    """
    tables = {id(weight) for layer in embeddings for weight in layer.trainable_variables}
    kinds = [type(layer).__name__ for layer in layers]
    if not any(SEQUENTIAL.search(kind) for kind in kinds):
        return None
    along = total = 0.0
    lengths = set()
    for layer in _outermost(model):
        weights = [weight for weight in layer.trainable_variables if id(weight) not in tables]
        kernels = [math.prod(weight.shape) for weight in weights if len(weight.shape) >= 2]
        places = _places(layer, "input")
        if places is None or not kernels:
            continue
        if len(places) == 1:
            lengths.add(places[0])
            along += sum(kernels) * places[0]
            total += sum(kernels) * places[0]
        else:
            total += sum(kernels) * math.prod(_places(layer, "output") or ())
    return {"lengths": sorted(lengths), "share": along / total if total and lengths else None}


def _outermost(model: Any) -> list[Any]:
    """The layers of a model and of the models in it; what other layers hold is part of these."""
    found = []
    for layer in getattr(model, "layers", ()):
        found += _outermost(layer) if getattr(layer, "layers", None) else [layer]
    return found


def _places(layer: Any, side: str, *, last: bool = False) -> tuple[int, ...] | None:
    """The sizes between the first and the last dimension of what goes in or comes out; None where unknown."""
    try:
        tensors = getattr(layer, side)
        shape = tuple((tensors[0] if isinstance(tensors, list | tuple) else tensors).shape)
    except (AttributeError, ValueError, IndexError):
        return None  # a subclassed model keeps no shapes
    places = shape[1:] if last else shape[1:-1]
    return None if any(size is None for size in places) else places
