"""What stretches by turns show: intervals that hold, and no verdict where there can be none."""

import json
import random
from dataclasses import replace

import pytest

from fitscope import alternate as module
from fitscope.alternate import (
    LEAST_PAIRS,
    Pace,
    Shown,
    Stretch,
    alternate,
    interval,
    judge,
    narrow,
    of_whole,
    plan_of,
    read,
)
from fitscope.experiment import Version, Workspace
from fitscope.model import Account, Part, Region, Removal, Speedup, StepSeconds, Waits, Where

PACE = Pace(step=0.01, epoch=1.0, steps=100, before=5.0)
HOOKS = Removal("hooks", "Slow.on_train_batch_end off", Where("train.py", 9), "steps", {"hooks": []})
REPLAY = Removal("replay", "one batch replayed from memory", Where("train.py", 9), bound=True)


def stretch(removed, seconds, *, steps=100, began=0.0):
    return Stretch(removed, seconds, 1, steps, seconds, 0.0, began, began + seconds)


def stretches_of(times):
    """With, without, without, with …, one second apart."""
    turns = (False, True, True, False)
    return [stretch(turns[at % 4], each, began=float(at)) for at, each in enumerate(times)]


def shown_after(draw, ratio, noise):
    """What an experiment says in the end that looks after every pair."""
    times = []
    while True:
        times += _next(draw, ratio, noise, len(times))
        found = judge(stretches_of(times), plan_of(HOOKS, PACE, 60.0), PACE, [], 0.0)
        if narrow(found.ratio, found.pairs) or found.pairs >= 30:
            return found


def _next(draw, ratio, noise, number):
    """The next pair, on a machine that gets slower by and by and is held up now and then."""
    turns = (False, True, True, False)
    for at in (number, number + 1):
        burst = 1.6 if draw.random() < 0.03 else 1.0
        yield (1.0 if turns[at % 4] else ratio) * burst * draw.lognormvariate(0, noise) * (1 + 0.002 * at)


@pytest.mark.parametrize("noise", [0.03, 0.15])
@pytest.mark.parametrize("ratio", [1.0, 1.5])
def test_the_interval_holds_the_truth_in_95_of_100_experiments(ratio, noise):
    draw = random.Random(3)
    found = [shown_after(draw, ratio, noise) for _ in range(200)]
    right = [each for each in found if each.ratio.low <= ratio <= each.ratio.high]
    assert len(right) >= 190


def test_a_hook_that_works_now_and_then_counts_as_much_as_it_costs():
    draw = random.Random(5)
    pairs = [(1.0 + 4.0 * (draw.random() < 0.25), 1.0) for _ in range(40)]
    found = interval(pairs)
    assert found.low <= 2.0 <= found.high
    assert found.low > 1.2


def test_pairs_in_which_other_programs_were_busy_do_not_count():
    times = [2.0, 1.0, 1.0, 2.0] * 4
    plan = plan_of(HOOKS, PACE, 60.0)
    quiet = [(float(at), 0.1) for at in range(20)]
    assert judge(stretches_of(times), plan, PACE, quiet, 0.0).pairs == 8
    busy = [(float(at), 1.2) for at in range(20)]
    shown = judge(stretches_of(times), plan, PACE, busy, 0.0)
    assert shown.ratio is None
    assert shown.doubt == "other programs were busy in 8 of 8 pairs of stretches"


def test_too_few_pairs_are_no_verdict():
    shown = judge(stretches_of([2.0, 1.0, 1.0]), plan_of(HOOKS, PACE, 60.0), PACE, [], 0.0)
    assert shown.ratio is None
    assert shown.doubt == f"1 pair of stretches fitted into the budget: {LEAST_PAIRS} are needed"


def test_epochs_that_were_cut_off_are_taken_as_long_as_whole_ones():
    long = Pace(step=0.01, epoch=100.0, steps=10_001, before=5.0)
    plan = plan_of(REPLAY, long, 60.0)
    assert plan["cut"]
    one = Stretch(False, 7.0, 1, 100, 2.0, 5.0, 0.0, 7.0)
    assert module._time(one, plan, long) == pytest.approx(2.0 / 100 * 10_000 + 5.0)
    assert module._time(one, {**plan, "cut": None}, long) == 7.0


