import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made import Tree

import fitscope
from fitscope.account import account
from fitscope.live import Line, shares, since
from fitscope.model import Called, Where
from terminal import Terminal

BEGINS = '''
import itertools, json, os, sys, threading, time
file = open(os.environ["FITSCOPE_RUN"], "a", buffering=1)
def write(row):
    file.write(json.dumps(row) + "\\n")
write({"fitscope_run": 1, "version": "0.0", "script": "train.py", "argv": [], "started": time.time()})
write({"define": "node", "id": 1, "key": [0, "region", "fit", "train.py", 3, 1]})
write({"define": "node", "id": 2, "key": [1, "step", "step", None, None, 1]})
write({"define": "node", "id": 3, "key": [1, "data", "arrays", None, None, 1]})
def trained(step, data):
    """From now on training goes on, with its time divided so."""
    def train():
        for n in itertools.count(1):
            rows = {"2": [n * step * 100_000_000, n], "3": [n * data * 100_000_000, n]}
            write({"epoch": n, "root": 1, "t": n / 10, "steps": n, "spent": {"2": rows["2"][0]}})
            write({"t": n / 10, "node": rows, "region": {"1": [1, n, 1]}, "steps": {"1": "eJxjYGBgAAAABAAB"}})
            time.sleep(0.1)
    threading.Thread(target=train, daemon=True).start()
def say(*words, **how):
    print(*words, **how, flush=True)
def told(word):
    # The test answers on the terminal: no sleep has to be long enough.
    say(f"[{word}]")
    assert sys.stdin.readline() == "go\\n"
'''


@pytest.fixture
def terminal(tmp_path):
    made = []

    def terminal(script, *options, shell=False, **how):
        (tmp_path / "train.py").write_text(BEGINS + script)
        (tmp_path / "shell.py").write_text(SHELL)
        words = ["-m", "fitscope", "run", *options, "-o", "a.run", "train.py"]
        made.append(Terminal(tmp_path, ["shell.py", *words] if shell else words, **how))
        return made[-1]

    yield terminal
    for each in made:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


SHELL = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
def foreground(group):
    os.tcsetpgrp(0, group)
child = subprocess.Popen([sys.executable, *sys.argv[1:]], process_group=0)
foreground(child.pid)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
while True:
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    foreground(os.getpid())
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status))
    print("stopped", flush=True)
    signal.sigwait({signal.SIGUSR1})  # not a line: the script may still hang on the terminal, and take it
    foreground(child.pid)
    os.killpg(child.pid, signal.SIGCONT)
"""
BAR = """
trained(3, 1)
for epoch in range(4):
    say(f"Epoch {epoch + 1}/4")
    for step in range(10):
        say("\\b" * 60 + "\\r" + f"{step + 1}/10 " + "━" * step, end="")
    if epoch == 2:
        say()
        told("bar")
    say()
