"""What a slow callback costs: left out, plain, by Keras' own asynchronous dispatch, and in the background.

    python benchmarks/background.py                    all backends
    python benchmarks/background.py --backend jax --rounds 20

A block is one `fit` of 50 steps of about 30 ms whose callback sleeps 20 ms or writes a file of 4 MB in each batch.
The ratio is that of a block to the block without a callback (see side_by_side.py); `bare again` is the control. The
last line is the time that the hooks of `Background` hold the training thread, per batch.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time

from side_by_side import BACKENDS, in_batches, interleaved, machine, on_backends, table

STEPS = 50
BATCH = 32
STEP_SECONDS = 0.03


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure(options.rounds)
    else:
        on_backends(__file__, options.backend, "--rounds", str(options.rounds))


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

    def fit(*callbacks: object) -> None:
        model.fit(**data, verbose=0, callbacks=list(callbacks))

    model, data = sized()
    kinds = {"bare": fit, "bare again": fit}
    for name, kind in (("sleeps 20 ms", Sleeps), ("writes 4 MB", Writes)):
        kinds[f"{name}: plain"] = lambda kind=kind: fit(kind())
        if keras.config.backend() != "tensorflow":  # which has no asynchronous dispatch
            kinds[f"{name}: async_safe"] = lambda kind=kind: fit(asynchronous(kind()))
        kinds[f"{name}: Background"] = lambda kind=kind: fit(Timed(kind()))
    times = interleaved(kinds, rounds)
    step = statistics.median(times["bare"]) / STEPS
    print(f"\n{keras.config.backend()}, {STEPS} steps of {step * 1e3:.0f} ms a block, {rounds} rounds ({machine()})")
    table(times, "bare")
    held.sort()
    median, at_95 = statistics.median(held) * 1e6, held[int(len(held) * 0.95)] * 1e6
    print(f"  training thread held {median:.0f} us per batch, 95 % under {at_95:.0f} us", flush=True)


def sized():
    """A model whose steps take about 30 ms on this machine, and its data."""
    import keras
    import numpy as np

    width, layers = 1024, 2
    while True:
        model = keras.Sequential([keras.Input((width,)), *[keras.layers.Dense(width, "relu") for _ in range(layers)]])
        model.compile("sgd", "mse")
        x = np.random.default_rng(1).random((BATCH * STEPS, width)).astype("float32")
        data = in_batches(x, x, BATCH)
        model.fit(**data, verbose=0)
        began = time.perf_counter()
        model.fit(**data, verbose=0)
        step = (time.perf_counter() - began) / STEPS
        if step > 0.85 * STEP_SECONDS or layers > 60:
            return model, data
        layers = max(layers + 1, round(layers * STEP_SECONDS / step))


if __name__ == "__main__":
    main()
