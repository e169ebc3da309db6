"""Edits that do not hold are withdrawn, with a reason."""

import math

import pytest

from fitscope import verify as module
from fitscope.experiment import Outcome
from fitscope.fix import findings_of, fixes
from fitscope.fixes.kind import Project
from fitscope.model import FitscopeError, Speedup
from fitscope.verify import Bench, verify

TWO = """import keras

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse", run_eagerly=True)
for row in rows:
    answers.append(model.predict(row[None]))
"""
FASTER = Outcome(Speedup(1.5, 2.0), "equal", 3)
NO_GAIN = Outcome(Speedup(0.9, 1.1), "equal", 8)
OTHER = Outcome(Speedup(1.5, 2.0), "different", 3)
BUSY = Outcome(None, "unknown", 1, "other programs were busy")


@pytest.fixture
def verified(tmp_path, monkeypatch):
    """What is left of the two edits, where an experiment with some of them ends as told."""

    def run(outcomes):
        (tmp_path / "train.py").write_text(TWO)
        project = Project(tmp_path / "train.py", here=tmp_path)
        edits = fixes(project, findings_of(project)).edits
        assert [edit.finding.name for edit in edits] == ["eager-execution", "predict-in-loop"]
        seen = []

        def compare(folder, one, other, budget, tell, seconds):
            text = other.files["train.py"].decode()
            key = "eager" * ("run_eagerly" not in text) + "predict" * ("predict_on_batch" in text)
            seen.append((key, budget))
            assert not one.files
            if isinstance(outcomes[key], str):
                raise FitscopeError(outcomes[key])
            return outcomes[key]

        monkeypatch.setattr(module, "compare_versions", compare)
        return verify(Bench(project, ["--epochs", "3"], 600.0, lambda text: None), edits, 600.0), seen

    return run


def names(edits):
    return [edit.finding.name for edit in edits]


def test_edits_that_hold_together_stay(verified):
    result, seen = verified({"eagerpredict": FASTER})
    assert names(result.kept) == ["eager-execution", "predict-in-loop"]
    assert result.outcome is FASTER
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (NO_GAIN, "not faster beyond doubt"),
        (OTHER, "the training is not the same"),
        ("the edited script ended with exit code 1: TypeError.", "exit code 1"),
    ],
)
def test_an_edit_that_fails_alone_is_withdrawn_and_the_other_stays(verified, outcome, reason):
    result, seen = verified({"eagerpredict": outcome, "eager": FASTER, "predict": outcome})
    assert names(result.kept) == ["eager-execution"]
    assert result.outcome is FASTER
    ((edit, why),) = result.withdrawn
    assert edit.finding.name == "predict-in-loop"
    assert reason in why
    assert math.isclose(sum(budget for _, budget in seen), 1200, rel_tol=0.3)


def test_what_will_run_and_what_leaves_the_machine_is_said_before_the_first_run(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(f"import requests\n{TWO}requests.post('http://tracker')\n")
    project = Project(tmp_path / "train.py", here=tmp_path)
    said = []

    def compare(*arguments):
        said.append("began")
        return FASTER

    monkeypatch.setattr(module, "compare_versions", compare)
    bench = Bench(project, ["--epochs", "3"], 600.0, said.append)
    for _ in range(2):
        verify(bench, fixes(project, findings_of(project)).edits, 60.0)
    assert said == [
        f"`python train.py --epochs 3` runs several times in copies of {tmp_path}, for 10 min 00 s at most",
        "train.py:8 calls requests.post: every run does",
        "began",
        "began",
    ]


def test_without_a_verdict_nothing_stays_and_nothing_more_is_tried(verified):
    result, seen = verified({"eagerpredict": BUSY})
    assert result.kept == ()
    assert {why for _, why in result.withdrawn} == {"no verdict: other programs were busy"}
    assert len(seen) == 1


def test_nothing_stays_where_nothing_holds(verified):
    result, _ = verified({"eagerpredict": NO_GAIN, "eager": NO_GAIN, "predict": NO_GAIN})
    assert result.kept == ()
    assert len(result.withdrawn) == 2


def test_a_script_outside_of_the_working_folder_is_one_sentence(tmp_path):
    (tmp_path / "train.py").write_text(TWO)
    (tmp_path / "here").mkdir()
    project = Project(tmp_path / "train.py", here=tmp_path / "here")
    with pytest.raises(FitscopeError, match="start fitscope in a folder above the script"):
        verify(Bench(project, [], 600.0, lambda text: None), [], 600.0)


def test_edits_that_hold_alone_but_not_together_leave_the_better_one(verified):
    better = Outcome(Speedup(1.8, 2.0), "equal", 3)
    result, seen = verified({"eagerpredict": OTHER, "eager": FASTER, "predict": better})
    assert names(result.kept) == ["predict-in-loop"]
    assert result.outcome is better
    assert [key for key, _ in seen] == ["eagerpredict", "eager", "predict"]
