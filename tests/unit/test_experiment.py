"""Two versions side by side: real processes in copies of the folder, with a training that needs no Keras."""

import os
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from fitscope import confine, experiment
from fitscope.experiment import Trial, Version, Workspace, compare_versions, sameness
from fitscope.model import FitscopeError, Speedup

TRAINING = """
import os, sys, time
from pathlib import Path
from fitscope.observe.ledger import Place
from fitscope.observe.recorder import recorder

BEFORE
ledger = recorder.ledger()
root = recorder.root(ledger, "fit", Place(os.path.abspath(__file__), 1))
recorder.regions[root].calls += 1
ledger.enter(recorder.tree.node(root, "step", "step"))
time.sleep(SECONDS)
recorder.regions[root].step(1)
ledger.back(ledger.outside)
recorder.fact("history", root=root, scores={"loss": [LOSS]})
"""


def training(seconds=0.1, loss="0.5", before=""):
    text = TRAINING.replace("SECONDS", repr(seconds)).replace("LOSS", loss).replace("BEFORE", before)
    return text.encode()


def version(name="it", arguments=(), **files):
    contents = {f"{stem}.py": text for stem, text in files.items()}
    return Version(name, (sys.executable, "train.py", *arguments), contents)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    (place / "train.py").write_bytes(training())
    return place


@pytest.fixture
def once(folder):
    def run(text, *arguments, seconds=20.0):
        (folder / "train.py").write_bytes(text)
        with Workspace(folder) as workspace:
            return workspace.run(version(arguments=arguments), time.monotonic() + seconds)

    return run


def trial(seconds=1.0, foreign=0.0, whole=True, weights=None, **losses):
    found = {name: tuple(values) for name, values in losses.items()}
    return Trial(seconds, seconds / 10, whole, found, {"model": tuple(weights)} if weights else {}, foreign)


# --- in the copy ---------------------------------------------------------------------------------------------


def test_a_run_has_its_arguments_its_files_and_its_folder(once, folder):
    (folder / "data").mkdir()
    (folder / "data" / "rows.txt").write_text("0.25")
    before = "assert sys.argv[1:] == ['--epochs', '3']\nvalue = float(Path('data/rows.txt').read_text())"
    found = once(training(loss="value", before=before), "--epochs", "3")
    assert found.losses == {"loss of training 1": (0.25,)}
    assert 0.1 <= found.seconds < 5
    assert found.whole


def test_what_a_script_does_in_its_folder_stays_in_the_copy(once, folder):
    (folder / "model.keras").write_bytes(b"mine")
    (folder / "logs").mkdir()
    (folder / "logs" / "old").write_text("old")
    before = (
        "Path('model.keras').write_bytes(b'other'); Path('logs/new').write_text('x')\n"
        "os.unlink('logs/old'); Path('train.py').unlink()"
    )
    text = training(before=before)
    once(text)
    left = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert left == {"model.keras": b"mine", "logs/old": b"old", "train.py": text}


def test_every_run_begins_in_the_state_of_the_folder(folder):
    before = "assert not Path('seen').exists(); Path('seen').touch()"
    (folder / "train.py").write_bytes(training(before=before))
    with Workspace(folder) as workspace:
        for _ in range(2):
            workspace.run(version(), time.monotonic() + 20)


guarded = pytest.mark.skipif(confine.Guard.beneath([]) is None, reason="this kernel cannot forbid writing (Landlock)")


@guarded
@pytest.mark.parametrize(
    "line", ["Path(FILE).write_text('x')", "os.truncate(FILE, 0)", "os.unlink(FILE)", "os.rename(FILE, FILE + '2')"]
)
def test_nothing_is_written_outside_of_the_copy(once, tmp_path, line):
    (tmp_path / "checkpoint").write_text("mine")
    with pytest.raises(FitscopeError, match=r"exit code 1: PermissionError|Errno 13"):
        once(training(before=line.replace("FILE", repr(str(tmp_path / "checkpoint")))))
    assert (tmp_path / "checkpoint").read_text() == "mine"


@guarded
def test_a_large_file_is_linked_and_cannot_be_written_through_its_link(once, folder, monkeypatch):
    monkeypatch.setattr(experiment, "LINKED", 10)
    monkeypatch.setattr(experiment, "LARGEST", 5000)
    (folder / "rows.bin").write_bytes(bytes(10_000))
    once(training(before="assert Path('rows.bin').stat().st_size == 10_000"))
    with pytest.raises(FitscopeError, match="PermissionError"):
        once(training(before="Path('rows.bin').write_bytes(b'')"))
    assert (folder / "rows.bin").stat().st_size == 10_000


