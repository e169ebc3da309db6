"""Sweeps without a training: what is asked for, the turns within a budget, what is kept, the knee and the table."""

import io
import json
import os
import signal
import sys

import pytest
from click.testing import CliRunner
from made import LINE, Tree
from rich.console import Console

from fitscope import experiment, words
from fitscope.cli import group
from fitscope.experiment import NO_MEMORY, Attempt
from fitscope.model import Called, FitscopeError, Knee, MachineSample, Measured, Rate, Tick
from fitscope.observe import batches, overrides, point
from fitscope.report.sweep import label, says, to_json, to_terminal
from fitscope.sweep import judge, kept, ran, sweep
from fitscope.sweep.grid import axes, axis, filled, grid
from fitscope.sweep.ran import FAILED, MEASURED, NO_FIT, REFUSED, Ran
from fitscope.sweep.sweep import Turns, summed_up

GIGABYTE = 1 << 30


# --- what is asked for ---------------------------------------------------------------------------------------


def test_numbers_go_upward_and_count_once():
    assert axis("batch_size", "64, 16,32,16").values == (16, 32, 64)
    assert axis("jit_compile", "on,off").values == (True, False)
    assert axis("value", "b,a,b").values == ("b", "a")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("batch_size", "16,x", r"--batch-size: 'x' is no whole number"),
        ("batch_size", "16,0", r"'0' is no whole number above zero"),
        ("batch_size", "-4", r"'-4' is no whole number"),
        ("steps_per_execution", "1.5", r"--steps-per-execution: '1.5' is no whole number"),
        ("batch_size", "16,,32", r"a value is missing"),
        ("jit_compile", "yes", r"--jit-compile is one or several of on, off, not 'yes'"),
        ("precision", "float8", r"not 'float8'"),
        ("backend", "theano", r"tensorflow, jax, torch, not 'theano'"),
    ],
)
def test_a_value_that_makes_no_sense_is_one_sentence(name, text, sentence):
    with pytest.raises(FitscopeError, match=sentence):
        axis(name, text)


def test_several_settings_make_a_grid():
    found = axes({"batch_size": "16,32", "jit_compile": "on,off", "value": None}, ())
    assert grid(found) == [
        {"batch_size": 16, "jit_compile": True},
        {"batch_size": 16, "jit_compile": False},
        {"batch_size": 32, "jit_compile": True},
        {"batch_size": 32, "jit_compile": False},
    ]


def test_nothing_to_sweep_and_too_much_are_sentences():
    with pytest.raises(FitscopeError, match="say what to sweep"):
        axes({"batch_size": None}, ())
    with pytest.raises(FitscopeError, match=r"--values needs a place"):
        axes({"value": "16"}, ("--batch", "16"))
    with pytest.raises(FitscopeError, match="100 combinations"):
        axes({"batch_size": ",".join(map(str, range(1, 101)))}, ())


def test_a_value_goes_to_its_place_in_the_arguments():
    assert filled(("--batch={}", "x"), {"value": "16"}) == ("--batch=16", "x")
    assert filled(("{}",), {"batch_size": 16}) == ("{}",)


