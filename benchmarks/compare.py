"""How often `fitscope compare` is wrong: false alarms between equal runs, and slowdowns of a tenth that it misses.

Real trainings in processes of their own, A and B in turn; B does a tenth more work in each step (matrix products, no
sleep). Runs are kept in a pool, so that they can be recorded a few minutes at a time:

    python benchmarks/compare.py record --minutes 25
    python benchmarks/compare.py judge

`judge` compares every run with every other (or, with --runs 3, sets of three with sets of three, drawn at random) and
prints how often the answer was wrong, with an interval from drawing the recorded runs anew (a bootstrap): pairs that
share a run are not independent. The peer is what a careful person does by hand: Welch's t-test over the time per step
of the epochs, at the same level.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from pathlib import Path
from statistics import NormalDist, fmean, variance
from typing import Any

WORK = {"a": 40, "b": 44}
"""Matrix products in a step."""
DRAWN = 300


def train(products: int, seconds: float) -> None:
    """The training that is recorded."""
    import keras
    import numpy as np
    from keras import ops

    class Products(keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(256, 256), initializer="orthogonal")

        def call(self, x):
            for _ in range(products):
                x = ops.tanh(ops.matmul(x, self.kernel))
            return x

    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 0:
                self.began = time.perf_counter()
            elif time.perf_counter() - self.began > seconds:
                self.model.stop_training = True

    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3200, 256)).astype("float32"), rng.integers(0, 10, 3200)
    model = keras.Sequential([keras.Input((256,)), Products(), keras.layers.Dense(10)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(x, y, batch_size=128, epochs=100_000, verbose=0, callbacks=[Stop()])


def record(pool: Path, minutes: float, seconds: float) -> None:
    """A and B in turn until the time is over."""
    pool.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    number = 1 + max((int(path.stem.split("-")[1]) for path in pool.glob("b-*.run")), default=0)
    while True:
        for side, products in random.sample(list(WORK.items()), 2):
            if time.monotonic() > end:
                return
            command = [sys.executable, "-m", "fitscope", "run", "-o", str(pool / f"{side}-{number}.run")]
            words = [__file__, "train", str(products), str(seconds)]
            subprocess.run([*command, *words], check=True, capture_output=True)
        number += 1


def judge(pool: Path, runs: int, rounds: int) -> None:
    """Both rates, for fitscope and for the peer."""
    from fitscope.baseline import gather

    sides = {side: [gather(str(path))[0] for path in sorted(pool.glob(f"{side}-*.run"))] for side in WORK}
    print(f"{len(sides['a'])} runs of A, {len(sides['b'])} of B; {runs} of each in a comparison")
    for side, found in sides.items():
        calm = [each.regions[0].by_stretches() for each in found if not each.regions[0].disturbed]
        if len(calm) < 2:
            print(f"  {side}: all but {len(calm)} of {len(found)} runs were disturbed by other programs")
            continue
        logs = [math.log(each.per_step) for each in calm]
        middle, spread = math.exp(fmean(logs)) * 1e3, 100 * math.sqrt(variance(logs))
        doubt = 100 * math.sqrt(fmean((each.doubt or 0.0) ** 2 for each in calm))
        disturbed = f"{len(found) - len(calm)} disturbed"
        print(f"  {side}: {middle:.2f} ms per step; {disturbed}, the others {spread:.1f} % apart", end=" ")
        print(f"({doubt:.1f} % expected from how uneven each is)")
    answers = Answers()
    titles = (
        ("A/A, told to differ", "a", "a"),
        ("B/B, told to differ", "b", "b"),
        ("A/B, told to be slower", "a", "b"),
    )
    for title, first, second in titles:
        rates = rate(sides[first], sides[second], runs, answers)
        drawn = [rate(sides[first], sides[second], runs, answers, random.Random(n)) for n in range(rounds)]
        print(f"{title}: {rates['pairs']:.0f} pairs")
        for name in ("compare", "--fail-above 5%", "cannot say", "parts", "peer"):
            values = sorted(each[name] for each in drawn if each["pairs"])
            if not values:
                print(f"  {name:16s} {100 * rates[name]:5.1f} %  (too few runs for an interval)")
                continue
            low, high = values[int(0.025 * len(values))], values[int(0.975 * len(values))]
            print(f"  {name:16s} {100 * rates[name]:5.1f} %  [{100 * low:.1f}, {100 * high:.1f}]")


class Answers:
    """What is said of two sets of runs, remembered."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], dict[str, bool]] = {}

    def __call__(self, one: Sequence[Any], other: Sequence[Any], *, planted: bool) -> dict[str, bool]:
        from fitscope.compare import compare_runs, gate

        key = (*map(id, one), None, *map(id, other))
        if key not in self._known:
            found = compare_runs(one, other)
            wanted = ("slower",) if planted else ("slower", "faster")
            self._known[key] = {
                "compare": found.verdict in wanted,
                "--fail-above 5%": gate(found, 0.05) == "slower",
                "cannot say": gate(found, 0.05) == "cannot say",
                "parts": any(part.change.verdict in wanted for region in found.regions for part in region.parts),
                "peer": peer(one, other) in wanted,
            }
        return self._known[key]


