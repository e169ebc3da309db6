"""How often the slow stage of a tf.data pipeline is named right: pipelines of 3 to 6 stages, slow at each position.

    python benchmarks/locate.py [--seconds 6]

The planted stage sleeps in Python or computes in TensorFlow; those that have no function of their own are not slow.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from fitscope.locate import located
from fitscope.remedy.tuning.cuts import costs

KINDS = {3: "smf", 4: "sfbm", 5: "smhbm", 6: "smhfbm"}
"""A source, maps, a filter, a shuffle and a batch, as the data passes them; the last two are never the slow one."""
ROWS = 2000
BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0)
    arguments = parser.parse_args()
    right = total = 0
    for slowness in (sleeps, computes):
        for stages in range(3, 7):
            for slow in (place for place, kind in enumerate(KINDS[stages]) if kind not in "hb"):
                whole, found = costs(pipeline(stages, slow, slowness), arguments.seconds)
                cuts = [{"kind": cut.kind, "file": None, "line": 0, "seconds": cut.seconds} for cut in found]
                result = located({"whole": whole, "cuts": cuts})
                place = result.costs.index(result.slow) if result.slow is not None else None
                total += 1
                right += place == slow
                each = " ".join(f"{cost.kind} {cost.seconds * 1e3:.1f}" for cost in result.costs)
                named = "right" if place == slow else "wrong" if place is not None else "none named"
                print(f"{slowness.__name__} {stages} stages, slow at {slow}: {named}  ({each}, ms)", flush=True)
    print(f"{right} of {total} named right")


def pipeline(stages: int, slow: int, slowness: Callable[[Any, float], Any]) -> Any:
    """A pipeline of so many stages, one of them slow."""
    kinds = KINDS[stages]
    rows = np.random.default_rng(0).random((ROWS, 64)).astype("float32")
    data: Any = None
    batched = False
    for place, kind in enumerate(kinds):
        each = 0.03 if batched else 0.03 / BATCH
        if kind == "s":
            data = source(rows, each if place == slow else 0.0)
        elif kind == "m":
            data = data.map(worker(each if place == slow else 0.0, slowness))
        elif kind == "f":
            data = data.filter(chooser(each if place == slow else 0.0, slowness))
        elif kind == "b":
            data = data.batch(BATCH)
            batched = True
        else:
            data = data.shuffle(256)
    return data


def source(rows: Any, seconds: float) -> Any:
    if not seconds:
        return tf.data.Dataset.from_tensor_slices(rows)

    def generate() -> Any:
        for row in rows:
            time.sleep(seconds)
            yield row

    return tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec((64,), tf.float32))


def worker(seconds: float, slowness: Callable[[Any, float], Any]) -> Callable[[Any], Any]:
    def work(row: Any) -> Any:
        return slowness(row, seconds) if seconds else tf.sqrt(row + 1.0)

    return work


def chooser(seconds: float, slowness: Callable[[Any, float], Any]) -> Callable[[Any], Any]:
    work = worker(seconds, slowness)
    return lambda row: tf.reduce_sum(work(row)) > 1.0


def sleeps(row: Any, seconds: float) -> Any:
    def wait(values: Any) -> Any:
        time.sleep(seconds)
        return values

    return tf.ensure_shape(tf.numpy_function(wait, [row], tf.float32), row.shape)


def computes(row: Any, seconds: float) -> Any:
    """Multiplies for about as long, in TensorFlow alone."""
    size = 192
    matrix = tf.fill((size, size), tf.reduce_mean(row) * 1e-3)
    rounds = max(1, int(seconds / 3e-4))
    for _ in range(rounds):
        matrix = tf.tanh(tf.matmul(matrix, matrix))
    return row + matrix[0, 0]


if __name__ == "__main__":
    main()
