import gc
import signal
import sys
import time

import pytest

from fitscope.observe import interrupts
from fitscope.observe.recorder import Recorder
from fitscope.observe.seams import Seams


@pytest.fixture
def collect():
    """Collects garbage while a signal arrives in a function that Python calls meanwhile, which is ours."""
    seams = Seams(Recorder())
    sent = []

    def ours(phase, info):
        if phase == "start" and sent:
            signal.raise_signal(sent.pop())

    def collect(number):
        sent.append(number)
        gc.collect()
        time.sleep(5)

    interrupts.rescue(seams, lambda function: function is ours)
    gc.callbacks.append(ours)
    yield collect
    gc.callbacks.remove(ours)
    seams.release()


def test_a_ctrl_c_reaches_the_users_code(collect):
    with pytest.raises(KeyboardInterrupt):
        collect(signal.SIGINT)


def test_what_a_handler_of_the_user_raises_reaches_the_users_code(collect):
    def leave(number, frame):
        raise SystemExit(7)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        with pytest.raises(SystemExit) as raised:
            collect(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert raised.value.code == 7


def test_other_exceptions_are_reported_as_ever(collect, monkeypatch):
    reported = []
    seams = Seams(Recorder())
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: reported.append(dropped.exc_type))

    class Dies:
        def __del__(self):
            raise KeyError

    def fails(phase, info):
        raise ValueError

    interrupts.rescue(seams, lambda function: function is fails)
    gc.callbacks.append(fails)
    try:
        gc.collect(0)
        Dies()
    finally:
        gc.callbacks.remove(fails)
        seams.release()
    assert reported == [ValueError, ValueError, KeyError]
