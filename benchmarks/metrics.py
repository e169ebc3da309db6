"""What metrics cost: fitscope's in `compile`, Keras' own there, and `predict` + scikit-learn in a callback.

    python benchmarks/metrics.py                           all backends
    python benchmarks/metrics.py --backend torch --rounds 30

A block is one `fit` of one epoch: 100 training steps of 256 rows and a validation of 10,240 rows. The ratio is that
of a block to the block without a metric (see side_by_side.py). The last column says how far the result is from
scikit-learn's on the validation data.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from side_by_side import BACKENDS, in_batches, interleaved, machine, on_backends, table

STEPS, BATCH, ROWS = 100, 256, 10_240


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure(options.rounds)
    else:
        on_backends(__file__, options.backend, "--rounds", str(options.rounds))


def measure(rounds: int) -> None:
    import keras
    import numpy as np
    from sklearn.metrics import f1_score, roc_auc_score

    import fitscope

    rng = np.random.default_rng(0)
    x = rng.normal(size=(STEPS * BATCH, 64)).astype("float32")
    y = (x[:, :8].sum(1) + 4 * rng.normal(size=len(x)) > 0).astype("float32")[:, None]
    validation = x[:ROWS], y[:ROWS]
    data, held_out = in_batches(x, y, BATCH), in_batches(*validation, BATCH)
    checks = {"validation_data": held_out["x"] if "y" not in held_out else validation, "validation_batch_size": BATCH}

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
    errors = {}

    def fit(label: str) -> None:
        _, callbacks, function = kinds[label]
        history = models[label].fit(**data, **checks, verbose=0, callbacks=callbacks).history
        if label not in errors and function is not None:
            exact = function(validation[1], models[label].predict(validation[0], verbose=0))
            found = callbacks[0].result if callbacks else np.mean(history["val_it"][-1])
            errors[label] = f"off by {abs(found - exact):.1e}"

    times = interleaved({label: lambda label=label: fit(label) for label in kinds}, rounds, warm_up=1)
    batch = statistics.median(times["no metric"]) / (STEPS + ROWS / BATCH) * 1e3
    print(f"\n{keras.backend.backend()}, about {batch:.2f} ms a batch, {rounds} rounds ({machine()})")
    table(times, "no metric", errors)


def compiled(keras: Any, metrics: list[Any]) -> Any:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((64,)), layers.Dense(128, activation="relu"), layers.Dense(1, activation="sigmoid")]
    )
    model.compile("adam", "binary_crossentropy", metrics=metrics)
    return model


if __name__ == "__main__":
    main()
