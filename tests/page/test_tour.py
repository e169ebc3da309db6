"""The tour in the documentation, executed as it is written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOUR = Path(__file__).parents[2] / "docs" / "tour.md"


@pytest.fixture
def shell(tmp_path):
    """Runs a command of the tour in one folder, with this fitscope."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, arguments in (("fitscope", "-m fitscope"), ("python", "")):
        (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (commands / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "KERAS_BACKEND": "jax"}

    def run(command):
        return subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )

    return run


def test_the_tour_does_what_it_says(shell, tmp_path):
    text = TOUR.read_text()
    script, notebook = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "train.py").write_text(script)
    shown = {}
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
            done = shell(command)
            assert done.returncode == 0, (command, done.stderr)
            shown[command] = done.stdout + done.stderr
    recorded = shown["fitscope run -o before.run train.py"]
    for line in re.findall(r"^    (\d\. .*(?:\n     .*)*)", text, re.MULTILINE):
        assert " ".join(line.split()) in " ".join(recorded.split())
    assert (tmp_path / "before.html").read_text().startswith("<!doctype html>")
    assert "blocking-callback" in shown["fitscope show before.run --markdown"]
    assert "Every" in (tmp_path / "faster.py").read_text()
    assert "blocking-callback" not in shown["fitscope run -o after.run faster.py"]
    compared = shown["fitscope compare before.run after.run"]
    assert "B is faster" in compared or "other programs used" in compared  # others may be busy
    (tmp_path / "notebook.py").write_text(script.replace("epochs=3", "epochs=1") + notebook)
    assert shell("python notebook.py").returncode == 0
    assert (tmp_path / "run.html").exists()
