"""The whole way, with real processes and a Keras of ours that takes no time to import: run, fix, verify."""

import math
import time

import pytest

from fitscope import experiment
from fitscope.fixes.kind import Project
from fitscope.prove import recorded
from fitscope.speedup import speedup
from fitscope.verify import Bench

KERAS = """
import os, sys, time
from fitscope.observe.ledger import Place
from fitscope.observe.recorder import recorder

__version__ = "2.0"


class Sequential:
    def __init__(self, layers):
        pass

    def compile(self, optimizer, loss, run_eagerly=False):
        self.seconds = 1.2 if run_eagerly else 0.2

    def fit(self, x, y):
        ledger = recorder.ledger()
        root = recorder.root(ledger, "fit", Place(os.path.abspath(sys.argv[0]), 5))
        recorder.regions[root].calls += 1
        ledger.enter(recorder.tree.node(root, "step", "step"))
        for _ in range(10):
            time.sleep(self.seconds / 10)
            recorder.regions[root].step(round(self.seconds * 1e8))
        ledger.back(ledger.outside)
        recorder.fact("settings", root=root, run_eagerly=self.seconds > 1)
        recorder.fact("backend", backend="tensorflow")
        recorder.fact("history", root=root, scores={"loss": [LOSS]})
"""
SCRIPT = """import keras

model = keras.Sequential([])
model.compile("sgd", "mse", run_eagerly=True)
model.fit([1], [2])
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A script and its recorded report, where a loss is said to be so."""

    def make(loss="0.5"):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(experiment, "FOREIGN_CORES", math.inf)
        (tmp_path / "keras.py").write_text(KERAS.replace("LOSS", loss))
        (tmp_path / "train.py").write_text(SCRIPT)
        time.sleep(0.01)  # a file that was written in the instant in which the run begins is taken for a later one
        project = Project(tmp_path / "train.py", here=tmp_path)
        return project, recorded(Bench(project, [], 60.0, lambda text: None), 60.0)

    return make


def test_a_script_is_recorded_edited_and_verified(made, tmp_path):
    project, report = made()
    assert [finding.name for finding in report.findings] == ["eager-execution"]
    result = speedup(Bench(project, [], 60.0, lambda text: None), report, 60.0)
    assert result.sentence.endswith("times faster, same losses")
    assert b'-model.compile("sgd", "mse", run_eagerly=True)\n+model.compile("sgd", "mse")' in result.applied.diff()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {".fitscope", "keras.py", "train.py"}
    assert (tmp_path / "train.py").read_text() == SCRIPT


def test_an_edit_that_changes_the_losses_is_withdrawn(made):
    project, report = made("self.seconds")
    result = speedup(Bench(project, [], 60.0, lambda text: None), report, 60.0)
    assert result.sentence == "nothing verified: the script stays as it is"
    ((edit, reason),) = result.verified.withdrawn
    assert edit.finding.name == "eager-execution"
    assert "not the same" in reason
