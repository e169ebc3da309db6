"""The layers of a model as its author sees them: those of Keras are whole, others are what they are made of.

A MultiHeadAttention is one unit, though it is made of layers; a model in a model, or a block that the user has
written, is what it is made of.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

from fitscope import flops


def is_whole(layer: Any) -> bool:
    """Whether a layer is one thing, whatever it is made of."""
    keras: Any = sys.modules["keras"]
    return type(layer).__module__.split(".")[0] == "keras" and not isinstance(layer, keras.Model)


def units(model: Any, path: tuple[str, ...] = (), seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Name and layer of every unit below a model, each once."""
    seen = set() if seen is None else seen
    for layer in model._flatten_layers(include_self=False, recursive=False):
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        here = (*path, str(layer.name))
        yield "/".join(here), layer
        if not is_whole(layer):
            yield from units(layer, here, seen)


def costs(model: Any) -> tuple[list[dict[str, Any]], bool]:
    """The work of the layers for one example, dearest first, from the shapes that they were built for.

    With it comes whether that is all: a layer of an unknown kind may do any work.
    """
    found: list[dict[str, Any]] = []
    first, complete = True, True
    for name, layer in units(model):
        shapes = _shapes(layer)
        work = flops.of_layer(layer, shapes) if shapes else None
        trained = any(math.prod(weight.shape) for weight in layer.trainable_variables)
        complete = complete and (work is not None or not trained or not _has_own_work(layer))
        if work is not None and work.forward:
            calls = max(1, len(getattr(layer, "_inbound_nodes", ())))
            total = work.forward + work.backward(trainable=trained, inputs=not first)
            found.append(
                {
                    "name": name,
                    "kind": flops.kind_of(layer),
                    "flops": total * calls,
                    "parameters": sum(math.prod(weight.shape) for weight in layer.weights),
                    "input": list(shapes[0][1:]),
                    "width": _width(layer),
                }
            )
        first = first and not trained
    return sorted(found, key=lambda each: -each["flops"]), complete


def _has_own_work(layer: Any) -> bool:
    """Whether a layer may do more than the layers in it."""
    inner = list(layer._flatten_layers(include_self=False, recursive=False))
    below = {id(weight) for each in inner for weight in each.weights}
    return is_whole(layer) or any(id(weight) not in below and len(weight.shape) > 1 for weight in layer.weights)


def _width(layer: Any) -> int | None:
    """Units or filters."""
    found = [getattr(layer, name, None) for name in ("units", "filters")]
    return next((each for each in found if isinstance(each, int)), None)


def _shapes(layer: Any) -> list[tuple[int, ...]]:
    """The shapes of a layer's inputs for one example; none where a size is not known."""
    built = getattr(layer, "_build_shapes_dict", None) or {}
    found: list[Any] = list(built.values())
    if len(found) == 1 and found[0] and isinstance(found[0][0], (tuple, list)):
        found = list(found[0])
    shapes = [(1, *shape[1:]) for shape in found if shape is not None]
    return shapes if all(isinstance(size, int) for shape in shapes for size in shape) else []