say("done")
"""


def test_the_last_row_shows_the_shares_and_the_rest_is_the_scripts(terminal):
    window = terminal(BAR, "--live")
    window.until(lambda: window.shows("[bar]") and "step" in window.last)
    assert window.last == "fitscope  data 25 %  step 75 %  callbacks 0.0 %"
    assert [line for line in window.above if line] == [
        "Epoch 1/4",
        "10/10 ━━━━━━━━━",
        "Epoch 2/4",
        "10/10 ━━━━━━━━━",
        "Epoch 3/4",
        "10/10 ━━━━━━━━━",
        "[bar]",
    ]
    window.go()
    assert window.finish() == 0
    assert not window.shows("callbacks")
    assert window.screen.margins is None or window.screen.margins.bottom == 11


def test_output_that_scrolls_never_reaches_the_last_row(terminal):
    window = terminal("trained(1, 1)\nfor i in range(40): say(f'line {i}')\ntold('here')\n", "--live")
    window.until(lambda: window.shows("[here]") and "step 50 %" in window.last)
    assert window.above == [f"line {i}" for i in range(31, 40)] + ["[here]", ""]
    window.go()
    assert window.finish() == 0


def test_a_traceback_is_whole_and_the_report_follows_it(terminal):
    window = terminal("trained(1, 1)\ntold('here')\nraise ValueError('theirs')\n", "--live", rows=40)
    window.until(lambda: window.shows("[here]") and "step 50 %" in window.last)
    window.go()
    assert window.finish() == 1
    lines = [line.rstrip() for line in window.screen.display]
    at = lines.index("ValueError: theirs")
    assert any(line.startswith("Traceback") for line in lines[at - 5 : at])
    assert any(line.startswith("fitscope  train.py") for line in lines[at:])
    assert not window.shows("callbacks 0.0 %")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_terminal_is_given_back_when_the_script_is_killed(terminal, number):
    window = terminal("trained(1, 1)\nsay(os.getpid())\ntold('here')\n", "--live", rows=40)
    window.until(lambda: window.shows("[here]") and "step 50 %" in window.last)
    pid = next(int(line) for line in window.above if line.strip().isdigit())
    os.kill(pid, number)
    assert window.finish() == -number
    assert not window.shows("callbacks 0.0 %")
    assert window.screen.margins is None or window.screen.margins.bottom == 39


def test_the_line_moves_with_the_window(terminal):
    window = terminal("trained(1, 1)\ntold('here')\nfor i in range(30): say(f'line {i}')\ntold('there')\n", "--live")
    window.until(lambda: window.shows("[here]") and "step 50 %" in window.last)
    window.resize(20, 60)
    window.until(lambda: "step 50 %" in window.last)
    assert sum("callbacks" in line for line in window.screen.display) == 1
    window.go()
    window.until(lambda: window.shows("[there]"))
    assert window.above == [f"line {i}" for i in range(13, 30)] + ["[there]", ""]
    window.resize(3, 20)
    window.go()
    assert window.finish() == 0


def test_without_a_shell_the_key_for_stopping_stops_nothing(terminal):
    window = terminal("trained(1, 1)\ntold('here')\nsay('went on')\ntold('there')\n", "--live")
    window.until(lambda: window.shows("[here]") and "step 50 %" in window.last)
    window.press(b"\x1a")
    window.go()
    window.until(lambda: window.shows("[there]") and "step 50 %" in window.last)
    window.go()
    assert window.finish() == 0


def test_a_shell_gets_its_terminal_back_while_the_script_is_stopped(terminal):
    window = terminal("trained(1, 1)\ntold('here')\n", "--live", shell=True)
    window.until(lambda: window.shows("[here]") and "step 50 %" in window.last)
    window.press(b"\x1a")
    window.until(lambda: window.shows("stopped") and "step" not in window.last)
    os.kill(window.process.pid, signal.SIGUSR1)
    window.until(lambda: "step 50 %" in window.last)
    window.go()
    assert window.finish() == 0


def test_a_setting_does_what_the_option_does(terminal, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.fitscope]\nlive = true\n")
    window = terminal("trained(1, 1)\ntold('here')\n")
    window.until(lambda: "step 50 %" in window.last)
    window.go()
    assert window.finish() == 0


@pytest.mark.parametrize(("options", "environment"), [([], {}), (["--live"], {"TERM": "dumb"})])
def test_nothing_is_drawn_unasked_or_on_a_dumb_terminal(terminal, options, environment):
    window = terminal("trained(1, 1)\ntime.sleep(1.5)\ntold('here')\n", *options, **environment)
    window.until(lambda: window.shows("[here]"))
    assert window.last == ""
    window.go()
    assert window.finish() == 0


def test_the_first_verdict_is_shown_once_two_looks_agree_on_it():
    tree = Tree()
    fit = tree.region(where=Where("train.py", 40))
    tree.add(fit, "step", "step", 5, 100)
    tree.add(fit, "callback", "Slow.on_train_batch_end", 20, 100, where=Where("train.py", 7))
    run = tree.run(called={fit: Called(1, 100, 1)})
    line = Line(-1)
    line._look(run)
    assert line._verdict == ""
    line._look(run)
    assert line._verdict == "blocking-callback train.py:7"


def test_a_training_that_is_too_short_has_no_verdict_yet():
    tree = Tree()
    tree.add(tree.region(), "callback", "Slow.on_train_batch_end", 5, 100)
    line = Line(-1)
    for _ in range(3):
        line._look(tree.run())
    assert (line._looks, line._verdict) == (0, "")


def test_what_was_moved_to_another_part_meanwhile_is_never_negative():
    tree = Tree()
    fit = tree.region()
    step, data = tree.add(fit, "step", "step", 4), tree.add(fit, "data", "tf.data", 0)
    before = tree.run()
    later = {step: replace(tree.nodes[step], seconds=3.0), data: replace(tree.nodes[data], seconds=2.0)}
    found = account(since(before, replace(before, nodes={**tree.nodes, **later})))
    assert shares(found) == "data 100 %  step 0.0 %  callbacks 0.0 %"


def test_without_a_terminal_nothing_is_drawn(tmp_path):
    (tmp_path / "train.py").write_text(BEGINS + "trained(1, 1)\ntime.sleep(1.5)\n")
    source = str(Path(fitscope.__file__).parent.parent)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FITSCOPE")}
    done = subprocess.run(
        [sys.executable, "-m", "fitscope", "run", "--live", "-o", "a.run", "train.py"],
        cwd=tmp_path,
        env={**ours, "TERM": "xterm", "PYTHONPATH": source},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout + done.stderr
