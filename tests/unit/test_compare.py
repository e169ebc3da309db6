import json
import math
import random
import sys
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist, fmean

import pytest
from made import Tree

from fitscope import baseline, cli
from fitscope.account import account
from fitscope.baseline import Block, Digest, Trained, steady
from fitscope.compare import FASTER, SAME, SLOWER, UNKNOWN, compare, compare_runs, gate, student
from fitscope.model import Called, Calmest, FitscopeError, Report, Where
from fitscope.report import comparison as forms
from fitscope.report.comparison_page import to_html
from fitscope.report.to_json import to_json

HERE = Where("train.py", 40)
MACHINE = {"cpu": "a processor", "cores": 2, "gpus": []}


def trained(per_step=0.01, steps=1000, where=HERE, call="fit", **parts):
    """A training whose steps take so long; further parts are seconds in all."""
    found = {("step", "step"): per_step * steps, **{tuple(key.split("__")): value for key, value in parts.items()}}
    return Trained(call, where, steps, 1, found, dict.fromkeys(found), ())


def run(*regions, **changes):
    values = {
        "name": "a.run",
        "script": "train.py",
        "argv": (),
        "backend": "jax",
        "versions": {"keras": "3.15.1"},
        "machine": MACHINE,
        "started": 0.0,
        "git": None,
        "wall_seconds": 20.0,
        "foreign_cores": 0.0,
        "regions": regions or (trained(),),
    }
    return Digest(**{**values, **changes})


def runs(*per_step):
    return [run(trained(each)) for each in per_step]


# --- the noise ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 31.821), (2, 6.965), (3, 4.541), (4, 3.747), (7, 2.998), (10, 2.764), (100, 2.364)]
)
def test_students_quantiles_are_those_of_the_tables(freedom, quantile):
    assert student(0.98, freedom) == pytest.approx(quantile, abs=5e-4)


def test_runs_that_differ_only_by_noise_are_told_to_differ_once_in_fifty_at_most():
    noise = random.Random(7)

    def side():
        return runs(*(0.01 * math.exp(noise.gauss(0, 0.03)) for _ in range(4)))

    alarms = sum(compare_runs(side(), side()).verdict != SAME for _ in range(1000))
    assert alarms <= 20


def test_a_slowdown_of_a_tenth_is_seen_with_six_runs_of_usual_noise():
    noise = random.Random(7)

    def side(per_step):
        return runs(*(per_step * math.exp(noise.gauss(0, 0.03)) for _ in range(6)))

    seen = sum(compare_runs(side(0.01), side(0.011)).verdict == SLOWER for _ in range(300))
    assert seen >= 285


def test_runs_that_lie_further_apart_than_usual_widen_the_interval():
    calm, wild = compare_runs(runs(1, 1, 1), runs(1, 1, 1)), compare_runs(runs(1, 1.3, 0.7), runs(1, 1.3, 0.7))
    assert math.log(wild.high / wild.low) > 3 * math.log(calm.high / calm.low)
    assert wild.spread > calm.spread


def test_with_one_run_of_each_the_spread_is_assumed_and_more_runs_are_asked_for():
    found = compare_runs(runs(0.01), runs(0.0105))
    assert (found.verdict, found.spread_seen) == (SAME, False)
    assert found.times == pytest.approx(1.05)
    assert found.repeat is not None
    assert "One run of each" in forms.to_markdown(found)


def test_a_training_twice_as_slow_is_slower_even_with_one_run_of_each():
    found = compare_runs(runs(0.01), runs(0.02))
    assert found.verdict == SLOWER
    assert found.repeat is None
    assert gate(found, 0.05) == SLOWER
    assert compare_runs(runs(0.02), runs(0.01)).verdict == FASTER


# --- within a run ------------------------------------------------------------------------------------------


