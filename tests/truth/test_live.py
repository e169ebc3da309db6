"""The live line below Keras' real progress bar, in a real terminal."""

import re

import pytest
from scripts import TRAIN

from terminal import Terminal

FIT = (
    TRAIN
    + """
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.04)
model.fit(x, y, epochs=4, batch_size=16, validation_split=0.25, callbacks=[Slow()])
print("ready", flush=True)
"""
)
ROWS = 20


def shape(line):
    """A line of the progress bar without what the clock and the rounding decide."""
    return re.sub(r"\d+(\.\d+(e-\d+)?)?|[mµu]?s(?=[ /])", "#", line.rstrip())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    (folder / "train.py").write_text(FIT)
    return folder


def trained(folder, *words, watch=lambda window: None):
    window = Terminal(folder, words, rows=ROWS, KERAS_BACKEND="jax")
    while not window.shows("ready") and (window.read(0.5) or window.process.poll() is None):
        watch(window)
    shown = [shape(line) for line in window.screen.display if "/" in line]
    assert window.finish() == 0
    return shown


def test_keras_progress_bar_looks_the_same_with_the_line_below_it(folder):
    lines, elsewhere = set(), []

    def watch(window):
        lines.add(window.last)
        elsewhere.extend(line for line in window.above if "fitscope" in line)

    bare = trained(folder, "train.py")
    live = trained(folder, "-m", "fitscope", "run", "--live", "-o", "a.run", "train.py", watch=watch)
    assert len(bare) == 8
    assert [line for line in live if "callbacks" not in line] == bare
    assert elsewhere == []
    shares = [re.search(r"callbacks (\d+) %", line) for line in lines]
    assert any(found and int(found[1]) >= 20 for found in shares), lines
