"""A model's state as an Orbax checkpoint: the values taken into memory at once, the folder written at leisure.

The folder is what `keras.callbacks.OrbaxCheckpoint` makes: it holds one complete step, and
`keras.models.load_model(folder)` and `model.load_weights(folder)` read it. Orbax writes a step under another name and
renames it, and removes the step before only then, so that a kill at any time leaves a complete one.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from fitscope.remedy.callbacks.target import Target

try:
    from keras.src.saving import saving_lib
except ImportError:
    saving_lib = None

ORBAX = ".orbax"


def check_installed() -> None:
    """Raises where Orbax is missing, or a Keras that can read its checkpoints."""
    if importlib.util.find_spec("orbax") is None or importlib.util.find_spec("orbax.checkpoint") is None:
        raise ImportError(f"A checkpoint that ends in `{ORBAX}` needs Orbax: pip install orbax-checkpoint")
    if not (hasattr(keras.callbacks, "OrbaxCheckpoint") and hasattr(saving_lib, "_save_assets_to_dict")):
        raise ImportError(f"Keras {keras.__version__} does not read Orbax checkpoints: save as `.keras` instead")


class OrbaxSnapshot:
    """All that Keras' own OrbaxCheckpoint would write of a model at this moment, copied: training may go on."""

    def __init__(self, model: Any, weights_only: bool) -> None:
        state = model.get_state_tree(value_format="numpy_array")
        kept = ("trainable_variables", "non_trainable_variables") if weights_only else tuple(state)
        self._payload: dict[str, Any] = {"pytree": keras.tree.map_structure(_own, {key: state[key] for key in kept})}
        if not weights_only:
            config, _ = saving_lib._serialize_model_as_json(model)
            self._payload["model_config"] = {"config": config}
            if (assets := saving_lib._save_assets_to_dict(model)) is not None:
                self._payload["assets"] = assets

    def write(self, path: Path) -> None:
        """Adds a step to the folder and removes the one before. Works once."""
        from orbax.checkpoint import v1 as ocp

        path.mkdir(parents=True, exist_ok=True)
        needed = sum(getattr(value, "nbytes", 0) for value in keras.tree.flatten(self._payload["pytree"]))
        free = shutil.disk_usage(path).free
        if free < 1.1 * needed + (1 << 20):  # Orbax itself may wait for ever on a full disk
            self.discard()
            raise OSError(
                errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {free:,} bytes are free, {needed:,} are needed"
            )
        checkpointer = ocp.training.Checkpointer(
            path,
            preservation_policy=ocp.training.preservation_policies.LatestN(1),
            save_decision_policy=ocp.training.save_decision_policies.FixedIntervalPolicy(1),
        )
        try:
            latest = checkpointer.latest
            checkpointer.save_checkpointables(0 if latest is None else latest.step + 1, self._payload)
            checkpointer.close()
        finally:
            self.discard()

    def discard(self) -> None:
        """Lets go of the memory."""
        self._payload = {}


def _own(value: Any) -> Any:
    """A copy that later steps do not change; single numbers as Python's, as Keras stores them."""
    array = np.array(value)
    return array.item() if array.ndim == 0 else array


class OrbaxTarget(Target):
    """A folder that only ever holds complete checkpoints."""

    def check(self) -> None:
        """Raises an OSError if nothing can be written there, as far as this is known before the first save."""
        self.check_folder()
        place = self.template
        if "{" in str(place) or not place.exists():
            return
        if not place.is_dir():
            raise NotADirectoryError(f"The checkpoint {place} is a file; an Orbax checkpoint is a folder.")
        strangers = [each.name for each in place.iterdir() if not each.name.split(".")[0].isdecimal()]
        if strangers:
            raise FileExistsError(f"{place} holds other files than checkpoints, such as {strangers[0]}.")

    def remove_leftovers(self) -> None:
        """Orbax ignores what a killed run has left, and replaces it."""

    def replace(self, path: Path, write: Callable[[Path], None]) -> None:
        """Orbax itself writes beside the last step and renames."""
        write(path)