@pytest.mark.parametrize(
    ("words", "script", "arguments"),
    [
        (["train.py", "--batch-size", "16,32", "--epochs", "3"], "train.py", ("--epochs", "3")),
        (["--batch-size", "16,32", "train.py", "--epochs=3", "-v"], "train.py", ("--epochs=3", "-v")),
        (["train.py", "--values", "16,32", "--", "--batch", "{}", "--json"], "train.py", ("--batch", "{}", "--json")),
    ],
)
def test_options_may_stand_on_both_sides_of_the_script(monkeypatch, tmp_path, words, script, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    seen = {}

    def fake(script, arguments, axes, budget, tell, again):
        seen.update(script=script, arguments=arguments)
        raise FitscopeError("enough")

    monkeypatch.setattr("fitscope.cli.sweep_.sweep", fake)
    CliRunner().invoke(group, ["sweep", *words])
    assert (str(seen["script"]), seen["arguments"]) == (script, arguments)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nosuch.py", "--batch-size", "16"], "there is no file nosuch.py"),
        ([".", "--batch-size", "16"], ". is a folder"),
        (["train.py"], "say what to sweep"),
    ],
)
def test_every_mistake_is_a_sentence(monkeypatch, tmp_path, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    error = CliRunner().invoke(group, ["sweep", *words]).exception
    assert isinstance(error, FitscopeError)
    assert sentence in str(error)


# --- in turns ------------------------------------------------------------------------------------------------


class Bench:
    """A script that is never run: each run takes ten seconds of a clock of its own."""

    def __init__(self, own=32, seconds=10.0):
        self.now, self.own, self.seconds = 0.0, own, seconds
        self.ran, self.told = [], []
        self.answers = {}

    def clock(self):
        return self.now

    def __call__(self, settings, told, deadline):
        self.now += self.seconds
        self.ran.append(settings.get("batch_size", settings.get("value", "own")))
        self.told.append(told)
        answer = self.answers.get(self.ran[-1])
        if answer is not None:
            return answer() if callable(answer) else answer
        size = settings.get("batch_size", self.own)
        return measured_run(size, 10.0 * min(size, 100), {"batch_size": size}, seconds=self.seconds)


def measured_run(rows, rate, trained_with=None, foreign=0.0, memory=GIGABYTE, seconds=10.0, **changes):
    found = Measured(rate / (rows or 1), rows, 5.0, memory, None, foreign)
    return Ran(MEASURED, seconds, "", found, trained_with or {}, ("train.py", 7), **changes)


@pytest.fixture
def keep(tmp_path):
    """What is kept of a script, as often as it is asked for."""
    script = tmp_path / "train.py"
    script.write_text("model.fit(x)\n")
    return lambda: kept.Kept(script, (), tmp_path / ".fitscope")


@pytest.fixture
def go(keep):
    def go(bench, text="16,32,64", budget=1000.0, name="batch_size", kept=None):
        said = []
        turns = Turns([axis(name, text)], bench, kept or keep(), budget, said.append, bench.clock)
        turns.go()
        turns.said = said
        return turns

    return go


def test_points_take_turns_and_every_second_round_goes_back(go):
    bench = Bench()
    go(bench)
    assert bench.ran == ["own", 16, 64, 64, "own", 16]


def test_a_setting_that_the_script_does_not_have_is_measured_beside_its_own(go):
    bench = Bench(own=24)
    turns = go(bench)
    assert [turn.settings for turn in turns.turns] == [{"batch_size": size} for size in (16, 24, 32, 64)]
    assert turns.base == {"batch_size": 24}
    assert bench.ran[:4] == ["own", 16, 32, 64]


def test_the_script_is_told_where_to_go_on_and_what_its_own_size_is(go):
    bench = Bench()
    go(bench)
    assert bench.told[0] == {}
    assert bench.told[1] == {"prolong": ["train.py", 7], "own_batch_size": 32}
    assert bench.told[4] == {"prolong": ["train.py", 7]}


def test_no_run_begins_that_would_outlast_the_budget(go):
    bench = Bench()
    turns = go(bench, "16,32,64,128", budget=35.0)
    assert bench.ran == ["own", 16, 64]
    assert bench.now <= 35
    found = summed_up(turns, [axis("batch_size", "16,32,64,128")], "train.py", (), 30.0)
    assert [point.state for point in found.points] == ["measured", "measured", "measured", "not measured"]
    assert found.knee is None
    assert "The budget was spent before 1 point had a run" in found.doubts[0]


def test_noise_asks_for_another_round(go):
    bench = Bench()
    rates = iter([1000.0, 1500.0, 1200.0, 900.0])
    bench.answers[16] = lambda: measured_run(16, next(rates), {"batch_size": 16})
    go(bench, "16,32")
    assert bench.ran.count(16) == bench.ran.count("own") == sweep.MOST_ROUNDS


def test_disturbed_runs_are_repeated_but_not_for_ever_and_give_no_verdict(go):
    bench = Bench()
    bench.answers[64] = measured_run(64, 500.0, {"batch_size": 64}, foreign=1.3)
    turns = go(bench)
    assert bench.ran.count(64) == sweep.MOST_RUNS
    found = summed_up(turns, [axis("batch_size", "16,32,64")], "train.py", (), 1.0)
    assert found.points[-1].state == "disturbed"
    assert found.points[-1].times is None
    assert found.knee is None
    assert "Other programs used up to 1.3 processors in all runs of 1 point" in found.doubts[0]


def test_what_does_not_fit_is_a_point_and_larger_batches_are_not_tried(go):
    bench = Bench()
    bench.answers[128] = Ran(NO_FIT, 4.0, "MemoryError")
    turns = go(bench, "32,64,128,256")
    assert bench.ran.count(128) == 1
    assert 256 not in bench.ran
    found = summed_up(turns, [axis("batch_size", "32,64,128,256")], "train.py", (), 1.0)
    assert [point.state for point in found.points] == ["measured", "measured", "does not fit", "does not fit"]
    assert found.points[-1].says == "batch size 128 does not, either"


def test_what_crashes_is_a_point_with_its_last_line(go):
    bench = Bench()
    bench.answers[64] = Ran(FAILED, 4.0, "ValueError: no")
    turns = go(bench)
    assert bench.ran.count(64) == 1
    found = summed_up(turns, [axis("batch_size", "16,32,64")], "train.py", (), 1.0)
    assert (found.points[-1].state, found.points[-1].says) == ("failed", "ValueError: no")


def test_a_script_that_fails_as_it_is_and_one_that_cannot_be_given_a_size_are_sentences(go):
    bench = Bench()
    bench.answers["own"] = Ran(FAILED, 4.0, "no training was seen")
    with pytest.raises(FitscopeError, match="as it is cannot be swept: no training was seen"):
        go(bench)
    bench = Bench()
    bench.answers[16] = Ran(REFUSED, 4.0, "a generator makes its own batches")
    with pytest.raises(
        FitscopeError, match=r"a generator makes its own batches.*--values 16,32 -- --batch-size \{\}"
    ):
        go(bench)
    bench = Bench()
    bench.answers["own"] = Ran(MEASURED, 4.0, "", Measured(1.0, None, 5.0, 1, None, 0.0), {"backend": "jax"})
    with pytest.raises(FitscopeError, match="no fit was seen that could be given it"):
        go(bench)


def test_a_first_run_that_was_too_short_is_measured_again_with_more_epochs(go):
    bench = Bench()
    short = Measured(10.0, 32, 0.5, GIGABYTE, None, 0.0)
    answers = iter([Ran(MEASURED, 4.0, "", short, {"batch_size": 32}, ("train.py", 7), whole=True)])
    bench.answers["own"] = lambda: next(answers, None) or measured_run(32, 333.0, {"batch_size": 32})
    turns = go(bench)
    assert bench.ran.count("own") == 3
    assert all(one.measured.seconds == 5.0 for turn in turns.turns for one in turn.ran)


def test_a_first_value_that_was_too_short_is_run_again_at_once(go):
    bench = Bench()
    short = Ran(MEASURED, 4.0, "", Measured(10.0, 16, 0.5, GIGABYTE, None, 0.0), {}, ("train.py", 7), whole=True)
    answers = iter([short])
    bench.answers.update(
        {"16": lambda: next(answers, None) or measured_run(16, 100.0), "32": measured_run(32, 150.0)}
    )
    turns = go(bench, "16,32", name="value")
    assert bench.ran == ["16", "16", "32", "32", "16"]
    assert short not in turns.turns[0].ran


def test_values_of_an_argument_are_held_against_the_first(go):
    bench = Bench()
    for value in ("16", "32"):
        bench.answers[value] = measured_run(int(value), 10.0 * int(value))
    turns = go(bench, "16,32", name="value")
    assert "own" not in bench.ran
    found = summed_up(turns, [axis("value", "16,32")], "train.py", (), 1.0)
    assert found.points[0].base
    assert found.own == {}
    assert found.points[1].times.value == pytest.approx(2.0)
    assert any("changes the optimization" in line for line in says(found))


# --- what was measured before --------------------------------------------------------------------------------


def test_a_second_sweep_measures_only_what_is_new(go, keep):
    go(Bench(), "16,32")
    bench, known = Bench(), keep()
    known.load()
    turns = go(bench, "16,32", kept=known)
    assert bench.ran == []
    assert turns.reused == 4
    bench, known = Bench(), keep()
    known.load()
    go(bench, "16,32,64", kept=known)
    assert bench.ran == [64, 64]


def test_nothing_is_reused_once_a_file_of_the_script_or_a_version_changed(keep, tmp_path, monkeypatch):
    module = tmp_path / "data.py"
    module.write_text("SIZE = 1\n")
    monkeypatch.chdir(tmp_path)
    keep().add({"batch_size": 16}, measured_run(16, 100.0, files=("data.py",)))

    def known():
        found = keep()
        found.load()
        return len(found.runs({"batch_size": 16}))

    assert known() == 1
    module.write_text("SIZE = 2\n")
    assert known() == 0
    module.write_text("SIZE = 1\n")
    assert known() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert known() == 0
    monkeypatch.delenv("OMP_NUM_THREADS")
    (tmp_path / "train.py").write_text("model.fit(y)\n")
    assert known() == 0


def test_what_is_to_be_measured_again_is_forgotten_and_the_rest_stays(keep):
    known = keep()
    for size in (16, 32):
        known.add({"batch_size": size}, measured_run(size, 100.0))
    again = keep()
    again.load()
    again.forget({"batch_size": 16})
    again.add({"batch_size": 16}, measured_run(16, 200.0))
    last = keep()
    last.load()
    assert [one.measured.steps_per_second for one in last.runs({"batch_size": 16})] == [200.0 / 16]
    assert len(last.runs({"batch_size": 32})) == 1


def test_what_is_no_measurement_is_not_kept_and_damage_is_nobodys_problem(keep):
    known = keep()
    known.add({}, measured_run(16, 100.0, foreign=1.0))
    known.add({}, Ran(FAILED, 1.0, "ValueError"))
    assert known.runs({}) == []
    known.add({}, Ran(NO_FIT, 1.0, "MemoryError"))
    known.path.write_text(known.path.read_text()[:-5])
    again = keep()
    again.load()
    assert again.runs({}) == []


# --- how a run ended -----------------------------------------------------------------------------------------


def recorded(code=0, output="", run=None):
    return Attempt(run, code, output, 12.0)


def ended(done, *, killed=False, **settings):
    return ran.read(done, settings, killed_for_memory=killed, memory_bytes=8 * GIGABYTE)


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("Traceback …\nMemoryError\n", "MemoryError"),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8 GiB\n", "Unable to allocate"),
        ("keras …ResourceExhaustedError: OOM when allocating tensor\nmore\n", "OOM when allocating"),
        ("jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.\n", "RESOURCE_EXHAUSTED"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n", "CUDA out of memory"),
        ("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried\n", "allocate memory"),
        ("terminate called after throwing an instance of 'std::bad_alloc'\n", "bad_alloc"),
    ],
)
def test_every_backends_word_for_too_little_memory_is_known(output, says):
    found = ended(recorded(1, output))
    assert found.state == NO_FIT
    assert says in found.says


