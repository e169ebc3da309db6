"""The whole way, with real processes and a Keras of ours that takes no time to import: run, fix, verify."""

import math
import time
from dataclasses import replace

import pytest
from click.testing import CliRunner

from fitscope import experiment
from fitscope import speedup as module
from fitscope.cli.speedup_ import command
from fitscope.fix import write
from fitscope.fixes.kind import Project
from fitscope.model import Where
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
        self.seconds = EAGER if run_eagerly else 0.2

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

    def predict(self, row):
        # What it takes is only seen once the step is compiled.
        ledger = recorder.ledger()
        root = recorder.root(ledger, "predict", Place(os.path.abspath(sys.argv[0]), 7))
        recorder.regions[root].calls += 1
        ledger.enter(recorder.tree.node(root, "setup", "preparing"))
        time.sleep(0.0 if self.seconds > 1 else 0.1)
        recorder.regions[root].step(1000)
        ledger.back(ledger.outside)

    def predict_on_batch(self, row):
        pass
"""
SCRIPT = """import keras

model = keras.Sequential([])
model.compile("sgd", "mse", run_eagerly=True)
model.fit([1], [2])
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A script and its recorded report, where a loss is said to be so."""

    def make(loss="0.5", script=SCRIPT, eager="1.2"):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(experiment, "FOREIGN_CORES", math.inf)
        (tmp_path / "keras.py").write_text(KERAS.replace("LOSS", loss).replace("EAGER", eager))
        (tmp_path / "train.py").write_text(script)
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


def test_what_the_first_edits_leave_over_is_found_and_edited_too(made, tmp_path):
    rows = "for row in [range(2)] * 12:\n    model.predict(row[:1])\n"
    rows += "none = {}\nfor row in none:\n    model.predict(row[None])\n"
    project, report = made(script=SCRIPT + rows, eager="2.8")
    assert [finding.name for finding in report.findings] == ["eager-execution"]
    said = []
    result = speedup(Bench(project, [], 120.0, said.append), report, 120.0)
    assert "found: predict-in-loop" in said
    places = [(edit.finding.name, edit.finding.where) for edit in result.applied.edits]
    assert places == [
        ("eager-execution", Where("train.py", 4)),
        ("predict-in-loop", Where("train.py", 7)),
        ("predict-in-loop", Where("train.py", 10)),  # of the same cause, by the source alone
    ]
    diff = result.applied.diff().decode()
    assert diff.count("--- a/train.py") == 1
    assert '+model.compile("sgd", "mse")\n' in diff
    assert "+    model.predict_on_batch(row[:1])\n" in diff
    write(result.applied)
    assert (tmp_path / "train.py").read_text().endswith("    model.predict_on_batch(row[None])\n")
    assert result.verified.outcome.speedup.low > 3  # 2.8 s became 1.4 s at first, and 0.2 s in the end
    assert result.sentence.endswith("times faster, same losses")


def test_why_nothing_was_found_in_a_short_training_is_said(made):
    made(eager="0.3")
    done = CliRunner().invoke(command, ["--budget", "60s", "train.py"])
    assert done.exit_code == 1
    said = " ".join(done.stderr.split())
    assert "found: nothing" in said
    assert "of training are too little to find a cause in" in said
    assert said.endswith("fitscope: nothing verified: the script stays as it is.")


UNSAFE = SCRIPT.replace("import keras\n", "import keras; DEBUG = bool(1)\n").replace("=True", "=DEBUG")


def test_an_edit_that_may_change_results_is_not_made_but_what_it_gains_is_said(made):
    project, report = made("self.seconds", UNSAFE)
    said = []
    result = speedup(Bench(project, [], 60.0, said.append), report, 60.0)
    assert result.applied.diff() == b""
    (edit,) = result.withheld
    assert edit.unsafe == "run_eagerly no longer follows what it was set from"
    assert result.sentence.startswith("no edit was verified that surely leaves the training the same; with --unsafe ")
    assert result.sentence.endswith("times faster, other losses, as the unsafe edits may have")
    assert len([text for text in said if "in copies of" in text]) == 1


def test_the_command_names_what_is_not_made_unasked_and_how_to_get_it(made, tmp_path):
    made("self.seconds", UNSAFE)
    done = CliRunner().invoke(command, ["--budget", "60s", "train.py"])
    assert done.exit_code == 1
    assert done.stdout == ""
    said = " ".join(done.stderr.split())
    order = [
        "found: eager-execution",
        "ms edited",
        "eager-execution train.py:5: not made without --unsafe",
        "but: run_eagerly no longer follows what it was set from",
        "fitscope: no edit was verified that surely leaves the training the same; with --unsafe",
        "next: fitscope fix --unsafe train.py",
    ]
    found = [said.find(text) for text in order]
    assert -1 not in found, said
    assert found == sorted(found)


def test_what_an_unsafe_edit_gains_is_said_where_a_safe_one_was_withdrawn(made, monkeypatch):
    project, report = made("self.seconds")
    real = module.fixes

    def found(project, findings, *, unsafe=False):
        result = real(project, findings, unsafe=unsafe)
        other = tuple(replace(edit, unsafe="it may change something") for edit in result.edits)
        return replace(result, edits=other) if unsafe else result

    monkeypatch.setattr(module, "fixes", found)
    result = speedup(Bench(project, [], 60.0, lambda text: None), report, 60.0)
    assert "not the same" in result.verified.withdrawn[0][1]
    assert "; with --unsafe " in result.sentence


def test_with_unsafe_the_edit_is_made_and_nothing_is_withheld(made):
    project, report = made("self.seconds", UNSAFE)
    result = speedup(Bench(project, [], 60.0, lambda text: None), report, 60.0, unsafe=True)
    assert b"-model.compile(" in result.applied.diff()
    assert result.withheld == ()
    assert result.sentence.endswith("times faster, other losses, as the unsafe edits may have")


def test_no_time_is_spent_on_a_withheld_edit_where_it_would_not_do(made):
    project, report = made("self.seconds", UNSAFE)
    said = []
    result = speedup(Bench(project, [], 60.0, said.append), report, 2.0)
    assert said == []
    assert len(result.withheld) == 1
    assert result.sentence == "nothing verified: the script stays as it is"
