import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made import sink, train

from fitscope import cli, store
from fitscope.cli.list_ import sparkline

COMMAND = Path(sys.executable).with_name("fitscope")
NOT_FOR_THE_COMMAND_LINE = {"keras", "tensorflow", "jax", "jaxlib", "torch", "numpy"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def environment(**changes):
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("FITSCOPE", "PYTHON"))}
    return {**ours, **changes}


def fitscope(*words, python=(), **changes):
    """Runs the installed command as a user does."""
    start = [sys.executable, *python, str(COMMAND)] if python else [str(COMMAND)]
    return subprocess.run(
        [*start, *map(str, words)], env=environment(**changes), capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def answer(monkeypatch, capsys):
    """What the command says in this process: exit code, stdout, stderr."""

    def answer(*words):
        monkeypatch.setattr(sys, "argv", ["fitscope", *map(str, words)])
        try:
            cli.main()
            code = 0
        except SystemExit as ended:
            code = ended.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return answer


# --- what the user can put right ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["show", "none.run"], 2, "fitscope: there is no file none.run"),
        (["run", "none.py"], 2, "fitscope: there is no file none.py"),
        (["run"], 2, "fitscope: say which script to run"),
        (["show", "garbage.run"], 2, "fitscope: garbage.run is not a fitscope run file"),
        (["list"], 0, "There are no runs in .fitscope/"),
        (["list", "nowhere"], 2, "fitscope: nowhere is no folder"),
    ],
)
def test_a_mistake_of_the_user_is_one_sentence_and_an_exit_code(folder, words, code, sentence):
    (folder / "garbage.run").write_bytes(bytes(range(256)))
    done = fitscope(*words)
    said = done.stderr or done.stdout
    assert done.returncode == code
    assert said.startswith(sentence)
    assert len(said.splitlines()) == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["show"], "there are no runs in .fitscope/"),
        (["run", "-m", "no_such_module"], "there is no module no_such_module here"),
        (["run", "."], ". is a folder: name the script in it"),
        (["run", "--nosuch", "train.py"], "there is no option --nosuch"),
        (["run", "--for", "soon", "train.py"], "Invalid value for '--for': 'soon' is no duration"),
        (["run", "--for", "0s", "train.py"], "Invalid value for '--for': '0s' is no duration"),
        (["run", "-o", "train.py", "train.py"], "train.py exists and is not a run file"),
        (["run", "--repeat", "3", "train.py"], "say where to keep the runs"),
        (["run", "--repeat", "3", "-o", "train.py", "train.py"], "train.py is no folder"),
        (["run", "--repeat", "3", "--trace", "-o", "runs", "train.py"], "runs that are traced are no measure"),
        (["run", "--", "no_such_program"], "no_such_program cannot be started: No such file or directory"),
        (["nosuch"], "No such command 'nosuch'"),
    ],
)
def test_every_other_mistake_is_a_sentence_too(folder, answer, words, sentence):
    (folder / "train.py").write_text("raise AssertionError('was run')\n")
    code, _, said = answer(*words)
    assert code == 2
    assert said.startswith(f"fitscope: {sentence}")
    assert len(said.splitlines()) == 1
    assert (folder / "train.py").read_text() == "raise AssertionError('was run')\n"


def test_without_a_command_the_help_is_shown_and_the_exit_code_says_so(answer):
    code, _, said = answer()
    assert code == 2
    assert all(f"\n  {command} " in said for command in cli.COMMANDS)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_its_help(answer, command):
    code, said, _ = answer(command, "--help")
    assert code == 0
    assert said.startswith(f"Usage: fitscope {command} ")


def test_the_example_says_what_it_needs(folder, answer, monkeypatch):
    monkeypatch.setattr("fitscope.cli.demo_.find_spec", lambda name: None)
    code, _, said = answer("demo")
    assert (code, said) == (
        2,
        "fitscope: the example needs Keras and a backend: pip install 'fitscope[tensorflow]'.\n",
    )


# --- what is imported --------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["show", "a.run"], ["list", "."]])
def test_neither_keras_nor_a_backend_is_imported_to_help_to_show_or_to_list(folder, words):
    sink(folder / "a.run").close()
    done = fitscope(*words, python=["-X", "importtime"])
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert done.returncode == 0
    assert "click" in imported
    assert imported.isdisjoint(NOT_FOR_THE_COMMAND_LINE)


# --- show and list -----------------------------------------------------------------------------------------


def test_show_prints_the_last_run_if_none_is_named(folder, answer):
    for name, age in (("old", 20), ("new", 10)):
        path = folder / ".fitscope" / f"{name}.run"
        sink(path, script=f"{name}.py").close()
        os.utime(path, (1000 - age, 1000 - age))
    code, out, said = answer("show")
    assert (code, out) == (0, "")
    assert said.startswith("fitscope  new.py")


