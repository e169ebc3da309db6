"""The same function through Loader and through what people use instead: whole epochs of a small training, in turn.

    python benchmarks/loader.py                                   waiting, lock-holding and lock-free work, on JAX
    python benchmarks/loader.py --backend torch --work holds --rounds 9

Each rival trains for some seconds before it is timed, so that workers are started, models compiled, and Loader has
made up its mind. The timed epoch is the second of a `fit`, and the figure is *its epoch over Loader's* (see
side_by_side.py): above 1, Loader is faster. The bar is 0.95 for the best of the others.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from side_by_side import BACKENDS, interleaved, machine, ratio

WORKS = ("waits", "holds", "frees")
WORDS = {
    "waits": "a batch waits 10 ms (a disk, a network)",
    "holds": "a batch is 10 ms of Python code, which holds the interpreter lock",
    "frees": "a batch is 10 ms of numpy, which frees it",
}
SHAPE = (32, 32, 32, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS, default="jax")
    parser.add_argument("--work", choices=WORKS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=150, help="of an epoch")
    parser.add_argument("--warm-up", type=float, default=8.0, help="seconds of training before the timed epochs")
    parser.add_argument("--only", help="rivals whose names contain this")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure(options)
        return
    rows = []
    for work in [options.work] if options.work else WORKS:
        words = [sys.executable, __file__, *sys.argv[1:], "--child", "--work", work]
        environment = {**os.environ, "KERAS_BACKEND": options.backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print(f"\n{options.backend}: {WORDS[work]}; {options.rounds} rounds of {options.batches} batches", end="")
        print(f" ({machine()})")
        print(f"  {found['loader']}")
        for row in found["rows"]:
            print(f"  {row['rival']:34s} {row['ratio']:6.2f}  [{row['low']:.2f}, {row['high']:.2f}]", flush=True)
        best = min(found["rows"], key=lambda row: row["ratio"])
        print(f"  the best of them, {best['rival']}: {best['ratio']:.2f}, bar 0.95")
        rows += [{**row, "work": work, "backend": options.backend} for row in found["rows"]]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


# --- in the child -----------------------------------------------------------------------------------------


def waits(index: int) -> Any:
    time.sleep(0.01)
    return picture(index)


def holds(index: int) -> Any:
    total = 0
    for number in range(PYTHON_STEPS):
        total += number * index % 7
    return picture(index)


def frees(index: int) -> Any:
    import numpy as np

    np.sort(np.random.default_rng(index).random(NUMPY_STEPS))
    return picture(index)


def picture(index: int) -> Any:
    import numpy as np

    return np.full(SHAPE, index % 7, "float32"), np.full((SHAPE[0], 1), index % 3, "float32")


PYTHON_STEPS = 170_000
NUMPY_STEPS = 700_000


class ByIndex:
    """For rivals that want an object."""

    def __init__(self, function: Callable[[int], Any], length: int) -> None:
        self.function = function
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return self.function(int(index))


def measure(options: argparse.Namespace) -> None:
    import keras

    import fitscope

    function = globals()[options.work]
    loader = fitscope.Loader(function, length=options.batches)
    rivals: dict[str, Any] = {"Loader": lambda: loader, **others(function, options.batches)}
    if options.only:
        rivals = {name: make for name, make in rivals.items() if name == "Loader" or options.only in name}
    trainings = {}
    for name, make in rivals.items():
        model = keras.Sequential([keras.Input(SHAPE[1:]), keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile(loss="mse", optimizer="sgd")
        trainings[name] = Training(model, make(), options.batches)
        began = time.perf_counter()
        while time.perf_counter() - began < options.warm_up:
            trainings[name].epochs(2)
    times = interleaved({name: lambda each=each: each.epochs(2) for name, each in trainings.items()}, options.rounds)
    rows = []
    for name in trainings:
        if name != "Loader":
            found = ratio(times[name], times["Loader"])
            rows.append({"rival": name, "ratio": found.median, "low": found.low, "high": found.high})
    print(json.dumps({"rows": rows, "loader": repr(loader)}))
    loader.close()
    sys.stdout.flush()
    os._exit(0)  # some rivals' workers do not end by themselves


class Training:
    """A model and its data; the timed epoch is the last of a fit, when everything is running."""

    def __init__(self, model: Any, data: Any, batches: int) -> None:
        import keras

        class Clock(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                self.began = time.perf_counter()

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                self.seconds = time.perf_counter() - self.began

        self._model, self._data, self._clock = model, data, Clock()
        self._steps = batches if "grain" in type(data).__module__ else None

    def epochs(self, count: int) -> float:
        gc.collect()
        options = {"shuffle": False, "verbose": 0, "callbacks": [self._clock], "steps_per_epoch": self._steps}
        self._model.fit(self._data, epochs=count, **options)
        return float(self._clock.seconds)


def others(function: Callable[[int], Any], batches: int) -> dict[str, Callable[[], Any]]:
    import keras

    class Data(keras.utils.PyDataset):
        def __len__(self) -> int:
            return batches

        def __getitem__(self, index: int) -> Any:
            return function(index)

    def pydataset(**options: Any) -> Callable[[], Any]:
        return lambda: Data(**options)

    def torch_loader(workers: int) -> Callable[[], Any]:
        def make() -> Any:
            import torch

            # "spawn", the safe way beside a backend's threads
            how: dict[str, Any] = {"persistent_workers": True, "multiprocessing_context": "spawn"} if workers else {}
            return torch.utils.data.DataLoader(
                ByIndex(function, batches), batch_size=None, num_workers=workers, **how
            )

        return make

    def grain_loader(workers: int) -> Callable[[], Any]:
        def make() -> Any:
            import grain
            from absl import flags

            flags.FLAGS.mark_as_parsed()
            # Repeated, or it would start its processes anew in each epoch. With its own depth, 500, it would load
            # much of the timed epoch before that begins.
            depth = grain.ReadOptions(num_threads=16, prefetch_buffer_size=32)
            data = grain.MapDataset.source(ByIndex(function, batches)).repeat().to_iter_dataset(depth)
            return data.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers)) if workers else data

        return make

    found = {
        "PyDataset": pydataset(),
        "PyDataset, 2 threads": pydataset(workers=2),
        "PyDataset, 4 threads": pydataset(workers=4),
        "torch DataLoader": torch_loader(0),
        "torch DataLoader, 2 processes": torch_loader(2),
        "Grain, 16 threads": grain_loader(0),
        "Grain, 2 processes": grain_loader(2),
    }
    if keras.config.backend() == "torch":  # a fork beside TensorFlow's or JAX's threads can hang
        found["PyDataset, 2 processes"] = pydataset(workers=2, use_multiprocessing=True)
    return found


if __name__ == "__main__":
    main()
