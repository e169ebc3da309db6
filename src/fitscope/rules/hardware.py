"""Causes in the machine: an accelerator that idles, memory that runs out, steps that get slower."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from statistics import median

from fitscope import words
from fitscope.model import Evidence, Region, Where
from fitscope.rules.case import FOREIGN_CORES, Case, seconds_of, share, took
from fitscope.rules.rule import Cause, Example, Rule


class HardwareRule(Rule):
    """A cause in the machine."""

    family = "hardware"


class InvisibleAccelerator(HardwareRule):
    """The machine has a GPU, and the training runs on the CPU.

    A CPU-only wheel, a missing driver library or a hidden device: the backend goes on without a word.

    fitscope says so when the driver lists a GPU and the weights are on the CPU.

    Change: install the backend's wheel for the GPU, and look at `CUDA_VISIBLE_DEVICES`.
    """

    code = "FS601"
    name = "invisible-accelerator"

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Compares the devices that exist with the one that trains."""
        gpus = case.run.machine.get("gpus") or ()
        for region in case.regions("fit")[:1]:
            if gpus and case.settings(region).get("device") == "cpu":
                yield Cause(
                    says="The machine has a GPU, and the training runs on the CPU.",
                    where=region.where,
                    evidence=(Evidence("GPUs that the driver lists", len(gpus), "count"),),
                    saves=(0.0, 0.9 * seconds_of(region, "step")),
                    remedy="Install the backend's GPU wheel, and look at CUDA_VISIBLE_DEVICES.",
                )


class IdleAccelerator(HardwareRule):
    """The GPU waits for most of the time.

    fitscope says so when the GPU was busy for less than half of the training on average, and names the part that
    it waits for.

    Change: what the other findings say about that part.
    """

    code = "FS602"
    name = "idle-accelerator"

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at the utilization that was sampled, and at who kept the device waiting."""
        use = case.account.use
        if use is None or not use.gpu_utilization or max(use.gpu_utilization) >= 0.5:
            return
        for region in case.regions("fit")[:1]:
            others = [part for part in region.parts if part.phase != "step"]
            part = max(others, key=lambda each: each.seconds, default=None)
            if part is not None and case.settings(region).get("device") == "gpu" and case.matters(part.seconds, 0.1):
                yield Cause(
                    says=f"The GPU waits, for {part.phase}: {part.name} above all.",
                    where=part.where or region.where,
                    evidence=(
                        share("busy was the GPU", max(use.gpu_utilization)),
                        share(f"of the training is {part.phase}", part.seconds / case.seconds),
                    ),
                    saves=(0.0, part.seconds),
                    remedy="See the finding on that part.",
                )


class MemoryPressure(HardwareRule):
    """The machine ran short of memory and swapped.

    fitscope says so when memory was swapped out on this machine and the process had to read pages back from disk
    all the time.

    Change: a smaller `shuffle` or `cache`, data as `uint8` until it is used, a smaller batch.
    """

    code = "FS603"
    name = "memory-pressure"

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at swap and at page faults."""
        use = case.account.use
        if use is None or not case.regions() or case.run.wall_seconds < 5:
            return
        faults = use.major_faults / case.run.wall_seconds
        if use.swap_bytes < 200e6 or faults < 50:
            return
        yield Cause(
            says=f"The machine ran short of memory: {words.size(use.swap_bytes)} were swapped out.",
            where=case.regions()[0].where,
            evidence=(
                Evidence("swapped out", use.swap_bytes, "bytes"),
                Evidence("page faults from disk per second", faults, "count"),
            ),
            saves=(0.0, 0.3 * case.seconds),
            remedy="Keep less in memory: a smaller shuffle buffer or cache, uint8 data, a smaller batch.",
        )


class SlowingDown(HardwareRule):
    """Steps get slower as the training goes on.

    Something grows: a list in a callback, a graph, a history, the memory.

    fitscope says so when the steps are divided into five stretches, their medians rise, and the last is at
    least 1.5 times the first.

    Change: find what grows; the report names the memory that the process gained meanwhile.
    """

    code = "FS604"
    name = "slowing-down"
    examples = (
        Example(
            slow="""
import keras, numpy as np

x = np.random.default_rng(0).random((3200, 16)).astype("float32")

class Remember(keras.callbacks.Callback):
    seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(logs["loss"])
        self.mean = sum(sorted(self.seen * 100)) / len(self.seen)

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=8, epochs=3, verbose=0, callbacks=[Remember()])
""",
            fast="""
import keras, numpy as np

x = np.random.default_rng(0).random((3200, 16)).astype("float32")

class Remember(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.last = logs["loss"]

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=8, epochs=3, verbose=0, callbacks=[Remember()])
""",
            estimable=False,
        ),
    )

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Compares five stretches of every training."""
        if case.foreign_cores >= FOREIGN_CORES:
            return  # another program that began meanwhile looks the same
        for region in case.regions("fit", "loop", "train_on_batch"):
            if region.call == "fit" and region.calls > 1:
                continue  # several trainings may differ
            if case.run.backend == "jax" and not region.forced_sync:
                continue  # there a step is timed where it is dispatched
            durations = region.durations[max(10, len(region.durations) // 50) :]
            if len(durations) < 250 or region.wall_seconds < 2:
                continue
            size = len(durations) // 5
            middles = [median(durations[start : start + size]) for start in range(0, 5 * size, size)]
            rising = sum(later > earlier for earlier, later in pairwise(middles)) >= 3
            rising = rising and middles[-1] >= 0.9 * max(middles)
            lost = sum(max(0.0, duration - middles[0]) for duration in durations)
            if not rising or middles[-1] < 1.5 * middles[0] or not case.matters(lost, 0.1):
                continue
            use = case.account.use
            grown = use.memory_grown_bytes if use is not None else 0
            with_memory = f"; the process grew by {words.size(grown)} meanwhile" if grown > 200e6 else ""
            yield Cause(
                says=f"Steps got {middles[-1] / middles[0]:.1f} times slower over the run{with_memory}.",
                where=_grows_in(region),
                evidence=(
                    took("per step in the first fifth", middles[0]),
                    took("per step in the last fifth", middles[-1]),
                ),
                saves=case.saves(0.9 * lost),
                remedy="Find what grows from step to step (a list, a graph, a history), and keep it bounded.",
                claims=frozenset({f"{id(region)}:growth"}),
            )


def _grows_in(region: Region) -> Where | None:
    """The hook that takes the longest, if one does; else the training's own line."""
    hooks = [part for part in region.parts if part.phase == "callback" and part.share >= 0.2]
    return hooks[0].where if hooks and hooks[0].where is not None else region.where


RULES = (InvisibleAccelerator(), IdleAccelerator(), MemoryPressure(), SlowingDown())