def test_show_as_json_prints_json_and_nothing_else(folder, answer):
    sink(folder / "a.run").close()
    code, out, said = answer("show", "a.run", "--json")
    assert (code, said) == (0, "")
    assert json.loads(out)["script"] == "train.py"


def test_a_reader_that_has_gone_away_gets_no_traceback(folder):
    sink(folder / "a.run").close()
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [COMMAND, "show", "a.run", "--json"], env=environment(), stdout=writing, stderr=subprocess.PIPE, timeout=120
    )
    os.close(writing)
    assert done.returncode != 0
    assert done.stderr == b""


def test_the_list_names_the_files_of_each_script_oldest_first(folder, answer):
    for name, script, age in (("c", "b", 5), ("b", "b", 20), ("a", "a", 10)):
        path = folder / ".fitscope" / f"{name}.run"
        sink(path, script=f"/project/{script}.py", started=0.0).close()
        os.utime(path, (1000 - age, 1000 - age))
    (folder / ".fitscope" / "garbage.run").write_text("garbage")
    code, out, _ = answer("list")
    rows = [line.split() for line in out.splitlines() if line]
    assert code == 0
    assert [row[:3] if len(row) == 3 else row[-1] for row in rows] == [
        ["b.py", "2", "runs"],
        "b.run",
        "c.run",
        ["a.py", "1", "run"],
        "a.run",
    ]


def test_copied_runs_are_listed_in_the_order_in_which_they_were_recorded(folder, answer):
    for name, started, copied in (("second", 200.0, 1), ("first", 100.0, 2)):
        path = folder / ".fitscope" / f"{name}.run"
        sink(path, started=started).close()
        os.utime(path, (copied, copied))
    code, out, _ = answer("list")
    assert code == 0
    assert [line.split()[-1] for line in out.splitlines() if ".run" in line] == ["first.run", "second.run"]


def test_the_time_per_step_over_time_is_drawn_where_a_script_has_several_runs(folder, answer, recording, clock):
    for number, steps in enumerate((3, 4)):
        path = folder / ".fitscope" / f"{number}.run"
        file = sink(path, started=clock.now / 1e9)
        recording.add_sink(file)
        train(recording, clock, steps=steps)
        recording.remove_sink(file)
        os.utime(path, (number, number))
    code, out, _ = answer("list")
    assert code == 0
    assert "train.py  2 runs  ▁▁  3.00 s to 3.00 s per step" in out
    assert out.count("3.00 s/step") == 2


@pytest.mark.parametrize(
    ("values", "drawn"), [([1, 1], "▁▁"), ([1, 1.05], "▁▂"), ([1, 1.25], "▁█"), ([4, 2, 1], "█▃▁"), ([0, 0], "▁▁")]
)
def test_a_sparkline_makes_no_mountain_of_noise(values, drawn):
    assert sparkline(values) == drawn


def test_old_runs_are_removed_by_script_and_files_that_were_named_are_not(folder, answer):
    names = [f"train-20260101-00000{second}.run" for second in range(4)]
    for age, name in enumerate([*names, "other-20260101-000000.run", "mine.run"]):
        path = folder / ".fitscope" / name
        sink(path).close()
        os.utime(path, (age, age))
    code, _, said = answer("list", "--keep", "2")
    assert (code, said) == (0, "2 runs removed from .fitscope/.\n")
    left = {path.name for path in (folder / ".fitscope").glob("*.run")}
    assert left == {names[2], names[3], "other-20260101-000000.run", "mine.run"}


def test_a_run_that_is_removed_takes_its_trace_with_it(folder):
    kept = folder / ".fitscope"
    kept.mkdir()
    for second in (1, 2):
        (kept / f"train-20261101-00000{second}.run").write_text("{}")
        (kept / f"train-20261101-00000{second}.xplane.pb").touch()
        os.utime(kept / f"train-20261101-00000{second}.run", (second, second))
    assert store.prune(kept, 1) == 1
    assert sorted(path.name for path in kept.iterdir()) == [
        "train-20261101-000002.run",
        "train-20261101-000002.xplane.pb",
    ]


