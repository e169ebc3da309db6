"""A clock that the test owns, a recorder of its own, and the proof that nothing of ours stays behind."""

import sys
import threading

import pytest
from made import Clock

from fitscope.observe import ledger, recorder, runfile, stepping


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    for module in (ledger, recorder, runfile, stepping):
        if hasattr(module, "clock"):
            monkeypatch.setattr(module, "clock", fake)
    return fake


@pytest.fixture
def recording(clock):
    """A recorder that is not the process' own."""
    return recorder.Recorder()


@pytest.fixture(autouse=True)
def the_instrument_is_out_again():
    finders = list(sys.meta_path)
    yield
    assert sys.meta_path == finders
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fitscope")]
