"""The remedies' own tests, `cases_*.py`, run once on each backend: a backend is chosen once per process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BACKENDS = ("tensorflow", "jax", "torch")


def run(backend, folder, *targets):
    """Runs pytest on these targets in a process of its own.

    What a remedy chooses it has measured, and a busy machine may mislead it once: what fails is run again, alone.
    """
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "pytest", "-q", f"--basetemp={folder}", "-o", f"cache_dir={folder}-cache"]
    command += ["-o", "python_files=cases_*.py", *map(str, targets)]
    for again in (False, True, True):
        environment |= {"FITSCOPE_THOROUGH": "1"} if again else {}  # otherwise the choice of tests changes
        words = [*command, *(["--last-failed", "--last-failed-no-failures=none"] if again else [])]
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500)
        if done.returncode == 0:
            return
        print(done.stdout[-9000:] + done.stderr[-2000:])
    pytest.fail(f"some tests failed three times on {backend}")


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_cases_hold(tmp_path, backend):
    run(backend, tmp_path / "cases", HERE)


def test_the_examples_of_the_docstrings_run(tmp_path):
    run(
        "tensorflow",
        tmp_path / "examples",
        "--doctest-modules",
        ROOT / "src" / "fitscope" / "remedy",
        ROOT / "src" / "fitscope" / "metrics.py",
    )