def test_a_run_that_was_killed_for_its_memory_does_not_fit():
    assert ended(recorded(NO_MEMORY)).state == NO_FIT
    assert ended(recorded(-signal.SIGKILL), killed=True).state == NO_FIT
    large = Tree().run(samples=(sample(1.0, memory=6 * GIGABYTE),))
    assert ended(recorded(-signal.SIGKILL, run=large)).state == NO_FIT
    assert ended(recorded(-signal.SIGKILL)).state == FAILED


def test_a_run_that_fails_otherwise_says_how():
    keras = "ValueError: shapes differ\nArguments received by Dense.call():\n  • inputs=…\n"
    assert ended(recorded(1, keras)).says == "ValueError: shapes differ"
    assert ended(recorded(3, "")).says == "it ended with exit code 3"
    assert ended(recorded(None)).says == "it was not done after 12 s"
    assert ended(recorded(-signal.SIGSEGV)).says == "it died of signal 11"
    assert ended(recorded(0)).says == "no training was seen"
    assert ended(recorded(0, run=Tree().run())).says == "no training was seen"


def test_a_memory_error_that_the_script_survives_is_none():
    assert ended(recorded(0, "caught MemoryError", run=training())).state == MEASURED


# --- measuring -----------------------------------------------------------------------------------------------


