"""What an experiment needs of a run: the same random numbers each time, and what the training came to in the end."""

from __future__ import annotations

import gc
import random
import re
import sys
from typing import Any

from fitscope.observe.imports import Finder
from fitscope.observe.recorder import recorder

MOST_MODELS = 20


def begin(seed: int) -> None:
    """Seeds every generator that a script may draw from without seeding it, as soon as there is one."""
    random.seed(seed)
    Finder(
        {"numpy.random": lambda: sys.modules["numpy.random"].seed(seed), "keras.utils": lambda: _seed(seed)}
    ).watch()


def _seed(seed: int) -> None:
    sys.modules["keras.utils"].set_random_seed(seed)


def note_weights() -> None:
    """Notes the sums of the weights of every model that there still is at the end."""
    keras: Any = sys.modules.get("keras")
    if keras is None:
        return
    try:
        gc.collect()  # whether models that nobody has any more are still there is chance
        models = [each for each in gc.get_objects() if issubclass(type(each), keras.Model)]
        inner = {id(layer) for model in models for layer in model._flatten_layers(include_self=False)}
        sums: dict[str, list[float]] = {}
        for model in [each for each in models if id(each) not in inner][:MOST_MODELS]:
            values = [keras.ops.convert_to_numpy(weight).astype("float64") for weight in model.trainable_variables]
            name = re.sub(r"_\d+$", "", model.name)  # Keras counts all models that there ever were
            sums[f"{len(sums) + 1} ({name})"] = [float(abs(value).sum()) for value in values]
        recorder.fact("weights", sums=sums)
    except Exception as error:  # the losses are left to compare
        recorder.fact("problem", says=f"The weights could not be noted ({type(error).__name__}: {error}).")
