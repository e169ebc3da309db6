import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fitscope

TRAINS = """
import json, os, sys
rows = [
    {"fitscope_run": 1, "version": "0.0", "script": "train.py", "argv": [], "started": 0.0},
    {"define": "node", "id": 1, "key": [0, "region", "fit", "train.py", 3, 1]},
    {"define": "node", "id": 2, "key": [1, "step", "step", None, None, 1]},
    {"define": "region", "id": 1, "key": [1]},
    {"machine": {"cpu": "a processor", "cores": 2, "gpus": []}},
    {"t": 1.0, "node": {"2": [int(float(sys.argv[1]) * 1e9), 100]}, "region": {"1": [1, 100, 1]}},
]
with open(os.environ["FITSCOPE_RUN"], "a") as file:
    file.write("".join(json.dumps(row) + "\\n" for row in rows))
sys.stdout.flush()
os._exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
"""
TEST = """
import os

def test_training_is_as_fast_as_it_was(training_speed):
    training_speed("train.py", *os.environ["WORDS"].split(), repeat=8)
"""


@pytest.fixture
def speed(tmp_path):
    """Runs a project's test of its training's speed: exit code and what pytest says."""
    (tmp_path / "train.py").write_text(TRAINS)
    (tmp_path / "test_speed.py").write_text(TEST)

    def speed(words, *options):
        command = [sys.executable, "-m", "pytest", "-p", "fitscope.pytest_plugin", "-rs", "-q", *options]
        theirs = ("FITSCOPE", "PYTEST_ADDOPTS")
        ours = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
        environment = {
            **ours,
            "WORDS": words,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(Path(fitscope.__file__).parent.parent),
        }
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout

    return speed


def test_a_training_is_judged_by_the_baseline_that_was_recorded_for_it(speed, tmp_path):
    code, said = speed("10")
    assert code == 0
    assert "1 skipped" in said
    assert "record it with pytest --save-training-speed" in said
    code, said = speed("10", "--save-training-speed")
    assert (code, "commit it" in said) == (0, True)
    assert len(json.loads((tmp_path / "speed" / "train.json").read_text())["runs"]) == 8
    assert "1 passed" in speed("10")[1]
    code, said = speed("15")
    assert code == 1
    assert "B is slower: 50 % more time per step" in said
    assert "test_speed.py:" not in said
    code, said = speed("10.4")
    assert code == 0
    assert "cannot say whether it is slower" in said


def test_a_training_that_fails_is_no_speed_to_judge(speed):
    code, said = speed("10 3", "--save-training-speed")
    assert code == 1
    assert "train.py ended with exit code 3" in said
