"""`fitscope fix` as a user meets it: a diff on stdout, words on stderr, exit codes, files that change or do not."""

import os
import shutil
import stat
import subprocess
import sys
import time

import pytest
from made import sink, train

from fitscope.observe.ledger import Place

EAGER = b"import keras\r\nmodel = keras.Sequential([])  # gr\xc3\xb6\xc3\x9fe\r\nmodel.compile(run_eagerly=True)\r\n"
FIXED = EAGER.replace(b"run_eagerly=True", b"")
BOARD = b'import keras\nboard = keras.callbacks.TensorBoard("logs", update_freq="batch")\n'


@pytest.fixture
def fix(tmp_path):
    def run(*words, script=EAGER):
        if script is not None:
            (tmp_path / "train.py").write_bytes(script)
        command = [sys.executable, "-m", "fitscope", "fix", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)

    return run


def test_the_diff_goes_to_stdout_and_changes_nothing(fix, tmp_path):
    done = fix("train.py", "--epochs", "3")
    assert done.returncode == 0
    assert done.stdout.startswith(b"--- a/train.py\n+++ b/train.py\n@@ ")
    assert b"eager-execution train.py:3" in done.stderr
    assert b"`fitscope run train.py --epochs 3` makes one" in done.stderr.replace(b"\n  ", b" ")
    assert (tmp_path / "train.py").read_bytes() == EAGER


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_applies_the_diff_to_the_byte(fix, tmp_path):
    diff = fix("train.py").stdout
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff, check=True)
    assert (tmp_path / "train.py").read_bytes() == FIXED


def test_write_changes_the_file_and_keeps_its_mode(fix, tmp_path):
    (tmp_path / "train.py").write_bytes(EAGER)
    (tmp_path / "train.py").chmod(0o750)
    done = fix("--write", "train.py", script=None)
    assert done.returncode == 0
    assert (tmp_path / "train.py").read_bytes() == FIXED
    assert stat.S_IMODE((tmp_path / "train.py").stat().st_mode) == 0o750
    assert [each.name for each in tmp_path.iterdir()] == ["train.py"]
    assert fix("--write", "train.py", script=None).returncode == 1


def test_a_link_to_the_script_stays_a_link(fix, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "train.py").write_bytes(EAGER)
    (tmp_path / "train.py").symlink_to("real/train.py")
    assert fix("--write", "train.py", script=None).returncode == 0
    assert (tmp_path / "train.py").is_symlink()
    assert (tmp_path / "real" / "train.py").read_bytes() == FIXED


def test_an_unsafe_edit_is_told_and_made_only_when_asked_for(fix, tmp_path):
    done = fix("--write", "train.py", script=BOARD)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"--unsafe" in done.stderr
    assert (tmp_path / "train.py").read_bytes() == BOARD
    done = fix("--write", "--unsafe", "train.py", script=None)
    assert done.returncode == 0
    assert b"but: fewer records" in done.stderr
    assert (tmp_path / "train.py").read_bytes() == BOARD.replace(b'"batch"', b'"epoch"')


def test_nothing_to_fix_is_exit_code_1(fix):
    done = fix("train.py", script=b"import keras\n")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"nothing to fix" in done.stderr


@pytest.mark.parametrize(
    ("words", "script", "said"),
    [
        (["missing.py"], EAGER, b"there is no file missing.py"),
        (["."], EAGER, b"is a folder"),
        (["--wrong", "train.py"], EAGER, b"--wrong"),
        ([], EAGER, b"SCRIPT"),
        (["train.py"], b"def f(:\n", b"train.py: line 1 is no Python"),
        (["train.py"], b"# -*- coding: klingon -*-\n", b"cannot be read"),
    ],
)
def test_what_cannot_be_fixed_is_one_sentence_and_exit_code_2(fix, words, script, said):
    done = fix(*words, script=script)
    assert done.returncode == 2
    assert said in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_said(fix, tmp_path):
    (tmp_path / "train.py").write_bytes(EAGER)
    (tmp_path / "train.py").chmod(0o400)
    done = fix("--write", "train.py", script=None)
    assert done.returncode == 2
    assert b"cannot be written" in done.stderr


def test_a_run_of_an_older_version_of_the_script_is_not_used(fix, tmp_path, recording, clock):
    (tmp_path / ".fitscope").mkdir()
    written = sink(tmp_path / ".fitscope" / "a.run", started=time.time() - 100, cwd=str(tmp_path))
    recording.add_sink(written)
    train(recording, clock, line=Place(str(tmp_path / "train.py"), 3))
    recording.flush()
    recording.remove_sink(written)
    written.close()
    assert b"unmeasured" in fix("train.py").stderr
    os.utime(tmp_path / "train.py", (1, 1))
    done = fix("train.py", script=None)
    assert b"as measured in the run of" in done.stderr
    assert done.returncode == 1
