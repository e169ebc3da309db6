"""One layer that does most of the work: said only where the steps are long and it is certain."""

from dataclasses import replace

import pytest
from made import Tree
from shown_runs import layer_account

from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.model import Called, Where
from fitscope.rules.case import Case
from fitscope.rules.layers import DominantLayer

WIDE = {
    "name": "conv",
    "kind": "Conv2D",
    "flops": 90 * 10**7,
    "parameters": 4_000,
    "input": [13, 13, 1024],
    "width": 512,
}
SMALL = {"name": "dense", "kind": "Dense", "flops": 10**8, "parameters": 100, "input": [64], "width": 10}


def found(*, step=0.5, steps=40, data=1.0, costs=(WIDE, SMALL), complete=True, layers=None):
    tree = Tree()
    root = tree.region("fit", Where("train.py", 40))
    tree.add(root, "step", "step", step * steps, count=steps)
    tree.add(root, "data", "tf.data", data, count=steps)
    work = sum(each["flops"] for each in costs)
    settings = {"fact": "settings", "root": root, "costs": list(costs), "costs_complete": complete, "work": work}
    run = tree.run(called={root: Called(1, steps, 2, (step,) * steps)}, facts=(settings,), backend="jax")
    if layers is not None:
        return list(DominantLayer().diagnose(Case(run, account(run), layers=layers)))
    return [each for each in diagnose(run, account(run)).findings if each.name == "dominant-layer"]


def test_it_is_said_of_long_steps_in_which_one_layer_does_nearly_all():
    (finding,) = found()
    said = finding.says.replace("\N{MULTIPLICATION SIGN}", "x")
    assert said == "conv (Conv2D with 512 filters, on 13x13x1024) does most of the work of every step."
    assert 1 < finding.estimated.low < 2 < finding.estimated.high < 2.5
    assert "wide" not in finding.says + finding.remedy.replace("width", "")


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 0.05},
        {"data": 10.0},
        {"costs": ({**WIDE, "flops": 60 * 10**7}, {**SMALL, "flops": 40 * 10**7})},
        {"costs": ({**WIDE, "flops": 90 * 10**6}, {**SMALL, "flops": 10**7})},
        {"costs": ()},
        {"complete": False},
    ],
    ids=[
        "short steps",
        "a wait for data",
        "work that is shared",
        "little work",
        "nothing known",
        "a layer of unknown work",
    ],
)
def test_it_is_not_said_otherwise(changes):
    assert not found(**changes)


def test_what_was_measured_counts_for_more_than_what_was_computed():
    measured = layer_account("conv")
    (cause,) = found(layers=measured)
    assert any(each.value == 0.75 and "fitscope layers" in each.what for each in cause.evidence)
    cheap = tuple(replace(cost, share=0.3) for cost in measured.layers)
    assert not found(layers=replace(measured, layers=cheap))
