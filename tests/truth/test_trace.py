"""A window on the backend's own profiler: the training computes the same, and the trace says what it waited for."""

import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fitscope.rules.rule import BACKENDS
from fitscope.trace import xspace

SCRIPT = """
import hashlib, time
import keras, numpy as np

keras.utils.set_random_seed(0)
x = np.random.default_rng(0).random((32, 64)).astype("float32")

class Slow(keras.utils.PyDataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        time.sleep(0.02)
        return x, x[:, :1]

class Waits(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.003)

model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(Slow(), epochs=3, verbose=0, callbacks=[Waits()])
print(hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights())).hexdigest())
"""


@pytest.fixture(scope="module", params=BACKENDS)
def traced(request, tmp_path_factory):
    """One training with a trace, and the same one without fitscope: (backend, folder, both)."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "train.py").write_text(SCRIPT)
    # One thread: on a busy machine torch's threads wait for one another longer than for the data.
    environment = {**os.environ, "KERAS_BACKEND": request.param, "OMP_NUM_THREADS": "1"}

    def call(*words):
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        return done

    bare = call(sys.executable, "train.py")
    ours = call(sys.executable, "-m", "fitscope", "run", "--trace", "-o", "kept.run", "train.py")
    shown = call(sys.executable, "-m", "fitscope", "show", "kept.run", "--json")
    return request.param, folder, bare, ours, json.loads(shown.stdout)


def test_weights_are_equal_to_the_bit_with_a_trace(traced):
    _, _, bare, ours, _ = traced
    assert len(bare.stdout.strip()) == hashlib.sha256().digest_size * 2
    assert ours.stdout == bare.stdout


def test_the_trace_lies_beside_the_run_and_is_read_in_its_report(traced):
    backend, folder, _, ours, report = traced
    name = "kept.pt.trace.json.gz" if backend == "torch" else "kept.xplane.pb"
    assert sorted(path.name for path in folder.iterdir()) == sorted(["train.py", "kept.run", name])
    assert f"fitscope trace {name}" in ours.stderr
    trace = report["trace"]
    assert Path(trace["file"]).name == name
    assert trace["devices"] == []
    assert any("no device in this trace" in note for note in trace["notes"])
    assert 20 <= trace["steps"] <= 50
    assert trace["operations"], "the operations on the CPU are listed"


def test_the_trace_alone_says_that_the_training_waits_for_data(traced):
    *_, report = traced
    trace = report["trace"]
    host = {spent["name"]: spent for spent in trace["host"]}
    assert host["data"]["share"] > 0.2, "on TensorFlow the callback and the step hide a part of the 20 ms"
    assert "loads data" in trace["verdict"]
    assert host["callback"]["seconds"] / trace["steps"] >= 0.003


def test_the_account_stays_whole_and_the_wait_is_in_it(traced):
    *_, report = traced
    (region,) = report["regions"]
    assert sum(part["seconds"] for part in region["parts"]) == pytest.approx(region["wall_seconds"], rel=1e-3)
    assert region["steps"] == 60


PROFILE_DATA = """
import json, sys
from jax.profiler import ProfileData

def total(line):
    events = list(line.events)
    start = min((event.start_ns for event in events), default=0)
    return [len(events), sum(event.duration_ns for event in events), start]

planes = ProfileData.from_file(sys.argv[1]).planes
print(json.dumps([[plane.name, [[line.name, *total(line)] for line in plane.lines]] for plane in planes]))
"""


def test_an_xspace_is_read_as_the_backends_own_reader_reads_it(tmp_path):
    recorded = Path(__file__).parents[1] / "unit" / "recorded"
    large = Path(__file__).parents[3] / "shared" / "traces" / "bert_8gpu.xplane.pb"
    files = [recorded / "jax_cpu.xplane.pb.gz", recorded / "tensorflow_cpu.xplane.pb.gz", large]
    for file in [file for file in files if file.exists()]:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        (tmp_path / "plain.pb").write_bytes(data)
        words = [sys.executable, "-c", PROFILE_DATA, str(tmp_path / "plain.pb")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-2000:]
        ours = [
            [plane.name, [[line.name, *_total(plane, line)] for line in plane.lines]] for plane in xspace.planes(data)
        ]
        theirs = json.loads(done.stdout)
        assert [(name, len(lines)) for name, lines in ours] == [(name, len(lines)) for name, lines in theirs]
        for (_, lines), (_, others) in zip(ours, theirs, strict=True):
            for line, other in zip(lines, others, strict=True):
                assert line[:2] == other[:2]
                assert line[2:] == pytest.approx(other[2:])


def _total(plane, line):
    events = list(plane.events(line))
    start = min((start for _, start, _, _ in events), default=0)
    return len(events), sum(long for _, _, long, _ in events) / 1000, start / 1000