def test_a_plan_fits_the_training():
    assert plan_of(HOOKS, PACE, 60.0)["by"] == "steps"
    short = plan_of(REPLAY, PACE, 60.0)
    assert (short["cut"], short["settles"], short["whole_first"]) == (None, True, True)
    hours = plan_of(REPLAY, Pace(step=0.5, epoch=3600.0, steps=7200, before=5.0), 60.0)
    assert hours["cut"] >= 3
    assert not hours["whole_first"]
    assert hours["seconds"] >= 1.0


def test_the_whole_training_gains_what_its_part_gains():
    region = Region(
        *("fit", Where("train.py", 9), 1, 10.0, 100, 1, StepSeconds(0.08, 0.08)),
        parts=(Part("compile", "tracing", None, 2.0, 0.2, 1), Part("step", "step", None, 8.0, 0.8, 100)),
        **dict.fromkeys(("stages", "compiles", "inside", "forced_sync", "threads", "workers", "notes"), ()),
        first_waits=Waits(),
        durations=(0.1,) * 100,
    )
    account = Account((region,), 0.0, 0.0, ())
    # 8 of 10 seconds become 4: 10 / 6, where the 2 seconds of compiling are taken as 1.8 to 2.2.
    found = of_whole(Shown(Speedup(2.0, 2.0), 9), REPLAY, region, account)
    assert (found.low, found.high) == (pytest.approx(10.2 / 6.2), pytest.approx(9.8 / 5.8))
    assert of_whole(Shown(Speedup(1.0, 1.0), 9), HOOKS, region, account) == Speedup(1.0, 1.0)
    ended = replace(region, epochs=0)
    assert of_whole(Shown(Speedup(2.0, 2.0), 9, present=8.0), REPLAY, ended, account).low > 1.6
    # Under way, a step takes 60 ms with the cause: two seconds more were those of the first ones.
    found = of_whole(Shown(Speedup(2.0, 2.0), 9, present=0.06), HOOKS, region, account)
    assert found.low < 10 / 7 < found.high


def test_a_file_is_read_up_to_its_last_whole_line(tmp_path):
    path = tmp_path / "stretches"
    assert read(path) == ([], "")
    line = {"stretch": 0, **vars(stretch(False, 1.0))}
    path.write_text(json.dumps(line) + "\n" + json.dumps(line)[:20])
    assert read(path) == ([stretch(False, 1.0)], "")
    path.write_text('{"impossible": "the training has no callback Slow"}\n')
    assert read(path) == ([], "the training has no callback Slow")


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """An experiment whose script wrote these lines and ended so."""

    def run(lines, failed=""):
        def turns(self, version, plan, deadline, look):
            path = tmp_path / "stretches"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))

            class Samples:
                foreign, started = (), 0.0

            look(path, Samples)
            return path, Samples, failed

        monkeypatch.setattr(Workspace, "alternate", turns)
        return alternate(tmp_path, Version("it", ("true",)), HOOKS, PACE, 30.0)

    return run


def lines_of(times):
    return [{"stretch": at, **vars(each)} for at, each in enumerate(stretches_of(times))]


def test_a_clear_experiment_has_a_ratio(experiment):
    shown = experiment(lines_of([2.0, 1.0, 1.01, 2.0] * 4))
    assert 1.9 < shown.ratio.low < 2.0 < shown.ratio.high < 2.1
    assert not shown.doubt


@pytest.mark.parametrize(
    ("lines", "failed", "doubt"),
    [
        ([{"impossible": "no callback Slow"}], "", "cannot be taken away here: no callback Slow"),
        ([], ": KeyError: 'val_loss'", "the script failed in the experiment: KeyError: 'val_loss'"),
        ([], "", "not well under way after 30.0 s"),
    ],
)
def test_why_there_is_no_verdict_is_told(experiment, lines, failed, doubt):
    shown = experiment(lines, failed)
    assert shown.ratio is None
    assert doubt in shown.doubt


def test_what_was_seen_before_a_script_failed_counts(experiment):
    shown = experiment(lines_of([2.0, 1.0, 1.0, 2.0] * 4), ": IndexError: list index out of range")
    assert shown.ratio is not None