def sample(seconds, cores=(0.5, 0.5), process=1.0, memory=GIGABYTE):
    return MachineSample(float(seconds), tuple(cores), process, memory, 0.0, 0, 0)


def training(per_second=(2, 10, 10, 10), foreign=(0, 0, 0, 0), facts=(), **phases):
    """A fit of some seconds: compiling in the first, an epoch's end in the third."""
    tree = Tree()
    root = tree.region("fit", LINE)
    step = tree.add(root, "step", "step", len(per_second) - 0.9 - 0.3 - 0.2)
    once = tree.add(root, "compile", "tracing", 0.9)
    check = tree.add(root, "validation", "step: step", 0.3)
    hook = tree.add(root, "callback", "Logger.on_epoch_end", 0.2)
    ticks = []
    for at, steps in enumerate(per_second):
        other = {0: {once: 0.9}, 2: {check: 0.3, hook: 0.2}}.get(at, {})
        ticks.append(Tick(float(at + 1), {step: 1.0 - sum(other.values()), **other}, {root: steps}))
    samples = [sample(0.0)]
    samples += [sample(at + 1, (0.5, 0.5 + more), 1.0) for at, more in enumerate(foreign)]
    number = sum(per_second)
    return tree.run(
        ticks=tuple(ticks),
        samples=tuple(samples),
        called={root: Called(1, number, 1, (0.1,) * number)},
        facts=({"fact": "trained-with", "root": root, "rows": 32, "batch_size": 32, "jit_compile": False}, *facts),
    )