def cut(*per_step, rest=(), foreign=()):
    """A training with epochs of 100 steps each, and a checkpoint in some of them."""
    rest, foreign = rest or [0.0] * len(per_step), foreign or [0.0] * len(per_step)
    pieces = [
        (Block(100 * value, 100, busy, 100 * more), {"step": 100 * value, "checkpoint": 100 * more})
        for value, more, busy in zip(per_step, rest, foreign, strict=True)
    ]
    return replace(trained(fmean(per_step)), blocks=tuple(block for block, _ in pieces), steady=steady(pieces))


def test_an_epoch_that_something_unseen_disturbed_does_not_count():
    assert cut(*[0.01] * 9, 0.5).per_step == pytest.approx(0.01)


def test_a_checkpoint_in_every_fifth_epoch_counts():
    with_checkpoints = cut(*[0.01] * 10, rest=[0.0, 0.0, 0.0, 0.0, 0.05] * 2)
    assert with_checkpoints.per_step == pytest.approx(0.02)


def test_epochs_in_which_other_programs_were_busy_do_not_count():
    disturbed = cut(*[0.01] * 5, *[0.02] * 5, foreign=[0.0] * 5 + [1.0] * 5)
    assert disturbed.per_step == pytest.approx(0.01)
    assert not disturbed.disturbed


def test_a_run_that_was_disturbed_for_most_of_the_time_is_no_measure():
    disturbed = cut(*[0.02] * 12, foreign=[0.0] * 2 + [1.0] * 10)
    found = compare_runs([run()], [run(disturbed, foreign_cores=0.9)])
    assert found.verdict == UNKNOWN
    assert forms.verdict(found) == (
        "Cannot say: other programs used 0.9 processors during B: record it again on a machine at rest."
    )


def test_a_run_of_few_epochs_is_short_and_not_disturbed():
    found = compare_runs([run(cut(*[0.01] * 3))], [run(cut(*[0.03] * 3))])
    assert (found.verdict, found.doubts) == (SLOWER, ())
    assert cut(*[0.01] * 3, foreign=[0.0, 1.0, 1.0]).disturbed
    short, long = (compare_runs([run(cut(*[each] * 3))] * 1, [run(cut(*[each] * 3))]) for each in (0.001, 0.1))
    assert short.high > 1.5 > 1.3 > long.high


def test_a_long_and_steady_run_says_more_than_a_short_or_wandering_one():
    def width(epochs, wanders):
        values = NormalDist(0.01, 0.01 * wanders).quantiles(epochs + 1)
        found = cut(*values)
        compared = compare_runs([run(found)], [run(found)])
        return compared.high / compared.low

    assert width(60, 0.03) < width(8, 0.03) < width(8, 0.1)


def neighbored(noise, per_step, epochs):
    """A run as they are: a neighbor comes and goes and makes steps longer, and no process is like another."""
    per_step *= math.exp(noise.gauss(0, 0.01))
    busy, values = False, []
    for _ in range(epochs):
        busy ^= noise.random() < 0.2
        values.append(per_step * (1 + noise.expovariate(20 if busy else 200)))
    return run(cut(*values))


def test_three_runs_of_thirty_epochs_each_tell_a_tenth_from_noise():
    noise = random.Random(11)

    def verdict(per_step):
        sides = ([neighbored(noise, each, 30) for _ in range(3)] for each in (0.01, per_step))
        return compare_runs(*sides).verdict

    assert sum(verdict(0.01) != SAME for _ in range(100)) <= 2
    assert sum(verdict(0.011) == SLOWER for _ in range(100)) >= 95


def test_runs_with_neighbors_that_slow_them_down_are_compared_by_their_calmest_epochs():
    busy = [0.0125 if n % 3 else 0.01 for n in range(30)]
    quiet, noisy = cut(*[0.01] * 30), cut(*busy)
    assert noisy.per_step == pytest.approx(quiet.per_step)
    assert noisy.unrest == pytest.approx(0.25)
    assert noisy.doubt > 5 * quiet.doubt
    found = compare_runs([run(quiet)], [run(noisy)])
    assert found.verdict == gate(found, 0.05) == UNKNOWN
    assert any("The steps of B are uneven: usually 25 % longer" in line for line in found.doubts)
    assert forms.verdict(found).startswith("Cannot say: at its calmest B takes 0.0 % ")
    assert not compare_runs([run(noisy)], [run(noisy)]).doubts


