"""What the live line costs: the processor time of the process that draws it, over the time of the training.

    python benchmarks/live.py --backend jax --seconds 60 --rounds 3

`fitscope run` with and without `--live` in turn, each in a real pseudo-terminal, on the same training with Keras' own
progress bar and steps of about a millisecond. The line is drawn by the process that waits for the script; the script
is the same with and without it. So what the line costs is what that process takes more of a processor with it than
without it, and the training loses all of that where both have to share one core.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from side_by_side import interleaved, machine

from terminal import Terminal

SCRIPT = """
import os, sys, time
import keras, numpy as np

def watcher():
    with open(f"/proc/{os.getppid()}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9

class Stop(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = time.perf_counter() - began > float(sys.argv[1])

x = np.random.default_rng(0).random((9600, 64)).astype("float32")
layers = keras.layers
model = keras.Sequential([*(layers.Dense(256, activation="relu") for _ in range(2)), layers.Dense(1)])
model.compile("sgd", "mse")
used, began = watcher(), time.perf_counter()
model.fit(x, x[:, :1], epochs=100_000, batch_size=32, callbacks=[Stop()])
with open("share", "w") as file:
    print((watcher() - used) / (time.perf_counter() - began), file=file)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("tensorflow", "jax", "torch"), default="jax")
    parser.add_argument("--seconds", type=float, default=60.0, help="of training in each run")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(SCRIPT)

        def run(*words: str) -> float:
            return watcher_share(Path(folder), options, words)

        shares = interleaved({"live": lambda: run("--live"), "plain": run}, options.rounds)
    extra = [live - plain for live, plain in zip(shares["live"], shares["plain"], strict=True)]
    print(f"{options.backend}, {options.seconds:.0f} s of training, {options.rounds} rounds; {machine()}")
    for name, values in (*shares.items(), ("the line itself", extra)):
        low, middle, high = (100 * each for each in (min(values), statistics.median(values), max(values)))
        print(f"  {name:16s} {middle:.3f} % of one core  [{low:.3f}, {high:.3f}]")


def watcher_share(folder: Path, options: argparse.Namespace, words: tuple[str, ...]) -> float:
    """The processor time that fitscope's own process takes during the training, over the seconds of the training."""
    command = ("-m", "fitscope", "run", *words, "-o", str(folder / "live.run"), "train.py", str(options.seconds))
    window = Terminal(folder, command, rows=24, KERAS_BACKEND=options.backend)
    if window.finish():
        sys.exit("\n".join(window.screen.display))
    return float(Path(folder, "share").read_text())


if __name__ == "__main__":
    main()
