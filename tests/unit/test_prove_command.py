"""`fitscope prove` and `fitscope speedup` where nothing can be proved: one sentence, and exit code 2."""

import subprocess
import sys

import pytest


@pytest.fixture
def fitscope(tmp_path):
    def run(*words, script=b"print('no training here')\n"):
        (tmp_path / "train.py").write_bytes(script)
        command = [sys.executable, "-m", "fitscope", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["prove", "nothing.py"], "there is no file nothing.py"),
        (["prove", "--cause", "laziness", "train.py"], "there is no cause laziness"),
        (["prove", "--budget", "soon", "train.py"], "is no duration"),
        (["prove", "."], "is a folder"),
        (["speedup", "nothing.py"], "there is no file nothing.py"),
        (["speedup", "--bogus", "train.py"], "there is no option --bogus"),
    ],
)
def test_what_cannot_be_proved_is_one_sentence(fitscope, words, said):
    done = fitscope(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["prove", "speedup"])
def test_a_script_that_does_not_train_is_said_to(fitscope, command, tmp_path):
    done = fitscope(command, "train.py")
    assert done.returncode == 2
    assert "no training was seen in the script as it is: no training here" in " ".join(done.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_requests_to_servers_are_announced_before_the_first_run(fitscope):
    script = b"import sys\nsys.exit('not yet')\nimport requests\nrequests.post('http://tracker')\n"
    said = " ".join(fitscope("prove", "train.py", script=script).stderr.split())
    assert said.index("train.py:4 calls requests.post: every run does") < said.index(
        "ended with exit code 1: not yet"
    )