def test_uneven_steps_that_are_faster_even_as_they_usually_are_are_faster():
    quiet = cut(*[0.03] * 30)
    found = compare_runs([run(quiet)], [run(cut(*[0.0125 if n % 3 else 0.01 for n in range(30)]))])
    assert found.verdict == FASTER
    assert gate(found, 0.05) == SAME
    assert any("The steps of B are uneven" in line for line in found.doubts)


def test_what_is_slow_in_most_epochs_passes_no_gate_because_of_the_others():
    quiet, often = cut(*[0.01] * 64), cut(*([0.01] + [0.02] * 7) * 8)
    found = compare_runs([run(quiet)] * 5, [run(often)] * 5)
    assert found.verdict == gate(found, 0.05) == gate(found, 0.5) == UNKNOWN


def stretched(trained, calm, usual, **more):
    return replace(trained, calmest=Calmest(calm, usual, 200), steady={**trained.steady, **more})


def test_regular_steps_are_compared_by_the_calmest_stretches_of_a_few():
    a, b = stretched(cut(*[0.011] * 40), 0.01, 0.0105), stretched(cut(*[0.0118] * 40), 0.011, 0.0115)
    found = compare_runs([run(a)], [run(b)])
    assert found.times == pytest.approx(1.1)
    assert found.verdict == SLOWER
    assert compare_runs([run(a)], [run(a)]).times == pytest.approx(1)
    (part,) = found.regions[0].parts
    assert (part.change.before, part.change.after) == (pytest.approx(0.01), pytest.approx(0.011))


def test_a_longer_run_is_more_sure_of_its_calmest_stretches():
    long, short, uneven = (
        stretched(cut(*[0.011] * epochs), 0.01, usual).by_stretches()
        for epochs, usual in ((60, 0.0105), (15, 0.0105), (60, 0.0115))
    )
    assert long.doubt < short.doubt
    assert long.doubt < uneven.doubt


def test_batches_of_different_lengths_are_compared_by_epochs():
    assert not stretched(cut(*[0.02] * 40), 0.01, 0.02).is_regular


@pytest.mark.parametrize("phase", ["data", "callback"])
def test_steps_some_of_which_wait_are_compared_by_epochs(phase):
    waits = stretched(cut(*[0.011] * 40), 0.005, 0.0105, **{phase: 0.002})
    assert not waits.is_regular
    regular = stretched(cut(*[0.011] * 40), 0.01, 0.0105)
    assert compare_runs([run(regular)], [run(waits)]).times == pytest.approx(0.013 / 0.011)


def test_what_comes_with_some_epochs_adds_its_own_doubt():
    regular, irregular = ([value, 0.0] * 10 for value in (0.0, 0.05))
    assert cut(*[0.01] * 20, rest=irregular).doubt > 5 * cut(*[0.01] * 20, rest=regular).doubt


def test_blocks_are_cut_at_epochs_without_the_first_and_without_compiling():
    epochs = [
        {
            "ended": 10.0 + n,
            "wall_seconds": 1.0,
            "steps": 50,
            "phases": {"step": 0.5, "callback": 0.25, "compile": 0.25},
        }
        for n in range(6)
    ]
    samples = [{"seconds": 9.5 + n, "cores": [1.0, 0.5 if n < 4 else 1.0], "process_cpu": 1.5} for n in range(8)]
    found = list(baseline._pieces({"course": {"epochs": epochs}}, samples))
    assert len(found) == 5
    assert found[0] == (Block(0.5, 50, 0.0, 0.25), {"step": 0.5, "callback": 0.25})
    assert [round(block.foreign_cores, 2) for block, _ in found] == [0.0, 0.0, 0.25, 0.5, 0.5]