def test_neither_the_first_second_nor_compiling_validating_and_the_ends_of_epochs_count():
    found = ended(recorded(0, run=training())).measured
    assert found.steps_per_second == pytest.approx(30 / 2.5)
    assert found.rows == 32


def test_steps_that_are_known_in_lumps_count_from_the_first(monkeypatch):
    assert ended(recorded(0, run=training((0, 0, 0, 100, 20)))).measured.steps_per_second == pytest.approx(120 / 3.6)
    assert ended(recorded(0, run=training((0, 0, 0, 0, 40)))).measured.steps_per_second == pytest.approx(40 / 3.6)
    monkeypatch.setattr(ran, "SHORT", 1.1)
    assert ended(recorded(0, run=training((2, 10, 10, 10, 1)))).measured.steps_per_second == pytest.approx(31 / 3.5)


def test_a_disturbed_second_is_left_out_and_a_disturbed_run_is_known_as_such():
    found = ended(recorded(0, run=training((2, 10, 10, 4, 10), (0, 0, 0, 0.5, 0))))
    assert found.measured.steps_per_second == pytest.approx(30 / 2.5)
    assert found.calm
    found = ended(recorded(0, run=training((2, 10, 10, 4, 10), (0, 0.5, 0.5, 0.5, 0))))
    assert not found.calm


def test_the_memory_is_the_most_that_anybody_saw():
    facts = ({"fact": "memory", "peak_bytes": 3 * GIGABYTE, "device_peak_bytes": 7},)
    found = ended(recorded(0, run=training(facts=facts))).measured
    assert (found.memory_bytes, found.device_memory_bytes) == (3 * GIGABYTE, 7)


def test_a_setting_that_the_training_did_not_take_is_told():
    assert ended(recorded(0, run=training()), jit_compile=True).says == "the jit compile stayed off"
    assert ended(recorded(0, run=training()), jit_compile=False).state == MEASURED
    assert ended(recorded(0, run=training()), precision="float32").state == FAILED


def test_a_refusal_is_of_the_script_or_of_this_size_alone():
    fact = {"fact": "refused", "setting": "batch_size", "why": "there are only 320 examples", "of_this_size": True}
    assert ended(recorded(0, run=Tree().run(facts=(fact,)))).state == FAILED
    assert ended(recorded(0, run=Tree().run(facts=({**fact, "of_this_size": False},)))).state == REFUSED


def test_a_loop_that_is_ended_after_enough_steps_was_enough(recording, clock, monkeypatch):
    monkeypatch.setattr(point, "note", lambda: None)
    enough = point.Enough(5.0, recording)
    ledger = recording.ledger()
    root = recording.root(ledger, "fit", LINE)
    nodes = {phase: recording.tree.node(root, phase) for phase in ("compile", "step")}
    seen = []
    for phase in ("compile", *["step"] * 9):
        ledger.enter(nodes[phase])
        clock.passes(20 if phase == "compile" else 1)
        ledger.back(ledger.outside)
        recording.regions[root].step(1)
        enough.look(0.0)
        seen.append(recording.stopped)
    assert seen == [False] * 5 + [True] * 5


