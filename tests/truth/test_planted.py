"""Planted causes land in their own part: within 5 % of what was planted and exposed, or 2 points of the wall time.

Two trainings differ by more than that now and then with nothing changed between them, so a case that comes out
wrong is measured again, alone. Wrong books are wrong every time; a busy machine is not.
"""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BACKENDS = ("tensorflow", "jax", "torch")
HOLD_THE_INTERPRETER = {"pydataset_spins", "py_function_spins"}
"""Python code that computes in a thread of the pipeline: the step waits for the interpreter, and how long is
known from below only."""
HERE = Path(__file__).parent


def case_names():
    lines = (HERE / "planted.py").read_text().splitlines()
    return [line[4:-3] for before, line in itertools.pairwise(lines) if before == "@case"]


def measured(backend, folder, *names):
    """What was planted and what fitscope saw in the cases of these names, or in all of them."""
    environment = {**os.environ, "KERAS_BACKEND": backend}
    command = [sys.executable, str(HERE / "planted.py"), "truth.json", *names]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "truth.json").read_text())


@pytest.fixture(scope="session")
def truths(tmp_path_factory):
    """Each backend's cases, all measured once in one program."""
    known = {}

    def truth(backend):
        if backend not in known:
            known[backend] = measured(backend, tmp_path_factory.mktemp(backend))
        return known[backend]

    return truth


def main_region(account):
    return max(account["regions"], key=lambda region: region["wall_seconds"])


def seconds(region, phase, name=None):
    parts = region["parts"]
    return sum(p["seconds"] for p in parts if p["phase"] == phase and name in (None, p["name"]))


def close_enough(seen, planted, wall):
    return abs(seen - planted) <= max(0.05 * planted, 0.02 * wall)


@pytest.mark.parametrize("name", case_names())
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_planted_cause_lands_in_its_own_part(truths, tmp_path, backend, name):
    case = truths(backend)[name]
    if "skip" in case:
        pytest.skip(case["skip"])
    until_true(lambda case: check(case, backend, name), case, lambda: measured(backend, tmp_path, name)[name])


def until_true(check, found, again):
    """Checks what was found, and what is found again where that came out wrong, three times in all."""
    for _ in range(2):
        try:
            return check(found)
        except AssertionError as wrong:
            print("measured again:", wrong)
            found = again()
    return check(found)


def check(case, backend, name):
    accounts = [case["account"]] if "account" in case else case.get("input", case.get("validation"))
    for account in accounts:
        assert account["notes"] == []
        for region in account["regions"]:
            total = sum(part["seconds"] for part in region["parts"])
            assert total == pytest.approx(region["wall_seconds"], rel=1e-3)
            assert min(part["seconds"] for part in region["parts"]) > -1e-4
            if region["epochs"]:
                epochs = region["course"]["epochs"]
                assert (epochs[0]["first"], epochs[-1]["last"]) == (1, region["epochs"])
                assert sum(epoch["steps"] for epoch in epochs) == region["steps"]
                assert sum(epoch["wall_seconds"] for epoch in epochs) <= 1.001 * region["wall_seconds"]
    if "part" in case:
        region = main_region(case["account"])
        assert region["call"] == case.get("call", region["call"])
        seen = seconds(region, *case["part"])
        if case.get("at_least"):
            assert seen >= 0.99 * case["planted"]
            seen = min(seen, case["planted"])
        assert close_enough(seen, case["planted"], region["wall_seconds"]), (seen, case["planted"])
        assert region["steps"] == case.get("steps", region["steps"])
        if "inner" in case:
            part = next(p for p in region["parts"] if [p["phase"], p["name"]] == case["part"])
            inner = {each["name"]: each["seconds"] for each in part["inner"]}
            assert set(inner) <= {case["inner"], f"compiling for {case['inner']}"}, inner
            assert sum(inner.values()) >= 0.9 * case["planted"]
    for phase, most in case.get("at_most", {}).items():
        region = main_region(case["account"])
        assert seconds(region, phase) <= most * region["wall_seconds"], phase
    for phase, pair in (("data", case.get("input")), ("validation", case.get("validation"))):
        if pair:
            fast, slow, paused = (main_region(account) for account in pair)
            # The end of a tf.data iterator may block for as long again: it is no wait for a batch.
            grown = sum((s["wall_seconds"] - seconds(s, "epoch")) * sign for s, sign in ((slow, 1), (fast, -1)))
            cold = max(0.0, seconds(paused, "step") - seconds(fast, "step"))
            seen = seconds(slow, phase) - seconds(fast, phase)
            room = max(0.05 * grown, 0.02 * slow["wall_seconds"])
            least = 0.75 * grown if name in HOLD_THE_INTERPRETER else grown - cold
            assert least - room <= seen <= grown + room, (seen, grown, cold, room)
    if "function" in case:
        slow = main_region(case["input"][1])
        stage = next(stage for stage in slow["stages"] if case["function"] in stage["name"])
        assert stage["seconds_per_batch"] >= case["each"]
    if "compiles" in case and backend != "torch":
        region = main_region(case["account"])
        assert [c for c in region["compiles"] if c["cause"] == case["compiles"]]
        assert seconds(region, "compile") > 0
    if "evenly" in case:
        region = main_region(case["account"])
        steps = region["step_seconds"]["median"] * region["steps"]
        assert steps == pytest.approx(seconds(region, "step"), rel=0.35)
    if "calls" in case:
        region = main_region(case["account"])
        assert (region["call"], region["calls"], region["steps"]) == ("predict", case["calls"], case["calls"])
    for account in accounts:
        region = main_region(account)
        assert seconds(region, "unexplained") <= 0.02 * region["wall_seconds"] + 0.01


def test_input_and_callbacks_are_told_apart_under_a_strategy(tmp_path):
    def found():
        command = [sys.executable, str(HERE / "mirrored.py"), "truth.json"]
        environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads((tmp_path / "truth.json").read_text())

    def check(found):
        fast, slow, paused = found["fast"], found["slow"], found["paused"]
        wall = slow["wall_seconds"]
        assert close_enough(seconds(slow, "callback", "Pauses.on_train_batch_end"), found["callback"], wall)
        grown = sum((r["wall_seconds"] - seconds(r, "epoch")) * sign for r, sign in ((slow, 1), (fast, -1)))
        # A step after a pause is slower, whatever it was that paused.
        cold = max(0.0, seconds(paused, "step") - seconds(fast, "step"))
        room = max(0.05 * grown, 0.02 * wall)
        seen = seconds(slow, "data") - seconds(fast, "data")
        assert grown - cold - room <= seen <= grown + room, (seen, grown, cold, room)

    until_true(check, found(), found)
