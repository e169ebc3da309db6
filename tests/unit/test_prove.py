"""Which experiment a finding gets, what it says of the whole training, and that it is kept with the run."""

import json
from dataclasses import replace

import pytest
from made import sink, train

from fitscope import prove as module
from fitscope import speedup as speedup_module
from fitscope import store
from fitscope.account import account
from fitscope.alternate import Shown
from fitscope.diagnose import diagnose
from fitscope.experiment import Outcome
from fitscope.fix import findings_of
from fitscope.fixes.kind import Project
from fitscope.locate import Cost, Located
from fitscope.model import Evidence, Finding, FitscopeError, Removal, Report, Speedup, Where
from fitscope.observe.ledger import Place
from fitscope.prove import Proof, choose, prove
from fitscope.rules import find
from fitscope.speedup import speedup
from fitscope.verify import Bench

SCRIPT = """import keras

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse", run_eagerly=True)
model.fit(x, y)
"""
WITH_HOOK = """import keras

class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.send(logs["loss"])

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, callbacks=[Slow()])
"""
FIT = Where("train.py", 5)
HOOK = Removal("hooks", "Slow.on_train_batch_end off", FIT, "epochs", {"hooks": [["Slow", "on_train_batch_end"]]})
FREE = Removal("replay", "one batch replayed from memory", FIT, bound=True)


def finding(name="blocking-callback", removal=HOOK, where=FIT):
    rule = find(name)
    evidence = (Evidence("of the training", 0.5, "share"),)
    return Finding(
        *(rule.code, name, rule.family, "It is slow.", where, evidence, Speedup(1.5, 3.0), "Do it less often."),
        removal=removal,
    )


