"""What a training was set to do: its model, its callbacks and its history, noted once for each region."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import Any

from fitscope import limits
from fitscope.observe import architecture, units
from fitscope.observe.recorder import recorder

CALLBACK_SETTINGS = {
    "TensorBoard": ("update_freq", "histogram_freq", "write_images"),
    "EarlyStopping": ("monitor", "patience", "restore_best_weights"),
}
MOST_EPOCHS = 2000
MOST_COSTS = 8
"""Layers whose work is noted, those with the most."""

_noted: set[tuple[int, int]] = set()


def note(root: int, model: Any, device: str, callbacks: Any = (), batch_size: int | None = None) -> None:
    """Notes the settings of a training, once for each model that a region trains."""
    key = (root, id(model))
    if key in _noted or len(_noted) > 200:
        return
    _noted.add(key)
    try:
        found = _model(model)
        architecture.note(root, model, batch_size)
    except Exception as error:  # a model of an unusual kind: the recording goes on without
        reason = f"{type(error).__name__}: {error}"
        recorder.fact("problem", says=f"What the model was set to do could not be read ({reason}).")
        return
    recorder.fact(
        "settings",
        lasting=True,
        root=root,
        **found,
        batch_size=batch_size,
        device=device,
        threads=_threads(),
        callbacks=_callbacks(callbacks),
    )


def _threads() -> dict[str, Any]:
    """How many threads the backend computes with, how many cores it may use, and which variables say so."""
    keras: Any = sys.modules.get("keras")
    name = keras.config.backend() if keras is not None else ""
    found = limits.limits()
    return {
        **limits.backend_threads(name),
        "cores": limits.may_use(found["usable_cores"], found["quota_cores"]),
        "environment": limits.settings(limits.THREAD_VARIABLES + limits.DEVICE_VARIABLES),
    }


def history(root: int, model: Any) -> None:
    """Notes how the validation score went, epoch by epoch."""
    values = getattr(getattr(model, "history", None), "history", None) or {}
    scores = {name: _numbers(score) for name, score in values.items() if name.startswith("val_") or name == "loss"}
    if any(scores.values()):
        recorder.fact("history", root=root, scores=scores)


def _numbers(values: Any) -> list[float]:
    return [float(value) for value in list(values)[:MOST_EPOCHS] if isinstance(value, (int, float))]


def _model(model: Any) -> dict[str, Any]:
    layers = list(model._flatten_layers(include_self=False)) if hasattr(model, "_flatten_layers") else []
    weights = list(getattr(model, "trainable_variables", ()))
    dtypes = Counter(str(weight.dtype) for weight in weights)
    policies = Counter(str(layer.compute_dtype) for layer in layers if getattr(layer, "weights", None))
    return {
        "run_eagerly": bool(getattr(model, "run_eagerly", False)) or _all_eager(),
        "steps_per_execution": int(getattr(model, "steps_per_execution", 1) or 1),
        "parameters": sum(math.prod(weight.shape) for weight in weights),
        "variable_dtype": dtypes.most_common(1)[0][0] if dtypes else None,
        "compute_dtype": policies.most_common(1)[0][0] if policies else None,
        "multiplications": _multiplications(layers),
        "layers": dict(Counter(type(layer).__name__ for layer in layers).most_common(30)),
        **_costs(model),
    }


def _costs(model: Any) -> dict[str, Any]:
    """The work of the layers; nothing where a layer of an unusual kind does not tell."""
    try:
        costs, complete = units.costs(model)
    except Exception:
        return {}
    return {"costs": costs[:MOST_COSTS], "costs_complete": complete, "work": sum(each["flops"] for each in costs)}


def _all_eager() -> bool:
    """Whether TensorFlow was told to compile nothing at all."""
    tf = sys.modules.get("tensorflow")
    return tf is not None and bool(tf.config.functions_run_eagerly())


def _multiplications(layers: list[Any]) -> int | None:
    """Multiplications of one example's way forward, from the kernels and their outputs; None where unknown."""
    total = 0
    for layer in layers:
        if getattr(layer, "layers", None) or not getattr(layer, "trainable_variables", None):
            continue
        kernels = [math.prod(weight.shape) for weight in layer.trainable_variables if len(weight.shape) >= 2]
        if not kernels or type(layer).__name__ == "Embedding":
            continue
        try:
            shape = tuple((layer.input if hasattr(layer, "units") else layer.output).shape)
        except (AttributeError, ValueError):
            return None  # a subclassed model keeps no shapes
        places = shape[1:-1]
        if any(size is None for size in places):
            return None
        total += sum(kernels) * math.prod(places)
    return total


def _callbacks(callbacks: Any) -> list[dict[str, Any]]:
    found = []
    for callback in list.__iter__(callbacks) if isinstance(callbacks, list) else ():
        name = type(callback).__name__
        wanted = CALLBACK_SETTINGS.get(name, ())
        settings = {key: getattr(callback, key) for key in wanted if hasattr(callback, key)}
        plain = {key: value for key, value in settings.items() if isinstance(value, (int, float, str, bool))}
        found.append({"name": name, **plain})
    return found
