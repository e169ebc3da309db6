"""What saving every epoch costs: BackgroundCheckpoint, ModelCheckpoint and, if installed, OrbaxCheckpoint.

    python benchmarks/checkpoint.py                        all backends, 6 million parameters and Adam (75 MB files)
    python benchmarks/checkpoint.py --backend jax --rounds 20
    FITSCOPE_KILLS=50 KERAS_BACKEND=jax python -m pytest -o python_files='cases_*.py' -k kill tests/remedy

A block is one `fit` of three epochs, each of which is saved; `fit` returns when the last file is complete. Blocks of
all kinds follow each other in random order, round after round. "held" is the median time for which one save keeps the
training thread in `on_epoch_end`; the ratio is that of a block to the bare block of its round, the median of the
rounds with its 90 % interval (bootstrap). An epoch takes about as long as asked for with --epoch-seconds: a file that
takes longer to write than an epoch is waited for.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BACKENDS = ("tensorflow", "jax", "torch")
EPOCHS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--epoch-seconds", type=float, default=1.0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure(options)
        return
    for backend in [options.backend] if options.backend else BACKENDS:
        words = [sys.executable, __file__, "--child", "--rounds", str(options.rounds)]
        words += ["--epoch-seconds", str(options.epoch_seconds)]
        environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        print(done.stdout, end="", flush=True)


def measure(options: argparse.Namespace) -> None:
    import keras
    import numpy as np

    import fitscope

    layers = keras.layers
    model = keras.Sequential([keras.Input((1024,)), layers.Dense(2048, activation="relu"), layers.Dense(2048)])
    model.compile("adam", "mse")
    x = np.random.default_rng(0).random((64 * 8, 1024)).astype("float32")
    y = np.repeat(x, 2, axis=1)
    model.fit(x, y, batch_size=64, epochs=2, verbose=0)
    began = time.perf_counter()
    model.fit(x, y, batch_size=64, verbose=0)
    repeats = max(1, round(options.epoch_seconds / (time.perf_counter() - began)))
    x, y = np.tile(x, (repeats, 1)), np.tile(y, (repeats, 1))
    folder = Path(tempfile.mkdtemp(dir=Path.cwd()))
    held: dict[str, list[float]] = {}

    def timed(kind: Any, label: str) -> Any:
        class Timed(kind):  # type: ignore[misc]
            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                began = time.perf_counter()
                super().on_epoch_end(epoch, logs)
                held.setdefault(label, []).append(time.perf_counter() - began)

        return Timed

    makers = {
        "bare": lambda: [],
        "bare again": lambda: [],
        "ModelCheckpoint": lambda: [timed(keras.callbacks.ModelCheckpoint, "ModelCheckpoint")(folder / "a.keras")],
        "BackgroundCheckpoint": lambda: [
            timed(fitscope.BackgroundCheckpoint, "BackgroundCheckpoint")(folder / "b.keras")
        ],
    }
    if importlib.util.find_spec("orbax"):
        orbax = timed(keras.callbacks.OrbaxCheckpoint, "OrbaxCheckpoint")
        makers["OrbaxCheckpoint"] = lambda: [orbax(tempfile.mkdtemp(dir=folder))]
    times: dict[str, list[float]] = {label: [] for label in makers}
    chance = random.Random(0)
    for turn in range(options.rounds + 1):
        for label in chance.sample(list(makers), len(makers)):
            callbacks = makers[label]()
            began = time.perf_counter()
            model.fit(x, y, batch_size=64, epochs=EPOCHS, verbose=0, callbacks=callbacks)
            times[label].append(time.perf_counter() - began)
        if turn == 0:  # compiling, first pages of memory
            times = {label: [] for label in makers}
            held.clear()
    epoch = statistics.median(times["bare"]) / EPOCHS
    size = (folder / "a.keras").stat().st_size / 1e6
    print(f"\n{keras.backend.backend()}, {size:.0f} MB a file, epochs of {epoch:.2f} s, {options.rounds} rounds")
    for label in makers:
        ratio, low, high = interval([a / b for a, b in zip(times[label], times["bare"], strict=True)])
        waits = f"held {statistics.median(held[label]) * 1e3:7.1f} ms a save" if label in held else ""
        print(f"  {label:22s} {ratio:.3f}  [{low:.3f}, {high:.3f}]  {waits}")
    shutil.rmtree(folder)


def interval(ratios: list[float]) -> tuple[float, float, float]:
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(1000))
    return statistics.median(ratios), medians[50], medians[949]


if __name__ == "__main__":
    main()
