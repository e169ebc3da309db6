import numpy as np
import pytest

from fitscope.observe.workers import row_bytes


class Held:
    def __init__(self, **held):
        self.__dict__.update(held)


ROWS = np.zeros((10, 28), "float32")


@pytest.mark.parametrize(
    ("held", "size"),
    [
        ({"x": ROWS, "y": np.zeros(10, "int64"), "transform": None, "name": "train"}, 120),
        ({"parts": [ROWS, ROWS]}, 224),
        ({"x": ROWS, "scale": {"mean": 0.5, "std": (1, 2)}}, 112),
        ({"x": ROWS, "transform": str.upper}, None),
        ({"x": ROWS.view(np.memmap)}, None),
        ({"shards": [ROWS.view(np.memmap)]}, None),
        ({"x": ROWS, "files": [open]}, None),
        ({"names": ["a.png", "b.png"]}, None),
        ({}, None),
    ],
)
def test_a_row_has_a_size_if_all_is_arrays_in_memory(held, size):
    assert row_bytes(Held(**held)) == size