def test_going_through_a_dataset_is_no_training_that_could_be_enough(recording, clock):
    enough = point.Enough(1.0, recording)
    ledger = recording.ledger()
    root = recording.root(ledger, "loop", LINE)
    for _ in range(20):
        ledger.enter(recording.tree.node(root, "step"))
        clock.passes(1)
        ledger.back(ledger.outside)
        recording.regions[root].step(1)
        enough.look(0.0)
    assert not recording.stopped


# --- the curve -----------------------------------------------------------------------------------------------


def curve(noise=0.01, **rates):
    return [(float(name[1:]), Rate(rate, rate * (1 - noise), rate * (1 + noise))) for name, rate in rates.items()]


def test_the_knee_is_the_smallest_value_beyond_which_doubling_gains_little():
    assert judge.knee(curve(b16=100, b32=180, b64=300, b128=320, b256=330)) == Knee(64.0, 64.0, 64.0)
    assert judge.knee(curve(b16=100, b32=101, b64=99)) == Knee(16.0, 16.0, 16.0)
    assert judge.knee(curve(b16=100, b32=180, b64=170)) == Knee(32.0, 32.0, 32.0)


def test_a_curve_that_still_grows_at_its_end_has_no_knee_yet():
    assert judge.knee(curve(b16=100, b32=180, b64=300)).last
    assert judge.knee(curve(b16=100)) is None


def test_noise_widens_where_the_knee_may_be():
    assert judge.knee(curve(0.08, b16=100, b32=180, b64=195, b128=198)) == Knee(32.0, 32.0, 128.0, False)


def test_values_that_lie_close_are_held_against_twice_their_size():
    rates = {"b32": 100, "b40": 112, "b48": 105, "b64": 103, "b80": 108}
    assert judge.knee(curve(**rates)).value == 32.0


def test_the_noise_is_that_of_all_points_together():
    alone = judge.noise([[measured_run(1, 100.0).measured]])
    assert (alone.spread, alone.freedom) == (judge.BETWEEN_ALONE, judge.TRUSTED)
    calm = judge.noise([[measured_run(1, rate).measured for rate in (100.0, 100.0)]] * 6)
    wild = judge.noise([[measured_run(1, rate).measured for rate in (100.0, 130.0)]] * 6)
    assert calm.spread < judge.BETWEEN < wild.spread
    assert calm.half(4) == pytest.approx(calm.half(1) / 2)


# --- what is shown -------------------------------------------------------------------------------------------


def swept(text="16,32,64,128,256,4096", answers=None):
    bench = Bench()
    bench.answers.update({4096: Ran(NO_FIT, 4.0, "MemoryError: no room"), **(answers or {})})

    class Nothing:
        def runs(self, settings):
            return []

        def add(self, settings, ran):
            pass

    turns = Turns([axis("batch_size", text)], bench, Nothing(), 1000.0, lambda text: None, bench.clock)
    turns.go()
    return summed_up(turns, [axis("batch_size", text)], "train.py", (), 100.0)


def printed(found):
    out = io.StringIO()
    to_terminal(found, Console(file=out, width=80, color_system=None))
    return out.getvalue().splitlines()


def test_the_table_fits_eighty_columns_and_marks_knee_and_own_setting():
    lines = printed(swept())
    assert max(map(len, lines)) <= 80
    (own,) = [line for line in lines if " own " in line and "×" not in line]  # noqa: RUF001
    assert own.split()[0] == "32"
    (knee,) = [line for line in lines if "◂ knee" in line]
    assert knee.split()[0] == "128"
    assert ["4096", "does", "not", "fit"] in [line.split() for line in lines]


def test_a_grid_of_many_settings_fits_eighty_columns():
    settings = {"batch_size": 16, "jit_compile": True, "precision": "mixed_bfloat16", "backend": "tensorflow"}
    found = judge.judged([(settings, [measured_run(16, 123_456.0)])], settings, "examples")
    names = tuple(settings)
    grid_of_four = sweep.Sweep("train.py", (), names, "examples", dict(settings), found, None, (), 0.0, 1, 0, 1.0)
    lines = printed(grid_of_four)
    assert max(map(len, lines)) <= 80
    assert any("mixed_bfloat16" in line and "tensorflow" in line and "123,000" in line for line in lines)


