"""What watching costs: bare and observed fits in random order, in one process, with bare against bare beside it.

    python benchmarks/overhead.py                      all backends, 1 ms and 20 ms steps
    python benchmarks/overhead.py --backend jax --step-ms 1 --blocks 200
    python benchmarks/overhead.py --peers              the same work under other tools, too

A block is one `fit`. Blocks of all kinds follow each other in random order, round after round; a kind's ratio
is its block over the mean of the bare blocks of the same round, and the figure is the median of the rounds
with its 90 % interval (bootstrap). `bare again` is the control: what differs from 1 there is noise.

On several cores the wall time of a step jitters by far more than a percent. So everything runs on one core, with one
thread for the operations: nothing of fitscope's can hide on another core, which makes it the stricter measurement,
and the control is within half a percent. `--spread` uses all cores. The processor time of the training thread is
given beside the wall time.

Short fits that are not timed go before every block, bare or not. Python forgets what it had optimized when seams
are put in or taken out, and optimizes an instruction anew after it has failed dozens of times; in a script that
happens once, here it would happen in every block. A block is a fit of
hundreds of steps, because starting a fit takes as long as dozens of them, observed or not.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

BACKENDS = ("tensorflow", "jax", "torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS)
    parser.add_argument("--step-ms", type=float, choices=(1.0, 20.0))
    parser.add_argument("--blocks", type=int, default=150)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--spread", action="store_true", help="on all cores, with as many threads as usual")
    parser.add_argument("--callback", action="store_true", help="with a batch-end callback of the user's")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure(options)
        return
    rows = []
    for backend in [options.backend] if options.backend else BACKENDS:
        for step_ms in [options.step_ms] if options.step_ms else (1.0, 20.0):
            for callback in (False, True) if options.step_ms is None else (options.callback,):
                rows += run_child(options, backend, step_ms, callback)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def run_child(options: argparse.Namespace, backend: str, step_ms: float, callback: bool) -> list[dict[str, object]]:
    words = [sys.executable, __file__, "--child", "--step-ms", str(step_ms), "--blocks", str(options.blocks)]
    words += ["--callback"] * callback + ["--peers"] * options.peers
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if not options.spread:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the child's as well
        environment |= dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS"), "1")
        environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        found = json.loads(done.stdout.splitlines()[-1])
        rows: list[dict[str, object]] = found["rows"]
        if options.peers:
            rows += scalene(backend, step_ms, callback, Path(folder), found["width"])
    title = f"{backend}, steps of {found['step_ms']:.2f} ms, {'a batch-end callback' if callback else 'no callback'}"
    print(f"\n{title}, {found['steps']} steps a block, {options.blocks} rounds")
    for row in rows:
        print(
            f"  {row['tool']:28s} {row['ratio']:.3f}  [{row['low']:.3f}, {row['high']:.3f}]"
            f"  {row['us_per_step']:+8.1f} us per step{on_the_thread(row)}",
            flush=True,
        )
    return [{**row, "backend": backend, "step_ms": found["step_ms"], "callback": callback} for row in rows]


def on_the_thread(row: dict[str, object]) -> str:
    if "thread_us" not in row:
        return ""
    return f", {row['thread_us']:+.1f} [{row['thread_low']:+.1f}, {row['thread_high']:+.1f}] of the training thread"


# --- in the child -----------------------------------------------------------------------------------------


class Block(NamedTuple):
    """Seconds that one `fit` took, and the processor time of its thread."""

    wall: float
    thread: float


def measure(options: argparse.Namespace) -> None:
    with contextlib.redirect_stdout(sys.stderr):
        found = measured(options)
    print(json.dumps(found))


def measured(options: argparse.Namespace) -> dict[str, object]:
    import keras

    class Reads(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
            self.last = (logs or {}).get("loss")

    width, model, data, step = sized(options.step_ms / 1e3)
    steps = 300 if options.step_ms < 5 else 30
    callbacks = [Reads()] if options.callback else []

    def fit(extra: tuple[object, ...] = ()) -> Block:
        for _ in range(WARM_UPS):
            model.fit(*short, epochs=1, verbose=0, callbacks=callbacks, batch_size=BATCH)
        worked, began = time.thread_time(), time.perf_counter()
        model.fit(*data, verbose=0, callbacks=[*callbacks, *extra], batch_size=BATCH)
        return Block(time.perf_counter() - began, time.thread_time() - worked)

    data, short = inputs(width, steps), inputs(width, max(5, steps // 5))
    for _ in range(5):
        fit()
    kinds = {"bare": fit, "bare again": fit, "fitscope": observed(fit)}
    if options.peers:
        kinds |= peers(fit)
    chance = random.Random(0)
    times: dict[str, list[Block]] = {kind: [] for kind in kinds}
    rounds = options.blocks if options.step_ms < 5 else max(30, options.blocks // 3)
    for _ in range(rounds):
        order = list(kinds)
        chance.shuffle(order)
        for kind in order:
            times[kind].append(kinds[kind]())
    step = statistics.median(block.wall for block in times["bare"]) / steps
    rows = [row(kind, times, steps) for kind in kinds if kind != "bare"]
    return {"rows": rows, "step_ms": step * 1e3, "steps": steps, "width": width}


BATCH = 32
WARM_UPS = 3


def inputs(width: int, steps: int) -> tuple[object, object]:
    import numpy as np

    x = np.random.default_rng(0).random((steps * BATCH, 64)).astype("float32")
    return x, x[:, :1]


def sized(target: float) -> tuple[int, object, tuple[object, object], float]:
    """A dense model whose step takes about as long as asked."""
    width = 16
    while True:
        model = new_model(width)
        data = inputs(width, 50)
        for _ in range(3):
            began = time.perf_counter()
            model.fit(*data, epochs=1, verbose=0, batch_size=BATCH)
            step = (time.perf_counter() - began) / 50
        if step >= 0.8 * target or width > 8000:
            return width, model, data, step
        width = int(width * 1.5)


def new_model(width: int) -> object:
    import keras

    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((64,)), layers.Dense(width, activation="relu"), layers.Dense(width, activation="relu")]
    )
    model.add(layers.Dense(1))
    model.compile("sgd", "mse")
    return model


def observed(fit):
    import fitscope

    def block() -> Block:
        with fitscope.profile("overhead.run"):
            return fit()

    return block


def peers(fit):
    """The same fit under other tools, in this process; py-spy looks from outside."""
    import keras
    import pyinstrument

    class Naive(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            self.began = time.perf_counter()

        def on_train_batch_end(self, batch, logs=None):
            self.spent = time.perf_counter() - self.began

    def under_cprofile() -> Block:
        with cProfile.Profile():
            return fit()

    def under_pyinstrument() -> Block:
        with pyinstrument.Profiler():
            return fit()

    def under_py_spy() -> Block:
        program = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))
        words = [program, "record", "--pid", str(os.getpid()), "-o", "spy.svg"]
        spy = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(0.5)
        try:
            return fit()
        finally:
            spy.send_signal(signal.SIGINT)
            spy.communicate()

    kinds = {
        "naive timing callback": lambda: fit((Naive(),)),
        "cProfile": under_cprofile,
        "pyinstrument": under_pyinstrument,
        "py-spy, 100 Hz, outside": under_py_spy,
    }
    if keras.config.backend() == "tensorflow":
        kinds["TensorBoard(profile_batch)"] = lambda: fit(
            (keras.callbacks.TensorBoard("tensorboard", profile_batch=(2, 1000), write_graph=False),)
        )
    return kinds


def row(kind: str, times: dict[str, list[Block]], steps: int) -> dict[str, object]:
    ratios, extra, worked = [], [], []
    for block, bare, again in zip(times[kind], times["bare"], times["bare again"], strict=True):
        references = [bare] if kind == "bare again" else [bare, again]
        wall = statistics.mean(reference.wall for reference in references)
        ratios.append(block.wall / wall)
        extra.append((block.wall - wall) / steps * 1e6)
        worked.append((block.thread - statistics.mean(each.thread for each in references)) / steps * 1e6)
    low, high = interval(ratios)
    thread_low, thread_high = interval(worked)
    return {
        "tool": kind,
        "ratio": statistics.median(ratios),
        "low": low,
        "high": high,
        "us_per_step": statistics.median(extra),
        "thread_us": statistics.median(worked),
        "thread_low": thread_low,
        "thread_high": thread_high,
    }


def interval(values: list[float]) -> tuple[float, float]:
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(1000))
    return medians[50], medians[950]


def scalene(backend: str, step_ms: float, callback: bool, folder: Path, width: int) -> list[dict[str, object]]:
    """Scalene has to start the process itself: whole processes in turn, which is why its interval is wide."""
    script = folder / "alone.py"
    script.write_text(
        f"import sys, time\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"import overhead\nmodel = overhead.new_model({width})\ndata = overhead.inputs({width}, 100)\n"
        "fit = lambda: model.fit(*data, verbose=0, batch_size=overhead.BATCH)\nfit()\n"
        "began = time.perf_counter()\nfor _ in range(5): fit()\nprint('seconds', time.perf_counter() - began)\n"
    )
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}

    def alone(*prefix: str) -> float:
        words = [sys.executable, *prefix, str(script)]
        done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        line = next((line for line in done.stdout.splitlines() if line.startswith("seconds")), None)
        return float(line.split()[1]) if line else float("nan")

    pairs = [(alone(), alone("-m", "scalene", "run", "--cpu-only", "-o", "scalene.json")) for _ in range(3)]
    ratios = [watched / bare for bare, watched in pairs]
    extra = statistics.median(watched - bare for bare, watched in pairs) / 500
    return [
        {
            "tool": "Scalene, own processes (3)",
            "ratio": statistics.median(ratios),
            "low": min(ratios),
            "high": max(ratios),
            "us_per_step": extra * 1e6,
        }
    ]


if __name__ == "__main__":
    main()
