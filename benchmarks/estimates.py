"""How right the estimates are: runs the rules' slow and fast examples in turn and compares gain and interval.

    KERAS_BACKEND=jax python benchmarks/estimates.py --rounds 3 [CAUSE …]

Only examples whose fast script is what the finding estimates are run. A row is one cause: the measured gain (median
of slow over median of fast, with its extremes), the interval of each slow run, and how many of them hold the gain.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "truth"))

from examples import BACKEND, run

from fitscope.rules import CATALOG
from fitscope.rules.rule import Example


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causes", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--families", default="input,callbacks")
    arguments = parser.parse_args()
    families = arguments.families.split(",")
    inside = total = 0
    print(f"{BACKEND}: {'cause':26s} {'gain':>18s}  inside  intervals", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for rule in CATALOG:
            if rule.family not in families or (arguments.causes and rule.name not in arguments.causes):
                continue
            for number, example in enumerate(rule.examples):
                if BACKEND not in example.backends or not example.estimable:
                    continue
                right, of = compare(Path(folder), rule.name, number, example, arguments.rounds)
                inside, total = inside + right, total + of
        os.chdir("/")
    print(f"{BACKEND}: {inside} of {total} intervals hold the gain")


def compare(folder: Path, name: str, number: int, example: Example, rounds: int) -> tuple[int, int]:
    """Prints the row of one example; how many intervals hold the gain, of how many."""
    stem = f"{name}_{number}".replace("-", "_")
    slow, fast, intervals = [], [], []
    for turn in range(rounds):
        recorded = run(folder, f"{stem}_slow_{turn}", example.slow)
        slow.append(recorded["seconds"])
        fast.append(run(folder, f"{stem}_fast_{turn}", example.fast)["seconds"])
        intervals += [each["estimated"] for each in recorded["findings"] if each["name"] == name]
    gain = median(slow) / median(fast)
    right = sum(each["low"] <= gain <= each["high"] for each in intervals)
    spread = f"{gain:.2f} ({min(slow) / max(fast):.2f}-{max(slow) / min(fast):.2f})"
    shown = " ".join(f"[{each['low']:.2f}, {each['high']:.2f}]" for each in intervals)
    print(f"{BACKEND}: {name:26s} {spread:>18s}  {right} of {rounds}  {shown}", flush=True)
    return right, rounds


if __name__ == "__main__":
    main()