@pytest.fixture
def project(tmp_path, monkeypatch, recording, clock):
    """A script with a run: one fit of three steps of three seconds each."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    path = tmp_path / ".fitscope" / "train.run"
    path.parent.mkdir()
    file = sink(path, cwd=str(tmp_path), started=2e9)
    recording._sinks.append(file)
    file.start_from(recording)
    train(recording, clock, line=Place(str(tmp_path / "train.py"), 5))
    recording.flush()
    file.close()
    return Project(tmp_path / "train.py", store.read(path), tmp_path)


def report_of(project, *findings):
    return Report(project.run, account(project.run), findings)


@pytest.fixture
def proved(project, monkeypatch):
    """What is proved of findings, where experiments end as told; the budgets that they had."""

    def run(findings, *, shown=None, outcome=None, budget=120.0):
        seen = []

        def turns(folder, version, removal, pace, seconds, progress):
            seen.append((removal.kind, seconds))
            assert removal.where == FIT
            assert not version.files
            return shown

        def versions(folder, one, other, seconds, tell, trained):
            seen.append(("edit", seconds))
            assert b"run_eagerly" not in other.files["train.py"]
            if isinstance(outcome, str):
                raise FitscopeError(outcome)
            return outcome

        monkeypatch.setattr(module, "alternate", turns)
        monkeypatch.setattr(module, "compare_versions", versions)
        report = report_of(project, *findings)
        return list(prove(Bench(project, [], budget, lambda text: None), report, findings, budget)), seen

    return run


def test_a_cause_that_can_be_removed_by_turns_is(proved):
    (proof,), seen = proved([finding()], shown=Shown(Speedup(2.0, 2.2), 12))
    assert proof.confirmed
    # Nothing of these nine seconds is compiling.
    assert (proof.verified.low, proof.verified.high) == (pytest.approx(2.0), pytest.approx(2.2))
    assert proof.says == "Slow.on_train_batch_end off, in 12 pairs of stretches with and without"
    assert [kind for kind, _ in seen] == ["hooks"]


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (Speedup(1.8, 2.0), "1.8 to 2.0 times faster"),
        (Speedup(0.9, 1.1), "not confirmed: 0.90 to 1.10 times as fast"),
    ],
)
def test_a_hook_that_costs_something_is_also_seen_with_the_remedy_in_place(project, monkeypatch, gain, said):
    seen = []

    def turns(folder, version, removal, pace, seconds, progress):
        seen.append((removal.kind, removal.arguments))
        return Shown(Speedup(2.0, 2.2) if removal.kind == "hooks" else gain, 12)

    (project.main.parent / "train.py").write_text(WITH_HOOK)
    monkeypatch.setattr(module, "alternate", turns)
    found = finding(where=Where("train.py", 5), removal=replace(HOOK, where=FIT))
    (proof,) = prove(Bench(project, [], 120.0, lambda text: None), report_of(project, found), [found], 120.0)
    assert proof.verified is not None
    assert (proof.verified.low, proof.verified.high) == (pytest.approx(2.0), pytest.approx(2.2))
    assert proof.says.endswith(f"; with fitscope.Background(Slow(…)) in place: {said}")
    around = {"callback": "Slow", "remedy": "Background", "options": {}}
    assert seen == [("hooks", HOOK.arguments), ("wrapped", around)]


def test_without_a_removal_the_edited_script_is_the_experiment(proved):
    edited = finding("eager-execution", None, Where("train.py", 4))
    (proof,), seen = proved([edited], outcome=Outcome(Speedup(1.5, 2.0), "equal", 4))
    assert proof.verified == Speedup(1.5, 2.0)
    assert "in 4 pairs of runs with the edit and without" in proof.says
    assert [kind for kind, _ in seen] == ["edit"]


def test_an_input_is_replayed_where_no_edit_is_at_hand_or_there_is_no_time(proved):
    free = finding("eager-execution", FREE, Where("train.py", 4))
    _, seen = proved([free], outcome=Outcome(Speedup(1.5, 2.0), "equal", 4))
    assert [kind for kind, _ in seen] == ["edit"]
    (proof,), seen = proved([free], shown=Shown(Speedup(3.0, 4.0), 8), budget=10.0)
    assert [kind for kind, _ in seen] == ["replay"]
    assert "no input can be faster than that" in proof.says
    _, seen = proved([finding("input-bound", FREE)], shown=Shown(Speedup(3.0, 4.0), 8))
    assert [kind for kind, _ in seen] == ["replay"]


def test_what_no_experiment_can_show_is_said(proved):
    (proof,), seen = proved([finding("memory-pressure", None)])
    assert (proof.verified, seen) == (None, [])
    assert proof.says == "no experiment can take this cause away by itself"


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        (Shown(None, 2, "other programs were busy in 5 of 7 pairs of stretches"), "no verdict: other programs were"),
        (Shown(Speedup(0.97, 1.04), 20), "Slow.on_train_batch_end off"),
    ],
)
def test_what_is_not_shown_is_not_confirmed(proved, shown, says):
    (proof,), _ = proved([finding()], shown=shown)
    assert not proof.confirmed
    assert proof.says.startswith(says)


def test_a_script_that_fails_in_its_experiment_costs_only_that(proved):
    edited = finding("eager-execution", None, Where("train.py", 4))
    shown = Shown(Speedup(2.0, 2.2), 12)
    proofs, seen = proved([edited, finding()], shown=shown, outcome="the edited script ended with exit code 1.")
    assert [proof.confirmed for proof in proofs] == [True, False]
    assert proofs[1].says == "no verdict: the edited script ended with exit code 1"
    assert [kind for kind, _ in seen] == ["hooks", "edit"]  # what takes one process comes first


def test_each_experiment_has_its_part_of_what_is_left(proved):
    _, seen = proved([finding()] * 3, shown=Shown(Speedup(2.0, 2.2), 12), budget=90.0)
    assert [round(seconds / 5) * 5 for _, seconds in seen] == [30, 45, 90]


def test_a_budget_that_is_too_small_for_runs_is_told(proved):
    edited = finding("eager-execution", None, Where("train.py", 4))
    (proof,), seen = proved([edited], budget=10.0)
    assert seen == []
    assert "try a larger --budget" in proof.says


def test_what_was_shown_is_kept_with_the_run(project):
    before = (project.here / ".fitscope" / "train.run").read_bytes()
    made = diagnose(project.run, account(project.run))
    one = finding()
    module.save(made, Proof(one, Speedup(2.0, 2.2), "first"))
    module.save(made, Proof(one, Speedup(2.4, 2.5), "Slow off"))
    module.save(made, Proof(replace(one, where=Where("train.py", 6)), None, "no verdict: busy"))
    after = (project.here / ".fitscope" / "train.run").read_bytes()
    assert after.startswith(before)
    assert [json.loads(line)["fact"] for line in after[len(before) :].splitlines()] == ["proof"] * 3
    from fitscope.diagnose import _with_proof

    run = store.read(project.here / ".fitscope" / "train.run")
    assert run.nodes == project.run.nodes
    shown = _with_proof(run, one)
    assert (shown.verified, shown.proof) == (Speedup(2.4, 2.5), "Slow off")
    assert _with_proof(run, replace(one, where=Where("train.py", 6))).proof == "no verdict: busy"
    assert _with_proof(run, replace(one, name="progress-bar")).verified is None


def test_causes_are_chosen_by_name(project):
    report = report_of(project, finding(), finding("input-bound", FREE))
    assert [each.name for each in choose(report, [])] == ["blocking-callback", "input-bound"]
    assert [each.name for each in choose(report, ["input-bound"])] == ["input-bound"]
    with pytest.raises(FitscopeError, match="not among the findings of this run: found were blocking-callback"):
        choose(report, ["progress-bar"])


# --- speedup ---------------------------------------------------------------------------------------------------

TWO = SCRIPT + "for row in rows:\n    answers.append(model.predict(row[None]))\n"


@pytest.fixture
def sped_up(project, monkeypatch):
    """A script with two causes that the source shows, where proofs and verifications end as told."""

    def run(proofs, outcome, removal=None):
        (project.here / "train.py").write_text(TWO)
        alone = Project(project.main, None, project.here)
        found = tuple(replace(each, removal=removal) for each in findings_of(alone))
        report = report_of(project, *found)

        def proved(bench, report, findings, budget, progress):
            return [Proof(each, proofs.get(each.name), "") for each in findings]

        def judged(bench, edits, budget):
            seen.append([edit.finding.name for edit in edits])
            return speedup_module.Verified(tuple(edits), (), outcome)

        seen = []
        monkeypatch.setattr(speedup_module, "prove", proved)
        monkeypatch.setattr(speedup_module, "verify", judged)
        return speedup(Bench(alone, [], 600.0, lambda text: None), report, 600.0), seen

    return run


def test_what_is_verified_ends_in_one_diff_and_one_sentence(sped_up):
    result, seen = sped_up({}, Outcome(Speedup(2.71, 2.93), "equal", 4))
    assert result.sentence == "2.7 to 2.9 times faster, same losses"
    assert result.applied.diff().count(b"+++ ") == 1
    assert seen == [["eager-execution", "predict-in-loop"]]


def test_a_cause_that_was_refuted_is_not_edited(sped_up):
    result, seen = sped_up({"eager-execution": Speedup(0.98, 1.01)}, Outcome(Speedup(2.71, 2.93), "equal", 4), HOOK)
    assert seen == [["predict-in-loop"]]
    assert [edit.finding.name for edit in result.applied.edits] == ["predict-in-loop"]


@pytest.mark.parametrize(
    "outcome", [Outcome(Speedup(0.9, 1.1), "equal", 8), Outcome(None, "unknown", 1, "busy"), None]
)
def test_without_a_gain_the_script_stays_as_it_is(sped_up, outcome):
    result, _ = sped_up({}, outcome)
    assert result.sentence == "nothing verified: the script stays as it is"
    assert result.applied.diff() == b""


# --- the remedy in place, and the slow stage -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gain", "kinds", "said"),
    [
        (Speedup(2.0, 2.2), ["tune"], "fitscope.tune(dataset) in place, in 9 pairs"),
        (
            Speedup(0.9, 1.1),
            ["tune", "replay"],
            "no input can be faster than that; fitscope.tune did not show a gain",
        ),
    ],
)
def test_a_pipeline_is_tuned_before_it_is_replayed(project, monkeypatch, gain, kinds, said):
    seen = []

    def turns(folder, version, removal, pace, seconds, progress):
        seen.append(removal.kind)
        return Shown(gain if removal.kind == "tune" else Speedup(3.0, 3.1), 9)

    located = Located(0.02, (Cost("map", Where("train.py", 3), 0.019), Cost("batch", None, 0.001)))
    monkeypatch.setattr(module, "alternate", turns)
    monkeypatch.setattr(module, "_reads_tfdata", lambda region: True)
    monkeypatch.setattr(module, "locate", lambda *_: located)
    project.run = replace(project.run, backend="tensorflow")
    found = finding("input-bound", FREE)
    (proof,) = prove(Bench(project, [], 300.0, lambda text: None), report_of(project, found), [found], 300.0)
    assert seen == kinds
    assert said in proof.says
    assert proof.says.endswith("; the slow stage is map train.py:3, 19.0 ms of 20.0 ms per batch")