def test_a_training_of_one_epoch_is_cut_by_the_clock():
    intervals = [{"began": n, "ended": n + 1.0, "steps": 10 * n, "phases": {"step": 1.0}} for n in range(8)]
    found = list(baseline._pieces({"course": {"epochs": [], "intervals": intervals}}, []))
    assert [block.steps for block, _ in found] == [20, 30, 40, 50, 60, 70]


def test_a_step_of_seconds_is_one_block_and_a_validation_goes_with_the_next():
    phases = [{"validation": 1.0}, {"step": 1.0}, {"step": 1.0}] * 5
    intervals = [
        {"began": n, "ended": n + 1.0, "steps": int(n % 3 == 2), "phases": each} for n, each in enumerate(phases)
    ]
    found = list(baseline._pieces({"course": {"intervals": intervals}}, []))
    assert found == [(Block(2.0, 1, 0.0, 1.0), {"validation": 1.0, "step": 2.0})] * 4


# --- the gate ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "outcome"),
    [
        ([0.01] * 8, [0.01] * 8, SAME),
        ([0.01] * 8, [0.0115] * 8, SLOWER),
        ([0.01] * 8, [0.009] * 8, SAME),
        ([0.01] * 8, [0.0104] * 8, UNKNOWN),
        ([0.01], [0.01], UNKNOWN),
    ],
)
def test_the_gate_fails_on_what_is_beyond_doubt_and_passes_only_what_is(a, b, outcome):
    assert gate(compare_runs(runs(*a), runs(*b)), 0.05) == outcome


def test_a_gate_cannot_tell_across_machines_and_says_why():
    other = [replace(each, machine={**MACHINE, "cpu": "another"}) for each in runs(*[0.02] * 5)]
    found = compare_runs(runs(*[0.01] * 5), other)
    assert found.verdict == SLOWER
    assert gate(found, 0.05) == UNKNOWN
    assert "processor: a processor → another" in found.differences
    assert "different machines" in forms.gate_sentence(found, (UNKNOWN, 0.05))


# --- what is compared --------------------------------------------------------------------------------------


def test_compiling_is_listed_and_no_part_of_the_time_per_step():
    found = compare_runs([run(trained(compile__XLA=1.0))], [run(trained(compile__XLA=9.0, compile__tracing=1.0))])
    assert found.verdict == SAME
    assert found.times == pytest.approx(1.0)
    (part,) = [part for part in found.regions[0].parts if part.phase == "compile"]
    assert (part.per, part.change.before, part.change.after, part.change.verdict) == ("run", 1.0, 10.0, SLOWER)


def test_the_part_that_grew_is_named_and_stands_first():
    before, after = trained(data__arrays=1.0, validation__step=2.0), trained(data__arrays=6.0, validation__step=2.0)
    found = compare_runs([run(before)], [run(after)])
    parts = {(part.phase, part.name): part.change.verdict for part in found.regions[0].parts}
    assert found.verdict == SLOWER
    assert parts == {("data", "arrays"): SLOWER, ("step", "step"): SAME, ("validation", ""): SAME}
    assert next(iter(parts)) == ("data", "arrays")


def test_a_callback_that_is_new_counts_from_nothing():
    found = compare_runs([run()], [run(trained(callback__Slow=5.0))])
    (part,) = [part for part in found.regions[0].parts if part.phase == "callback"]
    assert (part.change.before, part.change.verdict) == (0.0, SLOWER)


def test_a_training_is_found_again_when_its_line_has_moved():
    evaluate = trained(call="evaluate", where=Where("train.py", 50))
    moved = trained(0.02, where=Where("train.py", 44))
    found = compare_runs([run(trained(), evaluate)], [run(moved, evaluate)])
    assert [(region.call, region.where.line) for region in found.regions] == [("fit", 44), ("evaluate", 50)]
    assert found.times == pytest.approx(1.5)


def test_other_numbers_of_steps_do_not_matter_for_the_time_per_step():
    found = compare_runs([run(trained(steps=1000))], [run(trained(steps=300))])
    assert found.times == pytest.approx(1.0)
    assert found.regions[0].steps == (1000, 300)