def test_a_setting_keeps_the_newest_runs_after_each_run(folder, answer):
    (folder / "train.py").write_text("")
    (folder / "pyproject.toml").write_text("[tool.fitscope]\nkeep = 1\n")
    sink(folder / ".fitscope" / "train-20200101-000000.run").close()
    os.utime(folder / ".fitscope" / "train-20200101-000000.run", (1, 1))
    assert answer("run", "-o", ".fitscope/mine.run", "train.py")[0] == 0
    assert len(list((folder / ".fitscope").glob("*.run"))) == 2
    assert answer("run", "train.py")[0] == 0
    mine, ours = sorted(path.name for path in (folder / ".fitscope").glob("*.run"))
    assert mine == "mine.run"
    assert not ours.startswith("train-2020")


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("keep = 0", "pyproject.toml: [tool.fitscope] keep is a number of runs"),
        ("live = 3", "pyproject.toml: [tool.fitscope] live is true or false"),
        ("keep = ", "pyproject.toml cannot be read"),
    ],
)
def test_a_setting_that_makes_no_sense_is_said_before_anything_runs(folder, answer, table, sentence):
    (folder / "train.py").write_text("raise AssertionError('was run')\n")
    (folder / "pyproject.toml").write_text(f"[tool.fitscope]\n{table}\n")
    code, _, said = answer("run", "train.py")
    assert code == 2
    assert said.startswith(f"fitscope: {sentence}")


def test_the_list_says_what_it_leaves_out(folder, answer):
    sink(folder / ".fitscope" / "a.run").close()
    (folder / ".fitscope" / "b.run").write_text('{"fitscope_run":99,"version":"9.1"}\n')
    (folder / ".fitscope" / "c.run").symlink_to("gone")
    code, out, said = answer("list")
    assert code == 0
    assert "a.run" in out
    assert said.splitlines() == [
        "fitscope: .fitscope/b.run was written by a newer fitscope (9.1): update fitscope to read it."
    ]


def test_a_script_with_brackets_in_its_name_keeps_them_in_the_list(folder, answer):
    sink(folder / ".fitscope" / "a.run", script="train[old].py").close()
    code, out, _ = answer("list")
    assert code == 0
    assert "train[old].py" in out


# --- run ---------------------------------------------------------------------------------------------------


def test_the_script_gets_its_own_words_and_keeps_its_output_and_exit_code(folder):
    (folder / "train.py").write_text("import sys\nprint(sys.argv)\nsys.exit(3)\n")
    done = fitscope("run", "train.py", "-o", "x", "--for", "3", "-m", "y", "--", "--json")
    assert done.returncode == 3
    assert done.stdout == "['train.py', '-o', 'x', '--for', '3', '-m', 'y', '--', '--json']\n"
    assert "ended by sys.exit, exit code 3" in done.stderr
    ((_, run),) = store.runs(folder / ".fitscope")
    assert (run.script, run.exit_code, run.ended) == ("train.py", 3, "exit")
    assert run.argv == ("-o", "x", "--for", "3", "-m", "y", "--", "--json")


def test_an_exception_of_the_script_is_printed_without_a_frame_of_ours(folder):
    (folder / "train.py").write_text("raise ValueError('theirs')\n")
    alone = subprocess.run([sys.executable, "train.py"], env=environment(), capture_output=True, text=True)
    done = fitscope("run", "-o", "a.run", "train.py")
    assert done.returncode == alone.returncode == 1
    assert done.stderr.startswith(alone.stderr)
    assert store.read(folder / "a.run").ended == "exception"