def rate(
    first: Sequence[Any], second: Sequence[Any], runs: int, answers: Answers, drawing: random.Random | None = None
) -> dict[str, float]:
    """How often each answer was given; of a pool drawn anew if asked."""
    same = first is second
    if drawing is not None:
        first = drawing.choices(first, k=len(first))
        second = first if same else drawing.choices(second, k=len(second))
    found = [
        answers(one, other, planted=not same)
        for one, other in pairs(first, second, runs, same=same)
        if len({id(each) for each in (*one, *other)}) == len(one) + len(other)  # drawn twice, it is still one run
    ]
    names = found[0] if found else ()
    return {"pairs": len(found), **{name: fmean(each[name] for each in found) for name in names}}


def pairs(first: Sequence[Any], second: Sequence[Any], runs: int, *, same: bool) -> Iterator[tuple[Any, Any]]:
    """All pairs of single runs; some pairs of sets of runs, none in both."""
    if runs == 1:
        yield from (((a,), (b,)) for a, b in (permutations(first, 2) if same else product(first, second)))
        return
    drawing = random.Random(1)
    for _ in range(DRAWN):
        if same:
            some = drawing.sample(first, min(2 * runs, len(first)))
            yield some[: len(some) // 2], some[len(some) // 2 :]
        else:
            yield drawing.sample(first, min(runs, len(first))), drawing.sample(second, min(runs, len(second)))


def peer(one: Sequence[Any], other: Sequence[Any]) -> str:
    """Welch's t-test over epochs."""
    a, b = ([block.per_step for run in runs for block in run.regions[0].blocks] for runs in (one, other))
    surprise = (fmean(b) - fmean(a)) / math.sqrt(variance(a) / len(a) + variance(b) / len(b))
    if abs(surprise) < NormalDist().inv_cdf(0.99):
        return "same"
    return "slower" if surprise > 0 else "faster"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="record runs into the pool")
    recording.add_argument("--minutes", type=float, default=10.0)
    recording.add_argument("--seconds", type=float, default=50.0, help="of training in each run")
    recording.add_argument("--backend", default="jax")
    judging = commands.add_parser("judge", help="print both rates")
    judging.add_argument("--runs", type=int, default=1, help="of each side in one comparison")
    judging.add_argument("--rounds", type=int, default=200, help="of the bootstrap")
    for each in (recording, judging):
        each.add_argument("--pool", type=Path, default=Path(".fitscope/benchmark-compare"))
    training = commands.add_parser("train")
    training.add_argument("products", type=int)
    training.add_argument("seconds", type=float)
    asked = parser.parse_args()
    if asked.command == "train":
        train(asked.products, asked.seconds)
    elif asked.command == "record":
        os.environ["KERAS_BACKEND"] = asked.backend
        record(asked.pool, asked.minutes, asked.seconds)
    else:
        judge(asked.pool, asked.runs, asked.rounds)


if __name__ == "__main__":
    main()