def test_what_is_on_one_side_only_is_said():
    found = compare_runs([run()], [run(trained(), trained(call="predict", where=Where("train.py", 60)))])
    assert found.doubts == ("Only in B: predict train.py:60.",)


@pytest.mark.parametrize(
    ("b", "sentence"),
    [
        (run(trained(steps=3)), "3 steps in 30.0 ms of training are too little to compare"),
        (run(foreign_cores=1.2), "other programs used 1.2 processors during B"),
        (run(trained(call="predict")), "there is no training that both sides have."),
    ],
)
def test_what_cannot_be_compared_is_not(b, sentence):
    found = compare_runs([run()], [b])
    assert (found.verdict, found.times) == (UNKNOWN, None)
    assert sentence in forms.to_markdown(found)
    assert gate(found, 0.05) == UNKNOWN


def test_a_disturbed_run_is_left_out_where_there_are_others():
    found = compare_runs(runs(0.01, 0.01), [*runs(0.01, 0.01), run(trained(0.03), foreign_cores=1.0)])
    assert found.times == pytest.approx(1.0)
    assert found.doubts == ("1 run of B left out: other programs used 1.0 processors.",)


def test_other_backends_versions_and_arguments_are_said_to_be_different():
    other = run(backend="torch", versions={"keras": "3.15.1", "torch": "2.13"}, argv=("--epochs", "3"))
    found = compare_runs([run()], [other])
    assert found.differences == ("arguments: none → --epochs 3", "backend: jax → torch", "torch: none → 2.13")


# --- baselines and the command -----------------------------------------------------------------------------


def report(seconds, steps=100):
    """A run whose steps take so many seconds in all, as a report."""
    tree = Tree()
    fit = tree.region(where=HERE)
    tree.add(fit, "step", "step", seconds, steps)
    tree.add(fit, "compile", "XLA", 3, 1)
    found = tree.run(called={fit: Called(1, steps, 1)}, machine=MACHINE)
    return Report(found, account(found))


