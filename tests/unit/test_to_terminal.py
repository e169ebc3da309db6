import re
from io import StringIO

import pytest
from made import Tree
from rich.cells import cell_len

from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.model import Called, Compile, MachineSample, Sampled, Stage, Where
from fitscope.report.to_terminal import console, to_terminal

LONG = "a_rather_long_name_of_a_folder/" * 6 + "train_the_model_with_all_its_options.py"


def shown(run):
    stream = StringIO()
    to_terminal(diagnose(run, account(run)), console(stream))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def flowing(text):
    """Without the breaks between lines."""
    return " ".join(text.split())


def training(file="train.py", **changes):
    """A run with something in every corner of the report."""
    tree = Tree()
    fit = tree.region(where=Where(file, 40))
    step = tree.add(fit, "step", "step", 50, 10)
    tree.add(fit, "data", "tf.data", 20, 10)
    callback = tree.add(fit, "callback", "MyOwnVeryLongNamedCallback.on_train_batch_end", 20, where=Where(file, 7))
    tree.add(tree.add(callback, "call", "predict", 0, 0, Where(file, 9)), "step", "step", 10)
    sample = MachineSample(1.0, (1.0, 1.0), 1.5, 3 * 10**9, 0.2, 0, 0, ((0.5, 10**9),))
    values = {
        "script": file,
        "path": f".fitscope/{file}.run",
        "called": {fit: Called(2, 10, 3, (10.0,) * 10)},
        "stages": {fit: (Stage("ParallelMap", Where(file, 3), 2.0, 4),)},
        "compiles": {fit: (Compile("train_step", "changed shape", "(8, 3) -> (5, 3) and " * 9, 3, 4.0),)},
        "sampled": (Sampled(step, Where(file, 12), "loss", 5),),
        "facts": (
            {"fact": "forced-sync", "root": fit, "callback": "MyOwnVeryLongNamedCallback"},
            {"fact": "workers", "root": fit, "source": "PyDataset", "workers": 4, "processes": True},
            {"fact": "problem", "says": f"{file} could not be read."},
        ),
        "samples": (sample,) * 5,
        "ended": "exception",
        "exit_code": 1,
    }
    return tree.run(**{**values, **changes})


@pytest.mark.parametrize("file", ["train.py", LONG, "x" * 300 + ".py", f"/{LONG}", "学習/" * 60 + "訓練.py"])
def test_no_line_is_wider_than_80_columns(file):
    text = shown(training(file))
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert re.search(r" 100 % .* in all\n", text)


