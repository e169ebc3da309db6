import json

import pytest
from made import Tree

from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.model import SCHEMA, Called, Compile, MachineSample, Sampled, Stage, Where
from fitscope.report.to_json import to_json

HERE = Where("train.py", 40)


def parsed(run):
    """The report as a strict reader of JSON takes it."""

    def refuse(constant):
        raise ValueError(f"{constant} is no JSON")

    return json.loads(to_json(diagnose(run, account(run))), parse_constant=refuse)


@pytest.fixture
def training():
    tree = Tree()
    fit = tree.region(where=HERE)
    step = tree.add(fit, "step", "step", 6, 3)
    callback = tree.add(fit, "callback", "Draws.on_epoch_end", 1, where=Where("draws.py", 5))
    tree.add(tree.add(callback, "call", "predict", 0, 0, Where("draws.py", 7)), "step", "step", 1)
    return tree.run(
        argv=("--epochs", "1"),
        called={fit: Called(1, 3, 2, (1.0, 2.0, 3.0))},
        stages={fit: (Stage("map", Where("load.py", 3), 2.0, 4, 8.0, None),)},
        compiles={fit: (Compile("step", "first", "", 1, 0.5),)},
        sampled=(Sampled(step, Where("loss.py", 2), "loss", 4), Sampled(-fit, Where("load.py", 9), "load", 1)),
        facts=(
            {"fact": "forced-sync", "root": fit, "callback": "Draws"},
            {"fact": "workers", "root": fit, "source": "PyDataset", "workers": 4, "processes": False},
            {"fact": "seam", "seconds": 0.25},
        ),
        samples=(MachineSample(1.0, (0.5, 0.5), 1.0, 1000, 0.0, 0, 0, ((0.5, 10),)),),
    )


def test_the_report_says_which_run_it_is_of(training):
    report = parsed(training)
    assert {key: report[key] for key in ("schema", "fitscope", "script", "argv", "backend", "versions")} == {
        "schema": SCHEMA,
        "fitscope": "0.0",
        "script": "train.py",
        "argv": ["--epochs", "1"],
        "backend": "jax",
        "versions": {"keras": "3.15.1"},
    }
    assert (report["ended"], report["exit_code"], report["wall_seconds"]) == ("completed", 0, 8)
    assert report["overhead"] == {"seconds": 5 * 0.25, "share": 5 * 0.25 / 8}
    assert report["machine"]["cores"] == 2
    assert report["machine"]["use"]["gpu_utilization"] == [0.5]


def test_the_parts_of_a_region_are_all_there_and_add_up(training):
    (region,) = parsed(training)["regions"]
    assert region["parts"] == [
        {
            "phase": "step",
            "name": "step",
            "where": None,
            "seconds": 6,
            "share": 0.75,
            "count": 3,
            "lines": [
                {"where": {"file": "loss.py", "line": 2}, "function": "loss", "samples": 4, "share": 1, "doing": ""}
            ],
        },
        {
            "phase": "callback",
            "name": "Draws.on_epoch_end",
            "where": {"file": "draws.py", "line": 5},
            "seconds": 2,
            "share": 0.25,
            "count": 1,
            "inner": [
                {
                    "phase": "call",
                    "name": "predict",
                    "where": {"file": "draws.py", "line": 7},
                    "seconds": 1,
                    "share": 0.125,
                    "count": 1,
                }
            ],
        },
    ]
    assert sum(part["seconds"] for part in region["parts"]) == region["wall_seconds"]


def test_a_region_says_what_is_known_of_it(training):
    (region,) = parsed(training)["regions"]
    assert (region["call"], region["where"], region["calls"]) == ("fit", {"file": "train.py", "line": 40}, 1)
    assert (region["steps"], region["epochs"], region["step_seconds"]) == (3, 2, {"median": 2, "p95": 3})
    (stage,) = region["stages"]
    assert (stage["name"], stage["where"], stage["seconds_per_batch"]) == ("map", {"file": "load.py", "line": 3}, 2)
    (compiled,) = region["compiles"]
    assert (compiled["function"], compiled["cause"], compiled["count"], compiled["seconds"]) == (
        "step",
        "first",
        1,
        0.5,
    )
    assert (region["forced_sync"], region["workers"]) == (["Draws"], ["PyDataset: 4 worker threads"])
    assert region["threads"][0]["function"] == "load"


def test_a_run_without_training_is_a_report_too():
    report = parsed(Tree().run(backend=None, versions={}, exit_code=None))
    assert (report["regions"], report["backend"], report["exit_code"]) == ([], None, None)
    assert report["overhead"] == {"seconds": 0, "share": 0}


def test_a_region_without_steps_has_no_step_time():
    tree = Tree()
    tree.add(tree.region(), "setup", "preparing", 1)
    (region,) = parsed(tree.run())["regions"]
    assert (region["where"], region["step_seconds"]) == (None, {"median": None, "p95": None})


@pytest.mark.parametrize("name", ["modèle.py", "</script>.py", 'quo"te.py', "not-unicode-\udcff.py"])
def test_any_file_name_can_be_written_and_read_again(name):
    tree = Tree()
    tree.add(tree.region(where=Where(name, 1)), "step", "step", 1)
    text = to_json(diagnose(run := tree.run(script=name), account(run)))
    report = json.loads(text.encode().decode())
    assert (report["script"], report["regions"][0]["where"]["file"]) == (name, name)