@pytest.fixture
def answer(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    for name, seconds in (("old", 10), ("new", 20)):
        Path(f"{name}.json").write_text(to_json(report(seconds)))

    def answer(*words):
        monkeypatch.setattr(sys, "argv", ["fitscope", "compare", *map(str, words)])
        try:
            cli.main()
            code = 0
        except SystemExit as ended:
            code = ended.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return answer


def test_what_show_prints_as_json_can_be_compared(answer):
    code, out, said = answer("old.json", "new.json")
    assert (code, out) == (0, "")
    assert "B is slower: 100 % more time per step" in " ".join(said.split())
    assert max(map(len, said.splitlines())) <= 80


def test_the_exit_code_is_that_of_the_gate(answer):
    assert answer("old.json", "new.json", "--fail-above", "5%")[0] == 1
    assert answer("new.json", "old.json", "--fail-above", "5%")[0] == 0
    assert answer("old.json", "old.json", "--fail-above", "5%")[0] == 3


def test_a_baseline_keeps_several_runs_and_says_the_same_as_they_do(answer):
    code, out, said = answer("--save-baseline", "kept/base.json", "old.json", "old.json", "old.json")
    assert (code, out) == (0, "")
    assert said == "3 runs kept in kept/base.json: commit it, and compare with it.\n"
    code, out, _ = answer("kept/base.json", "new.json", "--json")
    found = json.loads(out)
    assert (code, found["a"]["runs"], found["b"]["runs"], found["verdict"]) == (0, 3, 1, SLOWER)
    assert found["times"] == pytest.approx(2.0)
    assert baseline.gather("kept/base.json")[0].regions == baseline.gather("old.json")[0].regions
    assert len(Path("kept/base.json").read_bytes()) < 3000


def test_json_names_every_number_and_the_gates_word(answer):
    code, out, _ = answer("old.json", "new.json", "--json", "--fail-above", "5%")
    found = json.loads(out)
    assert (code, found["schema"], found["gate"]) == (1, 1, SLOWER)
    change = found["regions"][0]["per_step"]
    assert (change["before"], change["after"]) == (pytest.approx(0.1), pytest.approx(0.2))
    assert 0 < change["low"] < 0.1 < change["high"]


def test_on_github_there_is_an_annotation_and_a_summary_of_the_step(answer, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    code, out, _ = answer("old.json", "new.json", "--fail-above", "5%")
    assert code == 1
    assert out.startswith("::error file=train.py,line=40,title=fitscope compare::B is slower: 100 %25 more time")
    assert out.count("\n") == 1
    assert Path("summary.md").read_text().startswith("### fitscope compare: train.py\n\n**B is slower: 100 %")
    code, out, said = answer("old.json", "old.json", "--fail-above", "5%", "--json")
    assert json.loads(out)["gate"] == UNKNOWN
    assert said.startswith("::warning file=train.py,line=40,title=fitscope compare::No difference seen")


def test_hostile_names_do_no_harm_to_markdown_or_annotations():
    name = "</td>|`x`\n::error::evil"
    found = compare_runs([run()], [run(trained(**{f"callback__{name}": 9.0}), script=f"{name}.py")])
    text = forms.to_markdown(found)
    assert "</td>" not in text
    assert "</td>|" not in to_html(found)
    assert not [line for line in text.splitlines() if line.startswith("::")]
    assert "\n" not in forms.to_github(found, (SLOWER, 0.05))


def test_the_page_says_what_the_others_say_and_asks_for_nothing(answer):
    code, out, said = answer("old.json", "new.json", "--html", "it.html", "--fail-above", "5%")
    page = Path("it.html").read_text()
    assert (code, out) == (1, "")
    assert said.startswith("fitscope: wrote it.html\n")
    assert "B is slower: 100 % more time per step" in page
    assert "default-src &#39;none&#39;" in page
    assert "<script" not in page
    assert 'data-path="regions.0.per_step.before" data-as="seconds">100 ms</data>' in page


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["old.json", "new.json", "--html", "base.json"], "base.json is a run or a baseline"),
        (["old.json", "new.json", "--html", "none/it.html"], "cannot write none/it.html"),
        (["old.json"], "name two things to compare"),
        (["old.json", "none.run"], "there is no file none.run"),
        (["old.json", "*.none"], "no file is named like *.none"),
        (["old.json", "empty"], "there are no runs in empty/"),
        (["old.json", "garbage"], "garbage is neither a run nor a baseline"),
        (["old.json", "list.json"], "list.json is neither a run nor a baseline"),
        (["old.json", "torn.json"], "torn.json is damaged and cannot be read"),
        (["old.json", "newer.json"], "newer.json was written by a newer fitscope"),
        (["old.json", "new.json", "--fail-above", "0.05"], "Invalid value for '--fail-above': '0.05' is no limit"),
        (["--save-baseline", "garbage", "old.json"], "garbage exists and is not a baseline"),
        (["--save-baseline", "base.json"], "say which runs to keep"),
        (["--save-baseline", "base.json", "torn.json"], "torn.json is damaged and cannot be read"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(answer, words, sentence):
    Path("empty").mkdir()
    Path("garbage").write_bytes(bytes(range(256)))
    Path("list.json").write_text("[]")
    Path("base.json").write_text('{"fitscope_baseline":1}')
    Path("torn.json").write_text('{"schema": 1, "machine": 3}')
    Path("newer.json").write_text('{"schema": 99}')
    code, out, said = answer(*words)
    assert (code, out) == (2, "")
    assert said.startswith(f"fitscope: {sentence}")
    assert len(said.splitlines()) == 1


def test_runs_of_different_scripts_are_not_one_side(tmp_path):
    for name in ("a", "b"):
        value = json.loads(to_json(report(10)))
        (tmp_path / f"{name}.json").write_text(json.dumps({**value, "script": f"{name}.py"}))
    with pytest.raises(FitscopeError, match=r"holds runs of different scripts \(a.py, b.py\)"):
        compare(str(tmp_path / "*.json"), str(tmp_path / "a.json"))