def test_the_report_is_80_columns_wide_whatever_the_environment_says(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert max(len(line) for line in shown(training(LONG)).splitlines()) <= 80


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE", "TERM"])
def test_without_a_terminal_there_are_no_colors(monkeypatch, variable):
    monkeypatch.setenv(variable, "xterm-256color" if variable == "TERM" else "1")
    assert "\x1b" not in shown(training())


class Terminal(StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_colors_unless_they_are_not_wanted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    run = training()
    colored, plain = Terminal(), Terminal()
    to_terminal(diagnose(run, account(run)), console(colored))
    monkeypatch.setenv("NO_COLOR", "1")
    to_terminal(diagnose(run, account(run)), console(plain))
    assert "\x1b[" in colored.getvalue()
    assert "\x1b" not in plain.getvalue()


def test_a_terminal_obeys_no_name(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    colored = Terminal()
    run = training("clear\x1b[2Jthe\x9b2Jscreen\u202e.py")
    to_terminal(diagnose(run, account(run)), console(colored))
    assert "clear\ufffd[2Jthe\ufffd2Jscreen\ufffd.py:40" in colored.getvalue()
    assert not re.search("\x1b\\[2J|\x9b|\u202e", colored.getvalue())


def test_the_report_names_what_is_dear_and_where_it_is():
    text = shown(training())
    assert "fit  train.py:40" in text
    assert "1 min 40 s, 2 calls, 3 epochs, 10 steps, 10.0 s per step (p95 10.0 s)" in text
    assert re.search(r"█+ +50 % +50\.0 s step\n", text)
    assert "≈100 % at train.py:12 in loss" in text
    assert re.search(r"█+\S* +30 %  *30\.0 s callback: MyOwnVeryLong", text)
    assert "10.0 s predict train.py:9" in text
    assert "Slowest in the input: ParallelMap (train.py:3), 2.00 s of work per batch, 4 at once." in flowing(text)
    assert "Input by PyDataset: 4 worker processes." in text
    assert "Compiled again 3 times: train_step, changed shape" in text
    assert "MyOwnVeryLongNamedCallback makes Keras wait for every step" in text
    assert "1.5 of 2 cores used, memory up to 3.00 GB, 20 % waiting for I/O, GPU 50 % busy" in flowing(text)
    assert "ended by an exception, exit code 1" in flowing(text)


def test_names_with_brackets_are_printed_as_they_are():
    tree = Tree()
    fit = tree.region(where=Where("train[bold].py", 1))
    tree.add(fit, "callback", "Waits[red].on_epoch_end[/]", 1)
    text = shown(tree.run(script="train[bold].py"))
    assert "fitscope  train[bold].py" in text
    assert "Waits[red].on_epoch_end[/]" in text


@pytest.mark.parametrize("number", [1, 12, 13, 40])
def test_every_second_stands_in_some_row(number):
    """However many parts there are: what has no row of its own is in the row of the smaller parts."""
    tree = Tree()
    fit = tree.region(where=Where("train.py", 1))
    for index in range(number):
        tree.add(fit, "callback", f"Waits{index}.on_epoch_end", 2)
    tree.add(fit, "step", "step", 19)
    rows = re.findall(r" % +(\d+)\.\d+ s (?:callback|step|\d+ smaller|in all)", shown(tree.run()))
    *parts, total = [int(seconds) for seconds in rows]
    assert sum(parts) == total == 2 * number + 19


@pytest.mark.parametrize(("seconds", "words"), [(750, "12 min 30 s"), (86_340, "23 h 59 min")])
def test_a_long_duration_stays_on_its_row(seconds, words):
    tree = Tree()
    tree.add(tree.region(where=Where("train.py", 1)), "step", "step", seconds)
    assert re.search(rf"█ +100 % +{words} step\n +100 % +{words} in all\n", shown(tree.run()))


@pytest.mark.parametrize(
    ("source", "seconds", "said"), [("tf.data", 4, True), ("tf.data", 0.4, False), ("arrays", 4, False)]
)
def test_an_end_of_a_pipeline_that_blocks_is_remarked_on_where_something_can_be_done(source, seconds, said):
    tree = Tree()
    fit = tree.region()
    tree.add(fit, "step", "step", 8, 10)
    tree.add(fit, "data", source, 0.1, 10)
    tree.add(fit, "epoch", "closing the input pipeline", seconds, 3)
    text = flowing(shown(tree.run(called={fit: Called(1, 10, 3, (0.8,) * 10)})))
    assert ("options.autotune.enabled = False" in text) is said


def test_small_parts_share_a_row():
    tree = Tree()
    fit = tree.region(where=Where("train.py", 1))
    tree.add(fit, "step", "step", 998)
    tree.add(fit, "gc", "step", 1)
    tree.add(fit, "epoch", "end of the epoch", 1)
    text = shown(tree.run())
    assert re.search(r"0\.2 % +2\.00 s 2 smaller parts\n", text)


def test_of_many_regions_the_smaller_ones_share_a_line():
    tree = Tree()
    for line in range(1, 6):
        tree.add(tree.region("fit", Where("train.py", line)), "step", "step", line)
    text = shown(tree.run())
    assert [f"train.py:{line}" in text for line in range(1, 6)] == [False, False, True, True, True]
    assert "and 2 smaller regions, 3.00 s in all" in text


def test_a_run_without_training_says_what_was_looked_for():
    text = flowing(shown(Tree().run()))
    assert "No training was seen: the script called no fit, evaluate, predict or train_on_batch" in text


def test_a_run_that_could_not_be_seen_says_only_why():
    text = shown(Tree().run(facts=({"fact": "legacy-keras"},)))
    assert "legacy tf.keras" in text
    assert "No training was seen.\n" in text


@pytest.mark.parametrize(
    ("ended", "code", "words"),
    [
        ("killed", None, "killed"),
        ("killed", 137, "killed, exit code 137"),
        ("interrupted", 130, "interrupted, exit code 130"),
        ("exit", 3, "ended by sys.exit, exit code 3"),
    ],
)
def test_the_headline_says_how_the_script_ended(ended, code, words):
    text = flowing(shown(Tree().run(ended=ended, exit_code=code, wall_seconds=2.0)))
    assert text.startswith(f"fitscope train.py · 2.00 s · Keras 3.15.1 on JAX · {words} No training")


def test_the_headline_of_a_script_that_ran_to_its_end_says_nothing_of_it():
    headline = shown(Tree().run(wall_seconds=2.0)).splitlines()[0]
    assert headline == "fitscope  train.py  ·  2.00 s  ·  Keras 3.15.1 on JAX"


@pytest.mark.parametrize(("script", "told"), [("train.py", True), ("/elsewhere/train.py", False)])
def test_the_next_command_is_prove_only_where_the_script_can_be_copied_with_its_folder(script, told):
    tree = Tree()
    fit = tree.region(where=Where("train.py", 40))
    tree.add(fit, "step", "step", 50, 100)
    tree.add(fit, "callback", "Slow.on_train_batch_end", 50, 100, where=Where("train.py", 7))
    run = tree.run(script=script, argv=(), path=".fitscope/it.run", called={fit: Called(1, 100, 1, (1.0,) * 100)})
    text = shown(run)
    assert "blocking-callback" in text
    assert (f"fitscope prove {script}" in text) == told
