"""A run in a notebook: a real one is executed, and what it shows is opened in the browser."""

import nbformat
import pytest
from nbclient import NotebookClient

FIRST = """
import os
os.environ["KERAS_BACKEND"] = "jax"
import keras, numpy as np, time
import fitscope

class Waits(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)

model = keras.Sequential([keras.layers.Dense(2)])
model.compile("sgd", "mse")
x, y = np.zeros((640, 4)), np.zeros((640, 2))
"""
PROFILED = """
with fitscope.profile() as run:
    model.fit(x, y, epochs=3, verbose=0, callbacks=[Waits()])
run
"""
MAGIC = "%%fitscope\nhistory = model.fit(x, y, epochs=3, verbose=0, callbacks=[Waits()])"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What the two cells that train show."""
    folder = tmp_path_factory.mktemp("notebook")
    cells = [nbformat.v4.new_code_cell(text) for text in (FIRST, PROFILED, "%load_ext fitscope", MAGIC)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return [
        [output["data"] for output in cell.outputs if output.output_type in ("display_data", "execute_result")]
        for cell in (cells[1], cells[3])
    ]


@pytest.mark.parametrize("cell", [0, 1], ids=["fitscope.profile", "the cell magic"])
def test_a_run_shows_itself_as_a_page_in_a_frame_of_its_own(outputs, open_page, cell):
    (data,) = outputs[cell]
    assert "blocking-callback" in data["text/plain"]
    page = open_page(f"<!doctype html><title>notebook</title><body>{data['text/html']}</body>")
    frame = page.frame_locator("iframe")
    assert "Waits.on_train_batch_end" in frame.locator("h1").inner_text()
    assert frame.locator("h1").is_visible()
    assert page.locator("iframe").get_attribute("sandbox") == ""
    assert frame.locator(".epoch-row").count() == 3
    step = frame.locator("#r0-step")
    assert not step.locator(".inner").is_visible()
    step.locator("summary").click()
    assert step.locator(".inner").is_visible()
    # A link inside the frame stays in it: the address of a notebook must not be opened there.
    frame.locator(".legend a").first.click()
    assert "Waits.on_train_batch_end" in frame.locator("h1").inner_text()
    assert page.locator("iframe").evaluate("each => each.getBoundingClientRect().height") >= 600