def test_it_is_said_that_a_larger_batch_changes_the_optimization_and_what_did_not_fit():
    said = list(says(swept()))
    assert said[0] == "The knee is batch size 128: beyond it doubling gains less than 10 %."
    assert any("changes the optimization" in line for line in said)
    assert "4096: does not fit: MemoryError: no room." in said


def test_without_a_verdict_the_reason_comes_first():
    assert next(says(swept("32,64"))).startswith("No knee up to batch size 64: doubling still gains")
    disturbed = measured_run(64, 500.0, {"batch_size": 64}, foreign=0.9)
    found = swept("32,64", {64: disturbed})
    assert found.knee is None
    assert next(says(found)).startswith("Other programs used up to 0.9 processors")
    assert not any("The knee" in line for line in says(found))


def test_of_settings_that_are_no_numbers_the_fastest_is_named():
    runs = [({"jit_compile": on}, [measured_run(16, rate)] * 2) for on, rate in ((True, 200.0), (False, 100.0))]
    points = judge.judged(runs, {"jit_compile": False}, "examples")
    found = sweep.Sweep(
        "t.py", (), ("jit_compile",), "examples", {"jit_compile": False}, points, None, (), 0, 4, 0, 1
    )
    assert next(says(found)).startswith("The fastest is jit compile on: 1.")
    alike = [({"jit_compile": on}, [measured_run(16, rate)] * 2) for on, rate in ((True, 101.0), (False, 100.0))]
    same = judge.judged(alike, {"jit_compile": False}, "examples")
    found = sweep.Sweep("t.py", (), ("jit_compile",), "examples", {"jit_compile": False}, same, None, (), 0, 4, 0, 1)
    assert next(says(found)).startswith("No difference seen")


def test_an_argument_is_named_as_the_script_names_it():
    points = judge.judged([({"value": "16"}, [measured_run(16, 100.0)])], {"value": "16"}, "examples")
    for argv in (("--batch", "{}"), ("--batch={}",)):
        found = sweep.Sweep("t.py", argv, ("value",), "examples", {}, points, None, (), 0, 1, 0, 1)
        assert label(found, "value") == "batch"


