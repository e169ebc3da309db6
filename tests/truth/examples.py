"""Runs the examples of all rules on one backend, and says what was found: a program that the tests run.

    python examples.py result.json [NAME or NAME:NUMBER …]

Each script is a file of its own, as a user's would be; all of them run in this process, so that the backend is
imported once.
"""

import dataclasses
import json
import os
import runpy
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras

import fitscope
from fitscope import diagnose
from fitscope.rules import CATALOG

BACKEND = keras.config.backend()

diagnose.FEW_SECONDS = 0.1
"""A fast example may be over before the second that a diagnosis asks for, and would be silent for that alone."""


def run(folder, name, text):
    """Trains as a script says, recorded."""
    keras.utils.clear_session()
    script = folder / f"{name}.py"
    script.write_text(text.lstrip("\n"))
    os.utime(script, (1, 1))
    with fitscope.profile(folder / f"{name}.run") as profile:
        runpy.run_path(str(script), run_name="__main__")
    lines = script.read_text().splitlines()
    return {
        "seconds": sum(region.wall_seconds for region in profile.account.regions),
        "doubts": profile.report.doubts,
        "findings": [
            {
                "name": finding.name,
                "line": lines[finding.where.line - 1].strip() if finding.where is not None else "",
                "estimated": dataclasses.asdict(finding.estimated) if finding.estimated is not None else None,
            }
            for finding in profile.findings
        ],
    }


def warm_up(text):
    """What a process does only once, loading kernels for instance, must not count for the first of two runs."""
    Path("warm_up.py").write_text(text.lstrip("\n"))
    runpy.run_path("warm_up.py", run_name="__main__")


def main():
    wanted = set(sys.argv[2:])
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for rule in CATALOG:
            for number, example in enumerate(rule.examples):
                key = f"{rule.name}:{number}"
                if BACKEND not in example.backends or (wanted and not {rule.name, key} & wanted):
                    continue
                stem = f"{rule.name}_{number}".replace("-", "_")
                warm_up(example.fast)
                found[key] = {
                    "slow": run(Path(folder), f"{stem}_slow", example.slow),
                    "fast": run(Path(folder), f"{stem}_fast", example.fast),
                }
                print(key, found[key], file=sys.stderr, flush=True)
        os.chdir("/")
    Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