def test_a_folder_that_is_too_large_is_one_sentence(folder, monkeypatch):
    monkeypatch.setattr(experiment, "LARGEST", 100)
    with pytest.raises(FitscopeError, match=r"would have to be copied for an experiment"), Workspace(folder):
        pass


def test_links_and_the_python_path_lead_into_the_copy_or_where_they_led(once, folder, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").write_text("data")
    (folder / "link").symlink_to("../elsewhere")
    (folder / "lib").mkdir()
    (folder / "lib" / "helper.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder / "lib"), os.environ.get("PYTHONPATH", "")]))
    before = (
        "import helper\nassert Path('link').read_text() == 'data'\n"
        "assert Path(helper.__file__).parent == Path.cwd() / 'lib', helper.__file__"
    )
    once(training(before=before))


# --- what goes wrong costs only the run ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("raise ValueError('no data')", "it ended with exit code 1: ValueError: no data"),
        ("sys.exit(3)", "it ended with exit code 3"),
        ("input('go on? ')", "EOFError"),
        ("os._exit(0)", "no training was seen in it"),
    ],
)
def test_a_run_that_fails_says_how(once, before, said):
    with pytest.raises(FitscopeError, match=said):
        once(training(before=before))


def test_a_run_that_hangs_is_ended_with_its_children(once, monkeypatch):
    monkeypatch.setattr(experiment, "GRACE", 1.0)
    marker = f"fitscope-test-{os.getpid()}"
    before = (
        f"import subprocess\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', {marker!r}])\n"
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)"
    )
    began = time.monotonic()
    with pytest.raises(FitscopeError, match="not done when the time"):
        once(training(before=before), seconds=1.0)
    assert time.monotonic() - began < 40
    assert not [process for process in psutil.process_iter(["cmdline"]) if marker in (process.info["cmdline"] or [])]


def test_nothing_is_left_of_a_workspace(folder):
    with Workspace(folder) as workspace:
        place = Path(workspace._place.name)
        assert place.is_dir()
    assert not place.exists()


# --- verdicts --------------------------------------------------------------------------------------------------


def test_a_faster_version_is_found_faster_and_the_same(folder, monkeypatch):
    monkeypatch.setattr(experiment, "FOREIGN_CORES", 100.0)
    monkeypatch.setattr(experiment, "NARROW", 10.0)
    said = []
    outcome = compare_versions(
        folder, version("one", train=training(0.8)), version("two", train=training(0.1)), 60.0, said.append
    )
    assert outcome.faster
    assert outcome.speedup.low < 8.2
    assert outcome.same == "equal"
    assert len([line for line in said if "as it is, " in line]) == outcome.pairs >= 3


def test_a_version_that_trains_otherwise_is_different(folder, monkeypatch):
    monkeypatch.setattr(experiment, "FOREIGN_CORES", 100.0)
    monkeypatch.setattr(experiment, "MOST_PAIRS", 3)
    outcome = compare_versions(folder, version("one"), version("two", train=training(loss="0.6")), 60.0)
    assert outcome.same == "different"
    assert not outcome.keeps_training


def test_an_experiment_that_changes_nothing_says_so_in_95_of_100_repetitions():
    draw = random.Random(1)
    wrong = 0
    for _ in range(400):
        pairs = []
        while True:
            pairs.append((trial(draw.lognormvariate(0, 0.08)), trial(draw.lognormvariate(0, 0.08))))
            if len(pairs) >= experiment.LEAST_PAIRS:
                low, high = experiment._interval(pairs)
                if experiment._clear((low, high)) or len(pairs) == experiment.MOST_PAIRS:
                    break
        wrong += not low <= 0 <= high
    assert wrong <= 20


def test_there_is_no_verdict_while_other_programs_are_busy(folder, monkeypatch):
    monkeypatch.setattr(Workspace, "run", lambda self, version, deadline, seconds: trial(foreign=1.5))
    monkeypatch.setattr(experiment, "time", _Time(step=3.0))
    outcome = compare_versions(folder, version("one"), version("two"), 60.0)
    assert outcome.speedup is None
    assert "other programs" in outcome.doubt


