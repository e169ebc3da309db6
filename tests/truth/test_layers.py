"""What each layer costs in a real step, on every backend: nested, shared and subclassed, and the parts add up."""

import json
import os
import subprocess
import sys

import pytest

from fitscope.rules.rule import BACKENDS

SCRIPT = """
import os, sys
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras, numpy as np
from keras import layers

class Block(layers.Layer):
    def __init__(self, **more):
        super().__init__(**more)
        self.attend = layers.MultiHeadAttention(2, 16, name="attend")
        self.norm = layers.LayerNormalization(name="norm")

    def call(self, values):
        return self.norm(values + self.attend(values, values))

class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.block = Block(name="block")
        self.shared = layers.Dense(32, name="shared")
        self.head = keras.Sequential([layers.Flatten(), layers.Dense(2048, activation="relu", name="wide"),
                                      layers.Dense(2048, name="wider"), layers.Dense(1, name="last")], name="head")

    def call(self, values):
        return self.head(self.shared(self.shared(self.block(values))))

open("written.txt", "w").write("by the script")
x = np.random.default_rng(0).random((256, 20, 32)).astype("float32")
model = Net()
model.compile("adam", "mse")
model.fit(x, x[:, 0, :1], batch_size=64, epochs=int(sys.argv[1]), verbose=0)
print("not reached")
"""
BATCH, PLACES, SIZE = 64, 20, 32


@pytest.fixture(scope="module", params=BACKENDS)
def account(request, tmp_path_factory):
    """The account of a training, as JSON, and the folder it was made in."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "train.py").write_text(SCRIPT)
    # One thread: on a busy machine torch's threads wait for one another longer than they compute.
    environment = {**os.environ, "KERAS_BACKEND": request.param, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "fitscope", "layers", "--json", "--budget", "4s", "train.py", "3"]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout), folder


def test_the_layers_of_a_step_add_up_and_the_dear_one_is_first(account):
    value, folder = account
    found = {cost["name"]: cost for cost in value["layers"]}
    assert {"block/attend", "block/norm", "shared", "head/wide", "head/wider", "head/last"} <= set(found)
    assert sum(cost["seconds"] for cost in value["layers"]) == pytest.approx(value["step_seconds"], rel=0.01)
    assert value["layers"][0]["name"] == "head/wider"
    dear = found["head/wider"]
    assert dear["forward_seconds"] > 0
    assert dear["backward_seconds"] > 0
    assert dear["update_seconds"] > 0
    assert dear["parameters"] == 2048 * 2048 + 2048
    assert dear["activation_bytes"] == BATCH * 2048 * 4
    assert found["shared"]["calls"] == 2
    by_hand = {
        "head/wider": 2 * BATCH * 2048 * 2048,
        "head/wide": 2 * BATCH * PLACES * SIZE * 2048,
        "shared": 2 * (2 * BATCH * PLACES * SIZE * SIZE),
        "block/attend": 4 * (2 * BATCH * PLACES * SIZE * 32) + 2 * (2 * BATCH * 2 * PLACES * PLACES * 16),
        "block/norm": 0,
    }
    assert {name: found[name]["forward_flops"] for name in by_hand} == by_hand
    assert dear["flops"] == 3 * by_hand["head/wider"]
    # The script ran in a copy of its folder, and what was measured is kept.
    assert {path.name for path in folder.iterdir()} == {"train.py", ".fitscope"}
    assert len(list((folder / ".fitscope").glob("*.layers"))) == 1
