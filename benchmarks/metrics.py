"""What metrics cost: fitscope's in `compile`, Keras' own there, and `predict` + scikit-learn in a callback.

    python benchmarks/metrics.py                           all backends
    python benchmarks/metrics.py --backend torch --rounds 30

A block is one `fit` of one epoch: 100 training steps of 256 rows and a validation of 10,000 rows. Blocks of all kinds
follow each other in random order, round after round; the ratio is that of a block to the block without a metric of
the same round, the median of the rounds with its 90 % interval (bootstrap). The last column says how far the result
is from scikit-learn's on the validation data.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from typing import Any

BACKENDS = ("tensorflow", "jax", "torch")
STEPS, BATCH, ROWS = 100, 256, 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure(options)
        return
    for backend in [options.backend] if options.backend else BACKENDS:
        words = [sys.executable, __file__, "--child", "--rounds", str(options.rounds)]
        environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        print(done.stdout, end="", flush=True)


def measure(options: argparse.Namespace) -> None:
    import keras
    import numpy as np
    from sklearn.metrics import f1_score, roc_auc_score

    import fitscope

    rng = np.random.default_rng(0)
    x = rng.normal(size=(STEPS * BATCH, 64)).astype("float32")
    y = (x[:, :8].sum(1) + 4 * rng.normal(size=len(x)) > 0).astype("float32")[:, None]
    validation = x[:ROWS], y[:ROWS]

    class ByPredict(keras.callbacks.Callback):
        """What the callback of many a tutorial does."""

        def __init__(self, function: Any) -> None:
            super().__init__()
            self.function = function

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            scores = self.model.predict(validation[0], batch_size=BATCH, verbose=0)
            self.result = self.function(validation[1], scores)

    def f1(truth: Any, scores: Any) -> float:
        return float(f1_score(truth, scores > 0.5))

    kinds: dict[str, tuple[list[Any], list[Any], Any]] = {
        "no metric": ([], [], None),
        "no metric again": ([], [], None),
        "fitscope F1Score": ([fitscope.metrics.F1Score(name="it")], [], f1),
        "keras F1Score": ([keras.metrics.F1Score(threshold=0.5, name="it")], [], f1),
        "predict + sklearn F1": ([], [ByPredict(f1)], f1),
        "fitscope AUC": ([fitscope.metrics.AUC(name="it")], [], roc_auc_score),
        "keras AUC": ([keras.metrics.AUC(name="it")], [], roc_auc_score),
        "predict + sklearn AUC": ([], [ByPredict(roc_auc_score)], roc_auc_score),
    }
    models = {label: compiled(keras, metrics) for label, (metrics, _, _) in kinds.items()}
    times: dict[str, list[float]] = {label: [] for label in kinds}
    errors = {}
    chance = random.Random(0)
    for turn in range(options.rounds + 1):
        for label in chance.sample(list(kinds), len(kinds)):
            _, callbacks, function = kinds[label]
            began = time.perf_counter()
            history = models[label].fit(
                x, y, batch_size=BATCH, validation_data=validation, validation_batch_size=BATCH, verbose=0,
                callbacks=callbacks,
            ).history  # fmt: skip
            times[label].append(time.perf_counter() - began)
            if turn == 0 and function is not None:
                exact = function(validation[1], models[label].predict(validation[0], verbose=0))
                found = callbacks[0].result if callbacks else np.mean(history["val_it"][-1])
                errors[label] = abs(found - exact)
        if turn == 0:  # compiling
            times = {label: [] for label in kinds}
    step = statistics.median(times["no metric"]) / (STEPS + ROWS / BATCH) * 1e3
    print(f"\n{keras.backend.backend()}, about {step:.2f} ms a batch, {options.rounds} rounds")
    for label in kinds:
        ratio, low, high = interval([a / b for a, b in zip(times[label], times["no metric"], strict=True)])
        error = f"off by {errors[label]:.1e}" if label in errors else ""
        print(f"  {label:24s} {ratio:.3f}  [{low:.3f}, {high:.3f}]  {error}")


def compiled(keras: Any, metrics: list[Any]) -> Any:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((64,)), layers.Dense(128, activation="relu"), layers.Dense(1, activation="sigmoid")]
    )
    model.compile("adam", "binary_crossentropy", metrics=metrics)
    return model


def interval(ratios: list[float]) -> tuple[float, float, float]:
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(1000))
    return statistics.median(ratios), medians[50], medians[949]


if __name__ == "__main__":
    main()
