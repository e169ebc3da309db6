"""Lets `fitscope speedup` edit the labelled scripts, and times what it made next to the original and the fixed twin.

python corpus/fix.py                     all whose cause can be fixed by an edit (`make corpus-fix`)
python corpus/fix.py c03 c24             those whose names begin so (`make corpus-fix CASES="c03 c24"`)
python corpus/fix.py --budget 2m c24     with another budget for each

A row: seconds of training of the original, of the edited script and of the twin (medians of runs in turns), how fast
the edited one is as a share of the twin's speed, and whether it trains as the original does.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from fitscope.experiment import Trial, Version, Workspace, sameness
from fitscope.fixes import BY_CAUSE
from fitscope.model import FitscopeError

HERE = Path(__file__).parent
REACHED = 0.9
"""Of the speed of the twin: as fast as it, noise apart."""
SLOWER = 1.1
LONGEST = 300.0


@dataclass(frozen=True)
class Row:
    """What became of one script."""

    original: float
    edited: float
    twin: float
    same: str
    says: str
    unchanged: bool
    unsafe: bool
    """Whether edits that may change results were allowed, too."""

    @property
    def share(self) -> float:
        """The speed of the edited script, as a share of the twin's."""
        return self.twin / self.edited

    @property
    def verdict(self) -> str:
        """reached, short, slower or different; unchanged if nothing was verified."""
        if self.unchanged:
            return "unchanged"
        if self.same == "different" and not self.unsafe:
            return "different"
        if self.edited > SLOWER * self.original:
            return "slower"
        return "reached" if self.share >= REACHED else "short"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--unsafe", action="store_true", help="let it make edits that may change results, too")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    rows: list[Row] = []
    left_out: list[str] = []
    print(f"{'script':26s} {'original':>9s} {'edited':>9s} {'twin':>9s} {'of twin':>8s}  {'verdict':9s} losses")
    for label in labels(tuple(arguments.cases)):
        missing = [name for name in label["needs"] if importlib.util.find_spec(name) is None]
        if missing or not set(label["causes"]) & set(BY_CAUSE):
            why = f"needs {', '.join(missing)}" if missing else "no kind of edit for its cause"
            left_out.append(f"{label['id']}: {why}")
            continue
        try:
            row = fixed(label, arguments.budget, arguments.rounds, unsafe=arguments.unsafe)
        except (FitscopeError, subprocess.TimeoutExpired) as error:
            print(f"{label['id']:26s} failed: {error}", flush=True)
            continue
        rows.append(row)
        times = " ".join(f"{seconds:8.2f}s" for seconds in (row.original, row.edited, row.twin))
        print(f"{label['id']:26s} {times} {row.share:8.2f}  {row.verdict:9s} {row.same}; {row.says}", flush=True)
    reached = sum(row.verdict == "reached" for row in rows)
    print(f"{reached} of {len(rows)} reached {REACHED:.0%} of the twin's speed")
    for text in left_out:
        print(f"left out: {text}")
    sys.exit(1 if any(row.verdict in ("slower", "different") for row in rows) else 0)


def labels(wanted: tuple[str, ...]) -> list[dict[str, Any]]:
    """The labels of the slow scripts whose names begin so."""
    found = []
    for path in sorted(HERE.glob("c[0-9]*.json")):
        label = json.loads(path.read_text())
        if (not wanted or path.name.startswith(wanted)) and (HERE / f"{path.stem}_fixed.py").is_file():
            found.append({**label, "id": path.stem})
    return found


def fixed(label: dict[str, Any], budget: str, rounds: int, *, unsafe: bool) -> Row:
    """Edits one script, and times it next to the other two."""
    name = f"{label['id']}.py"
    os.environ["KERAS_BACKEND"] = label["backend"]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for file in (name, f"{label['id']}_fixed.py", *(each.name for each in HERE.glob("lib_*.py"))):
            shutil.copy(HERE / file, folder / file)
        originals = {path.name: path.read_bytes() for path in folder.glob("*.py")}
        options = ["--budget", budget, "--write", *(["--unsafe"] if unsafe else []), name]
        command = [sys.executable, "-m", "fitscope", "speedup", *options]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=3600)
        if done.returncode > 1:
            raise FitscopeError(done.stderr.strip()[-500:])
        unchanged = all((folder / file).read_bytes() == content for file, content in originals.items())
        python = (sys.executable, name)
        versions = (
            Version("the original", python, originals),
            Version("the edited script", python),
            Version("the twin", (sys.executable, f"{label['id']}_fixed.py"), originals),
        )
        trials: list[list[Trial]] = [[] for _ in versions]
        with Workspace(folder) as workspace:
            for turn in range(rounds):
                for at in range(len(versions)) if turn % 2 == 0 else reversed(range(len(versions))):
                    found = workspace.run(versions[at], time.monotonic() + LONGEST, LONGEST)
                    trials[at].append(found)
    original, edited, twin = (median(trial.seconds for trial in each) for each in trials)
    words = " ".join(done.stderr.split())
    says = words.rpartition("fitscope: ")[2] if not unchanged else words.partition("withdrawn, ")[2] or words[-200:]
    return Row(original, edited, twin, sameness(trials[0], trials[1]), says, unchanged, unsafe)


if __name__ == "__main__":
    main()
