"""Tests marked `shared` hardly depend on the backend: each runs on one of them, unless FITSCOPE_THOROUGH is set."""

import itertools
import os
import random
import sys

import pytest

BACKENDS = ("tensorflow", "jax", "torch")


def pytest_collection_modifyitems(config, items):
    backend = os.environ.get("KERAS_BACKEND")
    if os.environ.get("FITSCOPE_THOROUGH") or backend not in BACKENDS:
        return
    turns = itertools.cycle(BACKENDS)
    kept, left = [], []
    for item in items:
        is_shared = item.get_closest_marker("shared") and not item.get_closest_marker("skipif")
        (left if is_shared and next(turns) != backend else kept).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.fixture(autouse=True)
def no_seed_stays():
    """A test that seeds random numbers does so for itself: TensorFlow would seed every later pipeline, too."""
    yield
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].random.set_seed(None)