def test_a_script_that_dies_of_a_signal_takes_us_with_it(folder):
    (folder / "train.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    assert fitscope("run", "train.py").returncode == -signal.SIGTERM


def test_a_script_killed_in_the_middle_of_a_line_has_a_readable_run(folder):
    (folder / "train.py").write_text(
        "import os, signal\n"
        "with open(os.environ['FITSCOPE_RUN'], 'ab') as file:\n"
        """    file.write(b'{"fitscope_run":1,"version":"0.0","script":"train.py"}\\n{"t":1,"node":{"2":[100')\n"""
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = fitscope("run", "-o", "a.run", "train.py")
    assert done.returncode == -signal.SIGKILL
    assert "killed, exit code 137" in done.stderr
    assert store.read(folder / "a.run").exit_code == 137


def test_an_exception_is_one_whoever_prints_it(folder):
    (folder / "train.py").write_text(
        "import sys\nsys.excepthook = lambda *_: print('theirs', file=sys.stderr)\nraise ValueError\n"
    )
    done = fitscope("run", "-o", "a.run", "train.py")
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "theirs")
    assert store.read(folder / "a.run").ended == "exception"


def test_a_script_that_leaves_at_once_is_not_said_to_be_no_python(folder):
    (folder / "train.py").write_text("import os\nos._exit(5)\n")
    done = fitscope("run", "-o", "a.run", "train.py")
    assert done.returncode == 5
    assert done.stderr.startswith("fitscope: no training was seen: it was ended before one began, or no Python")


def test_the_script_is_where_it_was_started_though_it_goes_elsewhere(folder):
    (folder / "elsewhere").mkdir()
    (folder / "train.py").write_text("import os, sys\nos.chdir('elsewhere')\nsys.argv = ['hydra']\n")
    assert fitscope("run", "-o", "a.run", "train.py", "--epochs", "3").returncode == 0
    run = store.read(folder / "a.run")
    assert (run.cwd, run.script, run.argv) == (str(folder), "train.py", ("--epochs", "3"))
    assert list((folder / "elsewhere").iterdir()) == []


SIGNALLED = """
import signal, sys, time
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
print("ready", flush=True)
sys.stdin.readline()
print(len(seen))
"""


def send_to_the_script(pid, number):
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(int(child), number)


@pytest.mark.parametrize(
    "send", [os.kill, os.killpg, send_to_the_script], ids=["to us alone", "to all of a job", "to the script alone"]
)
def test_a_signal_reaches_the_script_once(folder, send):
    (folder / "train.py").write_text(SIGNALLED)
    process = subprocess.Popen(
        [COMMAND, "run", "train.py"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "ready\n"
    for _ in range(2):
        send(process.pid, signal.SIGUSR1)
        time.sleep(1.2)  # by then we have listened
    out, err = process.communicate("\n", timeout=60)
    assert (process.returncode, out) == (0, "2\n"), err


def test_a_job_that_is_ended_as_a_whole_still_has_its_report(folder):
    (folder / "train.py").write_text("print('ready', flush=True)\nimport time\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [COMMAND, "run", "train.py"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGTERM)  # as `timeout` does it
    os.killpg(process.pid, signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert "fitscope: no training was seen" in err


def test_files_that_are_open_for_the_script_stay_open(folder):
    (folder / "train.py").write_text("import os, sys\nos.write(int(sys.argv[1]), b'theirs')\n")
    read, write = os.pipe()
    subprocess.run([COMMAND, "run", "train.py", str(write)], env=environment(), pass_fds=[write], check=True)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"theirs"


def test_a_run_that_cannot_be_written_where_it_was_asked_for_is_written_elsewhere(folder):
    (folder / "train.py").write_text("")
    (folder / "taken").mkdir()
    done = fitscope("run", "-o", "taken", "train.py", TMPDIR=str(folder))
    assert done.returncode == 0
    assert "fitscope: cannot write taken" in done.stderr
    assert "No training was seen: the script called no fit" in done.stderr


def test_an_earlier_run_may_be_written_over(folder):
    (folder / "train.py").write_text("")
    sink(folder / "a.run", script="earlier.py").close()
    done = fitscope("run", "-o", "a.run", "train.py", python=["-X", "dev"])
    assert done.returncode == 0
    assert store.read(folder / "a.run").script == "train.py"
    assert "ResourceWarning" not in done.stderr


def test_repeated_runs_go_into_one_folder_and_are_numbered_on(folder, answer):
    (folder / "train.py").write_text("")
    for _ in range(2):
        code, _, said = answer("run", "--repeat", "2", "-o", "before", "train.py")
        assert code == 0
    assert said.splitlines() == [
        "fitscope: recorded before/3.run",
        "fitscope: recorded before/4.run",
        "next: fitscope compare before OTHER",
    ]
    assert [run.script for _, run in store.runs(folder / "before")] == ["train.py"] * 4


def test_repeating_ends_with_the_first_run_that_fails(folder, answer):
    (folder / "train.py").write_text("import sys\nsys.exit(3)\n")
    code, _, _ = answer("run", "--repeat", "4", "-o", "before", "train.py")
    assert code == 3
    assert len(list((folder / "before").iterdir())) == 1


def test_a_command_behind_dashes_is_run_as_it_is(folder):
    (folder / "train.py").write_text("import sys\nprint(sys.flags.optimize, sys.argv[1:])\n")
    done = fitscope("run", "-o", "a.run", "--", sys.executable, "-O", "train.py", "--epochs", "3")
    assert (done.returncode, done.stdout) == (0, "1 ['--epochs', '3']\n")
    assert store.read(folder / "a.run").argv == ("--epochs", "3")


@pytest.mark.parametrize("command", ["python -I train.py", "PYTHONPATH=elsewhere python train.py"])
def test_a_python_that_does_not_read_our_path_is_seen_all_the_same(folder, command):
    (folder / "train.py").write_text("import sys\nprint(len(sys.argv))\n")
    command = command.replace("python ", f"{sys.executable} ")
    done = fitscope("run", "-o", "a.run", "--", "sh", "-c", f"{command}; exit 4")
    assert (done.returncode, done.stdout) == (4, "1\n")
    done = fitscope("run", "-o", "a.run", "--", "sh", "-c", f"exec env {command}")
    assert "No training was seen: the script called no fit" in done.stderr
    assert store.read(folder / "a.run").script == "train.py"


def test_a_module_is_run_as_python_does(folder):
    (folder / "package").mkdir()
    (folder / "package" / "train.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    done = fitscope("run", "-o", "a.run", "-m", "package.train", "--epochs", "3")
    assert (done.returncode, done.stdout) == (0, "__main__ ['--epochs', '3']\n")
