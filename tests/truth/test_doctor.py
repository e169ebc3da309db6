"""The machine examined with the three backends that are installed."""

import json
import os
import subprocess
import sys

import pytest

from fitscope.limits import limits, may_use


@pytest.fixture(scope="module")
def examined(tmp_path_factory):
    """The checks by name, and the exit code, where one thread is all that PyTorch may use."""
    words = [sys.executable, "-m", "fitscope", "doctor", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    folder = tmp_path_factory.mktemp("doctor")
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert list(folder.iterdir()) == []
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}, done.returncode


def test_each_backend_answers_with_what_it_sees_and_reaches(examined):
    checks, _ = examined
    for title in ("TensorFlow", "JAX", "PyTorch"):
        facts = checks[title]["facts"]
        assert facts.get("problem") is None
        assert facts["version"]
        assert facts["flops"] > 1e8


def test_one_thread_on_several_cores_is_wrong_and_named(examined):
    checks, code = examined
    here = limits()
    if may_use(here["usable_cores"], here["quota_cores"]) < 2:
        pytest.skip("this machine has one core")
    assert checks["threads"]["facts"]["backends"]["torch"]["intra"] == 1
    assert "PyTorch computes with 1 thread" in checks["threads"]["says"]
    assert code == 1


def test_rates_are_measured(examined):
    checks, _ = examined
    assert checks["disk"]["facts"]["bytes_per_second"] > 0
    assert checks["memory bandwidth"]["facts"]["one_thread"] > 1e8