def test_json_has_the_points_and_the_sentences():
    found = json.loads(to_json(swept()))
    assert found["schema"] == 1
    assert [point["settings"]["batch_size"] for point in found["points"]] == [16, 32, 64, 128, 256, 4096]
    assert found["points"][1]["times"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert found["knee"]["value"] == 128
    assert found["says"][0].startswith("The knee is")


def test_where_the_size_of_a_batch_is_unknown_steps_are_counted():
    one = measured_run(None, 50.0)
    assert judge.unit_of([[one], [measured_run(16, 100.0)]]) == "steps"
    assert judge.rate_of(one.measured, "steps") == 50.0


def test_steps_of_unknown_size_give_no_verdict_over_an_argument(go):
    bench = Bench()
    bench.answers.update({value: measured_run(None, rate) for value, rate in (("16", 100.0), ("32", 60.0))})
    turns = go(bench, "16,32", name="value")
    found = summed_up(turns, [axis("value", "16,32")], "train.py", ("{}",), 1.0)
    assert (found.unit, found.knee) == ("steps", None)
    assert next(says(found)).startswith("How many examples a step has is not known")


@pytest.mark.parametrize(("value", "word"), [(12_345, "12,300"), (999.7, "1,000"), (456.7, "457"), (0.8234, "0.82")])
def test_a_rate_has_three_figures(value, word):
    assert words.rate(value) == word


# --- inside the script ---------------------------------------------------------------------------------------


class Array:
    def __init__(self, *shape):
        self.shape = shape


def test_the_rows_of_a_batch_are_those_of_its_first_array():
    assert batches.rows_of(({"a": Array(16, 3)}, Array(8))) == 16
    assert batches.rows_of([]) is None
    assert batches.rows_of(Array()) is None
    assert batches.rows_of(3) is None


class Items:
    """A PyDataset of 100 examples."""

    def __init__(self, size):
        self.batch_size = size

    @property
    def num_batches(self):
        return -(-100 // self.batch_size)

    def __getitem__(self, index):
        return Array(min(self.batch_size, 100 - index * self.batch_size)), None


class Prepared(Items):
    """One that has cut its batches when it was made."""

    def __init__(self, size):
        super().__init__(size)
        self.cut = size

    def __getitem__(self, index):
        return Array(self.cut), None


class Counted(Items):
    """One that has counted its batches when it was made."""

    num_batches = 4


def test_a_pydataset_takes_another_size_only_if_its_batches_follow():
    items = Items(32)
    assert batches._resize_items(items, 50) is None
    assert items.batch_size == 50
    for kind in (Prepared, Counted):
        items = kind(32)
        assert "attribute batch_size" in batches._resize_items(items, 50).why
        assert items.batch_size == 32
    assert batches._of_items(Items(32)) == (32, 25.0)


def test_arguments_of_a_call_are_changed_however_they_are_given():
    class Trainer:
        def compile(self, optimizer="sgd", loss=None, jit_compile="auto"):
            return optimizer, loss, jit_compile

    overrides._change(Trainer, "compile", lambda model, given: given.update(jit_compile=True))
    assert Trainer().compile("adam", "mse") == ("adam", "mse", True)
    assert Trainer().compile("adam", "mse", False) == ("adam", "mse", True)
    assert Trainer().compile(jit_compile=False) == ("sgd", None, True)
    with pytest.raises(TypeError, match="unexpected"):
        Trainer().compile(nothing=1)


def test_the_backend_is_chosen_when_keras_is_imported_and_not_before(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    chooser = overrides._Chooser("jax")
    assert chooser.find_spec("numpy", None) is None
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    assert chooser.find_spec("keras", None) is None
    assert os.environ["KERAS_BACKEND"] == "jax"


# --- a real process --------------------------------------------------------------------------------------------

FAKE = """
import os, sys, time
from fitscope.observe.ledger import Place
from fitscope.observe.recorder import recorder

batch = int(sys.argv[2])
if batch > 100:
    raise MemoryError("no room")
open("made", "x")
ledger = recorder.ledger()
root = recorder.root(ledger, "fit", Place(os.path.abspath(__file__), 1))
recorder.fact("rows", root=root, rows=batch)
step = recorder.tree.node(root, "step", "step")
while not recorder.stopped:
    ledger.enter(step)
    time.sleep(0.02)
    ledger.back(step)
    recorder.regions[root].step(20_000_000)
ledger.back(ledger.outside)
"""


def test_a_script_is_swept_over_its_own_argument_and_its_folder_stays_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep, "ENOUGH", 0.5)
    monkeypatch.setattr(sweep, "LEAST_ROUNDS", 1)
    monkeypatch.setattr(sweep, "NARROW", 1.0)
    monkeypatch.setattr(ran, "FOREIGN_CORES", 100.0)
    (tmp_path / "train.py").write_text(FAKE)
    said = []
    found = sweep.sweep(tmp_path / "train.py", ("--batch", "{}"), [axis("value", "16,64,128")], 60.0, said.append)
    assert [point.state for point in found.points] == ["measured", "measured", "does not fit"]
    assert found.points[2].says == "MemoryError: no room"
    assert found.unit == "examples"
    assert found.points[1].times.value > 2
    assert {path.name for path in tmp_path.iterdir()} == {"train.py", ".fitscope"}
    assert len(said) == 3
    again = sweep.sweep(tmp_path / "train.py", ("--batch", "{}"), [axis("value", "16,64,128")], 60.0, said.append)
    assert len(said) == 3
    assert again.points == found.points


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux says how much memory is left")
def test_a_run_that_leaves_no_memory_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "LEAST_MEMORY", 2.0)
    (tmp_path / "train.py").write_text("import time; time.sleep(60)")
    with experiment.Workspace(tmp_path) as workspace:
        version = experiment.Version("it", (sys.executable, "train.py"))
        done = workspace.attempt(version, experiment.time.monotonic() + 30, {})
    assert done.code == NO_MEMORY
    assert done.seconds < 30