def test_a_budget_that_is_too_short_gives_no_verdict(folder, monkeypatch):
    monkeypatch.setattr(Workspace, "run", lambda self, version, deadline, seconds: trial())
    monkeypatch.setattr(experiment, "time", _Time(step=3.0))
    outcome = compare_versions(folder, version("one"), version("two"), 5.0)
    assert outcome.speedup is None
    assert "budget" in outcome.doubt


class _Time:
    """A clock that goes on by a step at each look."""

    def __init__(self, step):
        self.step, self.now = step, 0.0

    def monotonic(self):
        self.now += self.step
        return self.now


def test_the_order_of_a_pair_changes_from_one_to_the_next(folder, monkeypatch):
    seen = []

    def run(self, version, deadline, seconds):
        seen.append(version.name)
        return trial(1.0 + 0.01 * len(seen) if version.name == "one" else 0.5)

    monkeypatch.setattr(Workspace, "run", run)
    outcome = compare_versions(folder, version("one"), version("two"), 60.0)
    assert seen[:6] == ["one", "two", "two", "one", "one", "two"]
    assert isinstance(outcome.speedup, Speedup)
    assert 1.7 < outcome.speedup.low < 2.08 < outcome.speedup.high < 2.5


def test_where_one_of_the_two_was_ended_early_their_steps_are_compared():
    assert experiment._times((trial(2.0), trial(1.0))) == (2.0, 1.0)
    assert experiment._times((trial(2.0, whole=False), trial(1.0))) == (0.2, 0.1)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ([[1.0, 0.5]] * 2, [[1.0, 0.5]] * 2, "equal"),
        ([[1.0, 0.5]] * 2, [[1.0, 0.50001]] * 2, "equal to rounding"),
        ([[1.0, 0.5]] * 2, [[1.0, 0.6]] * 2, "different"),
        ([[1.0, 0.5], [1.0, 0.6]], [[1.0, 0.55], [1.0, 0.62]], "within noise"),
        ([[1.0, 0.5]] * 2, [[1.0]] * 2, "different"),
        ([[float("nan")]] * 2, [[float("nan")]] * 2, "equal"),
        ([[1.0]] * 2, [[float("nan")]] * 2, "different"),
    ],
)
def test_two_trainings_are_the_same_or_not(one, other, said):
    assert sameness([trial(loss=each) for each in one], [trial(loss=each) for each in other]) == said


def test_trainings_that_were_ended_early_are_compared_as_far_as_both_came():
    long, short = trial(whole=False, loss=[1.0, 0.5], weights=[3.0]), trial(loss=[1.0, 0.5, 0.4], weights=[4.0])
    assert sameness([long], [short]) == "equal"
    assert sameness([trial(whole=False, loss=[1.0, 0.7])], [short]) == "different"


def test_of_a_fit_that_became_a_step_the_weights_are_compared():
    assert sameness([trial(loss=[1.0], weights=[3.0])], [trial(weights=[3.0])]) == "equal"
    assert sameness([trial(loss=[1.0], weights=[3.0])], [trial(weights=[3.5])]) == "different"


def test_of_trainings_with_another_number_of_models_the_losses_are_compared():
    many, one = {"1 (a)": (3.0,), "2 (b)": (4.0,)}, {"1 (a)": (4.0,)}
    before, after = (replace(trial(loss=[1.0, 0.9]), weights=each) for each in (many, one))
    assert sameness([before], [after]) == "equal"
    assert sameness([before], [replace(after, losses={"loss": (1.0, 0.8)})]) == "different"
    assert sameness([replace(before, losses={})], [replace(after, losses={})]) == "different"


def test_of_trainings_with_other_records_the_weights_are_compared():
    steps = trial(loss=[1.0, 0.9, 0.8], weights=[3.0])
    assert sameness([steps], [trial(loss=[0.9], weights=[3.00001])]) == "equal in the end"
    assert sameness([steps], [trial(loss=[0.9], weights=[3.001])]) == "different"
    assert sameness([steps], [trial(loss=[0.9])]) == "different"
    assert sameness([steps], [trial(loss=[0.9], weights=[3.0, 1.0])]) == "different"


def test_trainings_that_tell_nothing_cannot_be_compared():
    assert sameness([trial()], [trial()]) == "unknown"
    assert sameness([trial(loss=[1.0])], [trial()]) == "unknown"
