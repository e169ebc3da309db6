"""A training that is watched computes the same numbers, and its output, exit code and exceptions stay its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripts import BITS, FIT, LONG, TRAIN

BACKENDS = ("tensorflow", "jax", "torch")
FITSCOPE = str(Path(sys.executable).with_name("fitscope"))


def start(folder, words, backend="jax", **settings):
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONHASHSEED": "0", **settings.pop("env", {})}
    pipe = subprocess.PIPE
    return subprocess.Popen(words, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True, **settings)


def run(folder, *words, backend="jax", script=None, **settings):
    if script is not None:
        (folder / "train.py").write_text(script)
    with start(folder, list(words), backend, **settings) as process:
        try:
            out, err = process.communicate(timeout=240)
        finally:
            process.kill()
    return process.returncode, out, err


def without_logs(text):
    """Without the lines that TensorFlow's C++ code logs while it is imported: they have the time in them."""
    stamped = re.compile(r"[IWE]\d{4} |WARNING: All log messages before absl|To enable the following instructions")
    return "".join(line for line in text.splitlines(keepends=True) if not stamped.match(line))


def report(folder, name="it.run"):
    code, out, err = run(folder, FITSCOPE, "show", name, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_and_history_are_equal_to_the_bit(tmp_path, backend):
    code, bare, err = run(tmp_path, sys.executable, "train.py", backend=backend, script=BITS)
    assert code == 0, err
    code, watched, err = run(tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py", backend=backend)
    assert code == 0, err
    assert watched == bare
    assert [region["call"] for region in report(tmp_path)["regions"]] == ["fit", "fit"]


@pytest.mark.parametrize("own_list", ["", "1"])
def test_a_callback_that_joins_in_the_middle_of_an_epoch_is_told_of_the_same_steps(tmp_path, own_list):
    script = (
        TRAIN
        + """
import os
class Tells(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print("told", batch)
    def on_epoch_end(self, epoch, logs=None):
        print("epoch", epoch)
class Brings(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3 and len(everyone.callbacks) == 2:
            everyone.callbacks.append(Tells())
class Everyone(keras.callbacks.CallbackList):
    def on_train_batch_begin(self, batch, logs=None):
        print("begins", batch)
        super().on_train_batch_begin(batch, logs)
kind = Everyone if os.environ.get("OWN_LIST") else keras.callbacks.CallbackList
everyone = kind([Brings()], add_history=True, model=model)
model.fit(x, y, verbose=0, epochs=2, callbacks=everyone)
"""
    )
    env = {"OWN_LIST": own_list}
    code, bare, err = run(tmp_path, sys.executable, "train.py", script=script, env=env)
    assert code == 0, err
    assert "told 5" in bare
    assert ("begins 5" in bare) is bool(own_list)
    assert run(tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py", env=env)[:2] == (0, bare)


def test_an_exception_is_printed_as_without_us(tmp_path):
    script = (
        TRAIN
        + """
class Breaks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            raise ValueError("on purpose")
model.fit(x, y, verbose=0, callbacks=[Breaks()])
"""
    )
    code, _, bare = run(tmp_path, sys.executable, "train.py", script=script)
    watched_code, _, watched = run(tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py")
    assert watched_code == code == 1
    bare, watched = without_logs(bare), without_logs(watched)
    assert watched.startswith(bare[: bare.index("on purpose")])
    assert "fitscope/observe" not in watched
    assert report(tmp_path)["ended"] == "exception"
    assert report(tmp_path)["regions"][0]["steps"] == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_traceback_of_an_exception_in_the_input_is_the_same(tmp_path, backend):
    script = (
        TRAIN
        + """
import os, sys, traceback
class Items(keras.utils.PyDataset):
    def __len__(self):
        return 20
    def __getitem__(self, index):
        if index == 3:
            raise ValueError("on purpose")
        return x[:32], y[:32]
def batches():
    for index in range(20):
        yield Items()[index]
for data in (Items(), batches()):
    try:
        model.fit(data, steps_per_epoch=20, verbose=0, shuffle=False)
    except Exception:
        print(*(line for line in traceback.format_exc().splitlines() if "File" in line or "purpose" in line))
sys.stdout.flush()
os._exit(0)  # TensorFlow may hang at the end of a program whose input has failed, with fitscope and without
"""
    )
    code, bare, err = run(tmp_path, sys.executable, "train.py", backend=backend, script=script)
    assert code == 0, err
    assert bare.count("on purpose") >= 2
    assert run(tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py", backend=backend)[:2] == (0, bare)


def test_a_step_that_torch_compiles_is_compiled_as_without_us(tmp_path):
    script = (
        """
import functools, torch
torch.compile = functools.partial(torch.compile, backend="eager")
"""
        + TRAIN
        + """
from torch._dynamo.utils import counters
model.compile("adam", "mse", metrics=["mae"], jit_compile=True)
history = model.fit(x, y, epochs=2, verbose=0, validation_split=0.25)
print(history.history, [weight.tolist() for weight in model.get_weights()])
print(counters["stats"], sum(counters["graph_break"].values()))
"""
    )
    code, bare, err = run(tmp_path, sys.executable, "train.py", backend="torch", script=script)
    assert code == 0, err
    assert run(tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py", backend="torch")[:2] == (0, bare)


def test_an_exit_code_is_passed_on(tmp_path):
    code, out, _ = run(
        tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py", script=FIT + "print('out'); sys.exit(3)"
    )
    assert (code, out) == (3, "out\n")
    assert report(tmp_path)["ended"] == "exit"
    assert report(tmp_path)["exit_code"] == 3


def ended_by(process, pid, number):
    """What a process printed until a signal ended it.

    Keras reads the logs of a step in a `try` whose bare `except` drops a Ctrl-C, with fitscope and without: on JAX,
    where that is a wait for the step, some are lost. As a person would, the test presses again.
    """
    for _ in range(4):
        if process.poll() is None:
            os.kill(pid, number)
        try:
            return process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            continue
    return process.communicate(timeout=1)


@pytest.mark.parametrize(
    ("number", "ended"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated"), (signal.SIGKILL, "killed")],
)
def test_a_signal_to_the_script_leaves_a_readable_run(tmp_path, number, ended):
    (tmp_path / "train.py").write_text(LONG + "\n")
    process = start(tmp_path, [FITSCOPE, "run", "-o", "it.run", "train.py"])
    assert process.stdout.readline() == "ready\n"
    time.sleep(4)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    _, err = ended_by(process, int(children[0]), number)
    assert process.returncode == -number
    found = report(tmp_path)
    assert found["ended"] == ended
    assert found["regions"][0]["wall_seconds"] > 2
    assert found["regions"][0]["steps"] > 50
    assert "Slow.on_train_batch_end" in err


def test_a_signal_to_fitscope_alone_reaches_the_script(tmp_path):
    (tmp_path / "train.py").write_text(LONG)
    process = start(tmp_path, [FITSCOPE, "run", "-o", "it.run", "train.py"])
    assert process.stdout.readline() == "ready\n"
    time.sleep(2)
    _, err = ended_by(process, process.pid, signal.SIGINT)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in err
    assert report(tmp_path)["ended"] == "interrupted"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_script_ends_once_enough_is_recorded(tmp_path, backend):
    script = LONG.replace("[Slow()]", "[Slow(), keras.callbacks.CSVLogger('log.csv')]") + "\nprint('not reached')"
    words = (FITSCOPE, "run", "-o", "it.run", "--for", "3s", "train.py")
    code, out, _ = run(tmp_path, *words, backend=backend, script=script)
    assert (code, out) == (0, "ready\n")
    found = report(tmp_path)
    assert found["ended"] == "completed"
    assert 2.5 < found["regions"][0]["wall_seconds"] < 30
    assert (tmp_path / "log.csv").read_text().startswith("epoch,")


def test_a_script_that_ends_early_ends_in_its_validation_and_keeps_its_backup(tmp_path):
    script = (
        TRAIN
        + """
class Slow(keras.callbacks.Callback):
    def on_test_batch_end(self, batch, logs=None):
        time.sleep(0.05)
    def on_train_end(self, logs=None):
        print("in order")
kept = keras.callbacks.BackupAndRestore("kept")
model.fit(x, y, verbose=0, validation_data=(np.tile(x, (100, 1)), np.tile(y, (100, 1))), validation_freq=2, epochs=4,
    callbacks=[kept, Slow()])
print("not reached")
"""
    )
    code, out, err = run(tmp_path, FITSCOPE, "run", "-o", "it.run", "--for", "3s", "train.py", script=script)
    assert (code, out) == (0, "in order\n"), err
    assert report(tmp_path)["regions"][0]["wall_seconds"] < 30
    assert len(list((tmp_path / "kept").iterdir())) == 2


@pytest.mark.parametrize("training", ["loop", "predict"])
def test_other_trainings_end_early_too(tmp_path, training):
    script = (
        TRAIN
        + f"""
for _ in range(10**9):
    if {training == "predict"}:
        model.predict(np.tile(x, (3000, 1)), verbose=0)
    loss = ((model(x[:32]) - keras.ops.convert_to_tensor(y[:32])) ** 2).mean()
    model.zero_grad()
    loss.backward()
    model.optimizer.apply([weight.value.grad for weight in model.trainable_weights], model.trainable_weights)
"""
    )
    words = (FITSCOPE, "run", "-o", "it.run", "--for", "2s", "train.py")
    code, _, err = run(tmp_path, *words, backend="torch", script=script)
    assert code == 0, err
    assert [region["call"] for region in report(tmp_path)["regions"]] == [training]


@pytest.mark.parametrize("leave", ["sys.exit(3)", "raise SystemExit(3)"])
def test_tensorflow_hanging_at_its_end_does_not_hang_us(tmp_path, leave):
    script = (
        TRAIN
        + """
import tensorflow as tf
def slow(a):
    time.sleep(0.005)
    return a
data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8)
data = data.map(lambda a, b: (tf.ensure_shape(tf.numpy_function(slow, [a], tf.float32), (None, 8)), b)).prefetch(4)
class Leaves(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 30:
            LEAVE
model.fit(data, steps_per_epoch=100, verbose=0, callbacks=[Leaves()])
"""
    ).replace("LEAVE", leave)
    code, _, err = run(tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py", backend="tensorflow", script=script)
    assert code == 3, err
    assert report(tmp_path)["regions"][0]["steps"] == 30


def test_a_full_disk_does_not_stop_the_training(tmp_path):
    code, out, err = run(tmp_path, FITSCOPE, "run", "-o", "/dev/full", "train.py", script=FIT + "print('trained')")
    assert (code, out) == (0, "trained\n")
    assert "No space left" in err
    assert "Traceback" not in err


def test_a_folder_that_cannot_be_written_does_not_stop_the_training(tmp_path):
    (tmp_path / "file").write_text("")
    words = (FITSCOPE, "run", "-o", "file/it.run", "train.py")
    code, out, err = run(tmp_path, *words, script=FIT + "print('trained')")
    assert (code, out) == (0, "trained\n")
    assert re.search(r"cannot write file/it.run .* the run is in (\S+)", err)
    assert "fit  train.py" in err


def test_a_script_without_training_is_told_so(tmp_path):
    code, out, err = run(tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py", script="print('hello')")
    assert (code, out) == (0, "hello\n")
    assert "No training was seen" in err


def test_legacy_keras_is_named(tmp_path):
    (tmp_path / "tf_keras.py").write_text("__version__ = '2.18'")
    code, _, err = run(tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py", script="import tf_keras")
    assert code == 0
    assert "legacy tf.keras" in err


def test_keras_2_is_named(tmp_path):
    (tmp_path / "keras.py").write_text("__version__ = '2.15.0'")
    code, _, err = run(tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py", script="import keras")
    assert code == 0
    assert "Keras 2.15.0" in err


def test_a_missing_backend_is_the_scripts_own_error(tmp_path):
    code, _, err = run(tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py", backend="nonesuch", script=FIT)
    assert code == 1
    assert err.count("Traceback") == 1
    assert "No training was seen" in err


def test_modules_commands_and_the_environment_start_a_recording_too(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "train.py").write_text(FIT + "print(sys.argv[1:])")
    code, out, err = run(tmp_path, FITSCOPE, "run", "-o", "a.run", "-m", "package.train", "--epochs", "3")
    assert (code, out) == (0, "['--epochs', '3']\n"), err
    command = [sys.executable, "-m", "package.train", "-o", "x"]
    code, out, err = run(tmp_path, FITSCOPE, "run", "-o", "b.run", "--", *command)
    assert (code, out) == (0, "['-o', 'x']\n"), err
    code, out, err = run(tmp_path, *command, env={"FITSCOPE": "c.run"})
    assert (code, out) == (0, "['-o', 'x']\n"), err
    for name in ("a.run", "b.run", "c.run"):
        found = report(tmp_path, name)
        assert found["regions"][0]["where"] == {"file": "package/train.py", "line": 12}
        assert found["ended"] == "completed"


def test_worker_processes_stay_quiet(tmp_path):
    script = (
        TRAIN
        + """
class Items(keras.utils.PyDataset):
    def __len__(self):
        return 20
    def __getitem__(self, index):
        return x[:32], y[:32]
if __name__ == "__main__":
    model.fit(Items(workers=2, use_multiprocessing=True), epochs=2, verbose=0)
"""
    )
    code, _, err = run(tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py", backend="torch", script=script)
    assert code == 0, err
    assert [path.name for path in tmp_path.glob("*.run")] == ["it.run"]
    assert report(tmp_path)["regions"][0]["workers"] == ["PyDataset: 2 worker processes"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_trainings_in_processes_of_their_own_are_recorded(tmp_path, method):
    script = (
        TRAIN
        + f"""
import multiprocessing
def fold(number):
    model.fit(x, y, epochs=number, verbose=0)
if __name__ == "__main__":
    processes = multiprocessing.get_context("{method}")
    for number in (2, 3):
        process = processes.Process(target=fold, args=(number,))
        process.start()
        process.join()
    print("done")
"""
    )
    code, out, err = run(tmp_path, FITSCOPE, "run", "-o", "it.run", "train.py", backend="torch", script=script)
    assert (code, out) == (0, "done\n"), err
    assert "fit  train.py" in err
    found = sorted(report(tmp_path, path.name)["regions"][0]["epochs"] for path in tmp_path.glob("*.run"))
    assert found == [2, 3]


def test_a_script_that_works_on_after_a_training_in_another_process_is_left_alone(tmp_path):
    (tmp_path / "train.py").write_text(FIT)
    launcher = (
        "import subprocess, sys, time\nsubprocess.run([sys.executable, 'train.py'])\ntime.sleep(13)\nprint('end')"
    )
    (tmp_path / "launcher.py").write_text(launcher)
    code, out, err = run(tmp_path, FITSCOPE, "run", "-o", "it.run", "launcher.py")
    assert (code, out) == (0, "end\n"), err
    assert report(tmp_path)["regions"][0]["call"] == "fit"
