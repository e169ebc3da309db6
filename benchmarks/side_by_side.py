"""Variants timed side by side: what the benchmarks of the remedies share.

Variants follow each other in random order, round after round, in one process. A figure is the median over the rounds
of *one variant's time over another's in the same round*, with its 90 % interval (bootstrap): what disturbs a round
disturbs both.
"""

from __future__ import annotations

import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BACKENDS = ("tensorflow", "jax", "torch")
Variants = dict[str, Callable[[], float | None]]
Times = dict[str, list[float]]


@dataclass(frozen=True)
class Ratio:
    """A median with its 90 % interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f}  [{self.low:.3f}, {self.high:.3f}]"


def ratio(above: list[float], below: list[float]) -> Ratio:
    """The time of one variant over that of another, round by round."""
    each = [one / other for one, other in zip(above, below, strict=True)]
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(each, k=len(each))) for _ in range(2000))
    return Ratio(statistics.median(each), medians[100], medians[1899])


def interleaved(variants: Variants, rounds: int, warm_up: int = 0) -> Times:
    """Seconds of each variant in each round. A variant that returns a number has timed itself."""
    times: Times = {name: [] for name in variants}
    chance = random.Random(0)
    for turn in range(warm_up + rounds):
        for name in chance.sample(list(variants), len(variants)):
            began = time.perf_counter()
            own = variants[name]()
            passed = time.perf_counter() - began if own is None else own
            if turn >= warm_up:
                times[name].append(passed)
    return times


def table(times: Times, base: str, notes: dict[str, str] | None = None) -> None:
    """Prints each variant's time over that of the base."""
    for name, seconds in times.items():
        if name != base:
            print(f"  {name:32s} {ratio(seconds, times[base])}  {(notes or {}).get(name, '')}".rstrip(), flush=True)


def on_backends(file: str, chosen: str | None, *words: str) -> None:
    """Runs a benchmark once on each backend, in a process of its own and in a folder that is deleted afterwards."""
    for backend in [chosen] if chosen else BACKENDS:
        environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(Path(file).resolve()), "--child", *words]
            done = subprocess.run(
                command, env=environment, cwd=folder, stderr=subprocess.PIPE, text=True, check=False
            )
        if done.returncode:
            sys.exit(done.stderr)


def in_batches(x: Any, y: Any, size: int) -> dict[str, Any]:
    """Arguments of `fit` for these arrays.

    On TensorFlow, tf.data's autotuner is off: at the end of a short pass it may block for as long as the pass took
    (docs/architecture.md), and that is neither variant's doing.
    """
    import keras

    if keras.config.backend() != "tensorflow":
        return {"x": x, "y": y, "batch_size": size, "shuffle": False}
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(size, drop_remainder=True).prefetch(2)
    return {"x": data.with_options(options)}


def machine() -> str:
    """Where and when the figures were taken."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    return f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores of {model or platform.machine()}, no GPU"
