"""What saving every epoch costs: BackgroundCheckpoint, ModelCheckpoint and, if installed, OrbaxCheckpoint.

    python benchmarks/checkpoint.py                        all backends, 6 million parameters and Adam (75 MB files)
    python benchmarks/checkpoint.py --backend jax --rounds 20
    FITSCOPE_KILLS=50 KERAS_BACKEND=jax python -m pytest -o python_files='cases_*.py' -k kill tests/remedy

A block is one `fit` of three epochs, each of which is saved; `fit` returns when the last file is complete. The ratio
is that of a block to the block without a callback (see side_by_side.py). "held" is the median time for which one save
keeps the training thread in `on_epoch_end`. An epoch takes about as long as asked for with --epoch-seconds: a file
that takes longer to write than an epoch is waited for.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from side_by_side import BACKENDS, in_batches, interleaved, machine, on_backends, table

EPOCHS = 3
BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epoch-seconds", type=float, default=1.0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure(options)
        return
    words = ["--rounds", str(options.rounds), "--epoch-seconds", str(options.epoch_seconds)]
    on_backends(__file__, options.backend, *words)


def measure(options: argparse.Namespace) -> None:
    import keras
    import numpy as np

    import fitscope

    layers = keras.layers
    model = keras.Sequential([keras.Input((1024,)), layers.Dense(2048, activation="relu"), layers.Dense(2048)])
    model.compile("adam", "mse")
    x = np.random.default_rng(0).random((BATCH * 8, 1024)).astype("float32")
    y = np.repeat(x, 2, axis=1)
    data = in_batches(x, y, BATCH)
    model.fit(**data, epochs=2, verbose=0)
    began = time.perf_counter()
    model.fit(**data, verbose=0)
    repeats = max(1, round(options.epoch_seconds / (time.perf_counter() - began)))
    data = in_batches(np.tile(x, (repeats, 1)), np.tile(y, (repeats, 1)), BATCH)
    folder = Path.cwd()
    held: dict[str, list[float]] = {}

    def timed(label: str, kind: Any, path: Any, **settings: Any) -> Any:
        class Timed(kind):  # type: ignore[misc]
            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                began = time.perf_counter()
                super().on_epoch_end(epoch, logs)
                held.setdefault(label, []).append(time.perf_counter() - began)

        return Timed(path, **settings)

    def fit(*callbacks: Any) -> None:
        model.fit(**data, epochs=EPOCHS, verbose=0, callbacks=list(callbacks))

    background, plain = fitscope.BackgroundCheckpoint, keras.callbacks.ModelCheckpoint
    variants = {
        "bare": fit,
        "bare again": fit,
        "ModelCheckpoint": lambda: fit(timed("ModelCheckpoint", plain, folder / "a.keras")),
        "BackgroundCheckpoint": lambda: fit(timed("BackgroundCheckpoint", background, folder / "b.keras")),
    }
    if importlib.util.find_spec("orbax") and hasattr(keras.callbacks, "OrbaxCheckpoint"):
        orbax = keras.callbacks.OrbaxCheckpoint
        variants["OrbaxCheckpoint"] = lambda: fit(timed("OrbaxCheckpoint", orbax, tempfile.mkdtemp(dir=folder)))
        variants["BackgroundCheckpoint, Orbax"] = lambda: fit(
            timed("BackgroundCheckpoint, Orbax", background, tempfile.mkdtemp(dir=folder) + "/c.orbax")
        )
    times = interleaved(variants, options.rounds, warm_up=1)
    epoch = statistics.median(times["bare"]) / EPOCHS
    size = (folder / "a.keras").stat().st_size / 1e6
    print(
        f"\n{keras.backend.backend()}, {size:.0f} MB a file, epochs of {epoch:.2f} s, {options.rounds} rounds", end=""
    )
    print(f" ({machine()})")
    table(
        times, "bare", {name: f"held {statistics.median(all_) * 1e3:6.1f} ms a save" for name, all_ in held.items()}
    )


if __name__ == "__main__":
    main()
