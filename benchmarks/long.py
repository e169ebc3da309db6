"""A run of a million steps: what the recorder keeps in memory, how large the file is, how long `show` takes.

    python benchmarks/long.py                        a million real steps, bare and observed
    python benchmarks/long.py --backend tensorflow --steps 100000

The same script runs by itself and under `fitscope run`. It says how much memory it holds after a twentieth of its
steps and at its end. What the observed run holds beyond the bare one is the recorder's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EPOCHS = 100

SCRIPT = """
import os, sys
import keras, numpy as np

def held():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024

class Says(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch + 1 in (EPOCHS // 20, EPOCHS):
            print(held(), flush=True)

EPOCHS, steps = int(sys.argv[1]), int(sys.argv[2])
x = np.random.default_rng(0).random((steps // EPOCHS, 4)).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=1, epochs=EPOCHS, verbose=0, callbacks=[Says()])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=("tensorflow", "jax", "torch"), default="jax")
    parser.add_argument("--steps", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(SCRIPT)
        words = ["train.py", str(EPOCHS), str(options.steps)]
        bare, bare_seconds = trained(folder, options.backend, [sys.executable, *words])
        command = [sys.executable, "-m", "fitscope", "run", "-o", "it.run", *words]
        observed, seconds = trained(folder, options.backend, command)
        shown = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "fitscope", "show", "it.run"], cwd=folder, check=True, capture_output=True
        )
        shown = time.perf_counter() - shown
        size = (folder / "it.run").stat().st_size / 1e6
    print(f"{options.backend}, {options.steps:,} steps in {bare_seconds:.0f} s bare, {seconds:.0f} s observed")
    for kind, held in (("bare", bare), ("observed", observed)):
        print(f"  memory, {kind:10} {held[0]:7.1f} MB after a twentieth of the steps, {held[1]:7.1f} MB at the end")
    print(f"  the recorder       {observed[1] - bare[1]:7.1f} MB")
    print(f"  the run file       {size:7.1f} MB")
    print(f"  fitscope show      {shown:7.2f} s")


def trained(folder: Path, backend: str, command: list[str]) -> tuple[list[float], float]:
    """What the script said of its memory, in MB, and how long it took."""
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()], time.perf_counter() - began


if __name__ == "__main__":
    main()
