"""A run that is a point of a sweep: ended once enough of its training is recorded, with the memory that it took."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from typing import Any

from fitscope.observe import batches
from fitscope.observe.recorder import Recorder, recorder

TRAINS = ("fit", "train_on_batch")
NOT_STEADY = ("compile", "setup", "validation")
LEAST_STEPS = 5
PATIENCE = 5.0
"""Seconds after which a loop that nobody can end from inside is ended with its process."""


class Enough:
    """Looks once a second whether enough was trained, counted from the first step on and without compiling."""

    def __init__(self, seconds: float, of: Recorder = recorder) -> None:
        self._seconds = seconds
        self._recorder = of
        self._from: tuple[int, float] | None = None
        self._stopped: float | None = None

    def look(self, now: float) -> None:
        """Ends the training if it is enough."""
        if self._stopped is not None:
            if now - self._stopped > PATIENCE:
                self._recorder.flush()
                os._exit(0)
            return
        steps, seconds = self._trained()
        if not steps:
            return
        if self._from is None:
            self._from = steps, seconds
        if seconds - self._from[1] >= self._seconds and steps - self._from[0] >= LEAST_STEPS:
            self._stopped = now
            note()
            self._recorder.fact("stopped", seconds=self._seconds)
            self._recorder.stopped = True

    def _trained(self) -> tuple[int, float]:
        """Steps, and seconds of steady training, in all that trains; going through a dataset is no training."""
        tree = self._recorder.tree
        loops = {fact["root"] for fact in self._recorder.lasting.values() if fact["fact"] == "loop-trains"}
        regions = {
            root: region
            for root, region in list(self._recorder.regions.items())
            if tree.nodes[root].name in TRAINS or root in loops
        }
        spent = 0
        for node in range(1, len(tree.nodes)):
            path = tree.path(node)
            if path[0] in regions and not any(tree.nodes[above].phase in NOT_STEADY for above in path):
                spent += tree.spent[node]
        return sum(region.steps for region in regions.values()), spent / 1e9


def begin(seconds: float) -> None:
    """From now on somebody looks."""
    recorder.ticks.append(Enough(seconds).look)


def note() -> None:
    """Notes the most memory that was used, and which files below the working folder the script is made of."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    batches.note_calls()
    recorder.fact("memory", peak_bytes=used, device_peak_bytes=_device_peak())
    here = os.getcwd() + os.sep
    files = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
    own = sorted(os.path.relpath(file, here) for file in map(os.path.abspath, files - {""}) if file.startswith(here))
    recorder.fact("modules", files=[file for file in own if "site-packages" not in file])


def _device_peak() -> int | None:
    """What the backend's own allocator had in use at most on the accelerators; None where it does not say."""
    peaks: list[int] = []
    tf, jax, torch = (_loaded(name) for name in ("tensorflow", "jax", "torch"))
    with contextlib.suppress(Exception):
        if torch is not None and torch.cuda.is_initialized():
            peaks += [torch.cuda.max_memory_allocated(index) for index in range(torch.cuda.device_count())]
    with contextlib.suppress(Exception):
        if tf is not None:
            names = [each.name.removeprefix("/device:") for each in tf.config.list_logical_devices("GPU")]
            peaks += [tf.config.experimental.get_memory_info(name)["peak"] for name in names]
    with contextlib.suppress(Exception):
        if jax is not None and _loaded("keras").config.backend() == "jax":
            devices = [each for each in jax.local_devices() if each.platform != "cpu"]
            peaks += [each.memory_stats()["peak_bytes_in_use"] for each in devices]
    return max(peaks, default=None)


def _loaded(name: str) -> Any:
    return sys.modules.get(name)
