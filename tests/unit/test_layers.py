"""From what was measured of a step to what each layer costs."""

import json
import os
from dataclasses import replace
from io import StringIO
from statistics import median

import pytest
from click.testing import CliRunner
from made import Tree
from rich.console import Console
from shown_runs import layer_account

from fitscope import store
from fitscope.cli.layers_ import command
from fitscope.layers import Costs, Measured
from fitscope.model import FitscopeError
from fitscope.report.layers import layers_in_brief, layers_to_terminal
from fitscope.trace.scopes import Spent, Step


def row(number, name, kind="Dense", **more):
    usual = {"calls": 1, "parameters": 0, "trainable": 0, "activation_bytes": 0, "moved_bytes": 0, "group": False}
    work = {"forward_flops": 0, "backward_flops": 0, "outputs": [[32, 10]]}
    return {"number": number, "name": name, "kind": kind, **usual, **work, **more}


def fact(rows, by_clock=((0.010,),) * 3, **more):
    usual = {"steps_per_execution": 1, "optimizer": "Adam", "parameters": 1000, "updates_at_once": False}
    return {"rows": rows, "by_clock": [list(each) for each in by_clock], **usual, **more}


def step(seconds, **scopes):
    """Scopes by name: b0 is the way back of layer 0, f0 its way forward; milliseconds, operations."""
    found = {}
    for name, (milliseconds, events) in scopes.items():
        scope = (name[1:], name[0] == "b") if name[0] in "fb" else ("" if name == "nobody" else name, False)
        found[scope] = Spent(milliseconds / 1e3, 0.0, events)
    return Step(seconds, found)


def costs_of(rows, steps, peak=100e9, bandwidth=10e9, **more):
    costs = Costs(fact(rows, **more), [steps] * 3, peak, bandwidth)
    return costs, {cost.name: cost for cost in costs.layers()}


def test_the_parts_add_up_to_the_step_as_the_clock_has_it():
    steps = [step(0.012, f0=(4, 1), b0=(4, 1), loss=(1, 1), nobody=(3, 1))]
    costs, found = costs_of([row(0, "dense")], steps)
    assert costs.step.middle == 0.010
    assert sum(cost.seconds for cost in found.values()) == pytest.approx(0.010)
    assert found["dense"].forward_seconds == pytest.approx(found["dense"].backward_seconds)
    assert list(found)[-1] == "rest of the step"


def test_what_the_profiler_takes_for_each_operation_is_taken_off():
    """A million operations of a layer are not what makes it dear, but what makes it long to note."""
    steps = [step(0.012, f0=(5, 0), f1=(7, 400))]
    _, found = costs_of([row(0, "dense"), row(1, "lstm")], steps)
    assert found["dense"].seconds == pytest.approx(0.005, rel=0.01)
    assert found["lstm"].seconds == pytest.approx(0.005, rel=0.01)


def test_an_update_of_all_weights_at_once_is_divided_by_their_number():
    rows = [row(0, "small", parameters=100, trainable=100), row(1, "large", parameters=900, trainable=900)]
    costs, found = costs_of(rows, [step(0.010, f0=(4, 0), f1=(4, 0), optimizer=(2, 0))], updates_at_once=True)
    assert found["small"].update_seconds == pytest.approx(0.0002)
    assert found["large"].update_seconds == pytest.approx(0.0018)
    assert "Adam" not in found
    assert any("at once" in note for note in costs.notes)


def test_an_update_in_a_layer_s_own_scope_is_that_layer_s():
    _, found = costs_of([row(0, "dense")], [step(0.010, f0=(6, 0), u0=(3, 0), optimizer=(1, 0))])
    assert found["dense"].update_seconds == pytest.approx(0.003)
    assert found["Adam"].seconds == pytest.approx(0.001)


def test_the_rate_is_of_forward_and_backward_and_beside_the_machine_s():
    flops = {"forward_flops": 100_000_000, "backward_flops": 200_000_000}
    _, found = costs_of([row(0, "dense", **flops)], [step(0.010, f0=(2, 0), b0=(4, 0), u0=(4, 0))])
    assert found["dense"].flops_per_second == pytest.approx(50e9)
    assert found["dense"].peak_share == pytest.approx(0.5)
    assert found["dense"].bound == "compute"


def test_what_bounds_a_layer():
    moves = row(0, "norm", moved_bytes=10**9)
    waits = step(0.010, f0=(5, 0), f1=(5, 0))
    waits.scopes["1", False].waiting = 0.004
    _, found = costs_of([moves, row(1, "cell", forward_flops=10**9)], [waits])
    assert found["norm"].bound == "memory"
    assert found["cell"].bound == "dispatch"


