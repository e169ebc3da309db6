"""What a slow callback costs: left out, plain, by Keras' own asynchronous dispatch, and in the background.

    python benchmarks/background.py                    all backends
    python benchmarks/background.py --backend jax --rounds 20

A block is one `fit` of 20 steps of about 30 ms whose callback sleeps 20 ms or writes a file of 4 MB in each batch.
Blocks of all kinds follow each other in random order, round after round; a ratio is a block over the block without a
callback of the same round, and the figure is the median with its 90 % interval (bootstrap). `bare again` is the
control. The last line is the time that the hooks of `Background` hold the training thread, per batch.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BACKENDS = ("tensorflow", "jax", "torch")
STEPS = 20
BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure(options.rounds)
        return
    for backend in [options.backend] if options.backend else BACKENDS:
        environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        words = [sys.executable, str(Path(__file__).resolve()), "--child", "--rounds", str(options.rounds)]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(words, env=environment, cwd=folder, check=True)


# --- in the child -----------------------------------------------------------------------------------------


def measure(rounds: int) -> None:
    import keras
    import numpy as np

    import fitscope

    block = np.random.default_rng(0).random((1024, 1024)).astype("float32")
    held: list[float] = []

    class Sleeps(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            time.sleep(0.02)

    class Writes(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            np.save("written.npy", block)

    class Timed(fitscope.Background):
        """Notes how long the training thread is held."""

        def batch_begins(self, phase, batch, logs):
            began = time.perf_counter()
            super().batch_begins(phase, batch, logs)
            held.append(time.perf_counter() - began)

        def batch_ends(self, phase, batch, logs):
            began = time.perf_counter()
            super().batch_ends(phase, batch, logs)
            if threading.current_thread() is threading.main_thread():
                held[-1] += time.perf_counter() - began

    def asynchronous(callback):
        callback.async_safe = True
        return callback

    def fit(*callbacks: object) -> float:
        began = time.perf_counter()
        model.fit(x, y, batch_size=BATCH, verbose=0, shuffle=False, callbacks=list(callbacks))
        return time.perf_counter() - began

    model, x, y = sized()
    kinds = {"bare": fit, "bare again": fit}
    for name, kind in (("sleeps 20 ms", Sleeps), ("writes 4 MB", Writes)):
        kinds[f"{name}: plain"] = lambda kind=kind: fit(kind())
        kinds[f"{name}: async_safe"] = lambda kind=kind: fit(asynchronous(kind()))
        kinds[f"{name}: Background"] = lambda kind=kind: fit(Timed(kind()))
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    chance = random.Random(0)
    for _ in range(rounds):
        order = list(kinds)
        chance.shuffle(order)
        for kind in order:
            times[kind].append(kinds[kind]())
    step = statistics.median(times["bare"]) / STEPS
    print(f"\n{keras.config.backend()}, {STEPS} steps of {step * 1e3:.0f} ms a block, {rounds} rounds")
    for kind, found in times.items():
        if kind == "bare":
            continue
        ratios = [one / other for one, other in zip(found, times["bare"], strict=True)]
        low, high = interval(ratios, chance)
        print(f"  {kind:28s} {statistics.median(ratios):.3f}  [{low:.3f}, {high:.3f}]")
    held.sort()
    median, at_95 = statistics.median(held) * 1e6, held[int(len(held) * 0.95)] * 1e6
    print(f"  training thread held         {median:.0f} us per batch, 95 % under {at_95:.0f} us")


def sized():
    """A model whose steps take about 30 ms on this machine."""
    import keras
    import numpy as np

    for width in (256, 512, 1024, 1536, 2048, 3072, 4096):
        model = keras.Sequential([keras.Input((width,)), *[keras.layers.Dense(width, "relu") for _ in range(3)]])
        model.compile("sgd", "mse")
        x = np.random.default_rng(1).random((BATCH * STEPS, width)).astype("float32")
        model.fit(x, x, batch_size=BATCH, verbose=0)
        began = time.perf_counter()
        model.fit(x, x, batch_size=BATCH, verbose=0)
        if time.perf_counter() - began > 0.028 * STEPS:
            break
    return model, x, x


def interval(ratios: list[float], chance: random.Random) -> tuple[float, float]:
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[100], medians[1900]


if __name__ == "__main__":
    main()