def test_a_layer_whose_work_is_unknown_has_no_rate():
    _, found = costs_of([row(0, "mine", forward_flops=None, backward_flops=None)], [step(0.010, f0=(10, 0))])
    assert found["mine"].flops is None
    assert found["mine"].flops_per_second is None


def test_several_steps_in_one_execution_are_divided():
    steps = [step(0.020, f0=(16, 0), nobody=(4, 0))]
    costs, found = costs_of([row(0, "dense")], steps, by_clock=((0.020,),) * 3, steps_per_execution=2)
    assert costs.step.middle == 0.010
    assert found["dense"].seconds == pytest.approx(0.008)


def test_a_step_that_was_held_up_does_not_count():
    steps = [step(0.010, f0=(8, 0), nobody=(2, 0))] * 3 + [step(0.1, f0=(8, 0), nobody=(92, 0))]
    _, found = costs_of([row(0, "dense")], steps)
    assert found["dense"].share == pytest.approx(0.8)


def test_a_round_of_which_every_step_was_held_up_does_not_count():
    fast = [step(0.010, f0=(8, 0), nobody=(2, 0))] * 3
    slow = [step(0.1, f0=(8, 0), nobody=(92, 0))] * 8
    costs = Costs(fact([row(0, "dense")]), [slow, fast, slow], None, None)
    assert costs.usual == [fast]
    assert next(cost.share for cost in costs.layers() if cost.name == "dense") == pytest.approx(0.8)


def test_a_profile_without_steps_is_said_to_be_one():
    with pytest.raises(FitscopeError, match="no steps"):
        costs_of([row(0, "dense")], [])


def test_rounds_that_differ_give_a_wide_interval():
    assert Measured.of([[1.0], [1.0], [1.0]], median) == Measured(1.0, 0.0)
    assert Measured.of([[0.9], [1.0, 1.0, 7.0], [1.1]], median).plus_minus > 0.2
    assert Measured.of([[0.9, 1.0, 1.1]], median).plus_minus > 0.2
    assert Measured.of([[1.0]], median) == Measured(1.0, None)


def test_one_step_is_enough_for_an_account_without_intervals():
    costs = Costs(fact([row(0, "dense")], by_clock=((3.0,),)), [[step(3.0, f0=(3000, 1))]], None, None)
    (cost,) = [cost for cost in costs.layers() if cost.part == "layer"]
    assert (cost.seconds, cost.plus_minus) == (pytest.approx(3.0), None)


def test_the_table_fits_into_80_columns():
    account = layer_account("a/very/long/name/of/a/layer/in/a/block/of/a/network/that/goes/on")
    for show in (layers_to_terminal, layers_in_brief):
        out = StringIO()
        show(account, Console(file=out, width=80))
        lines = out.getvalue().splitlines()
        assert max(map(len, lines)) <= 80
        assert any("75 %" in line and "37.5 ms" in line for line in lines)
        assert any("100 %" in line for line in lines)


# --- kept, and found again ------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A script, its layers as they were kept, and a run of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    os.utime("train.py", (1, 1))
    account = replace(layer_account(), cwd=str(tmp_path), argv=("--wide",))
    path = store.keep_layers(account)
    run = Tree().run(
        script="train.py",
        argv=("--wide",),
        cwd=str(tmp_path),
        started=5.0,
        backend="tensorflow",
        path=str(tmp_path / ".fitscope" / "train.run"),
    )
    return account, path, run


def test_what_is_kept_is_found_for_a_run_of_the_same_script(kept):
    account, path, run = kept
    assert path.suffix == ".layers"
    assert store.layers_of(run) == account


def test_a_run_with_other_arguments_another_backend_or_another_script_has_none(kept):
    _, _, run = kept
    assert store.layers_of(replace(run, argv=())) is None
    assert store.layers_of(replace(run, backend="jax")) is None
    assert store.layers_of(replace(run, script="other.py")) is None


def test_a_script_that_was_changed_since_has_none(kept):
    _, _, run = kept
    os.utime("train.py", (3, 3))
    assert store.layers_of(run) is None


def test_a_damaged_file_is_none(kept):
    _, path, run = kept
    path.write_text(path.read_text()[:100])
    assert store.layers_of(run) is None
    path.write_text(json.dumps({"fitscope_layers": 999}))
    assert store.layers_of(run) is None


def test_only_the_newest_are_kept(kept):
    account, _, _ = kept
    for _ in range(8):
        store.keep_layers(account)
    assert len(list(store.Path(".fitscope").glob("*.layers"))) == store.MOST_KEPT


@pytest.mark.parametrize(
    ("words", "says"),
    [(["missing.py"], "no file missing.py"), (["--strange"], "no option"), (["."], "folder")],
)
def test_a_wrong_command_line_is_one_sentence(words, says):
    result = CliRunner().invoke(command, words)
    assert isinstance(result.exception, FitscopeError)
    assert says in str(result.exception)
