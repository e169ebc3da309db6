"""What all tests share: after each, nothing of fitscope may be left in the libraries it held."""

import pytest


@pytest.fixture(autouse=True)
def nothing_stays_held():
    yield
    from fitscope.observe.observer import observer
    from fitscope.observe.recorder import recorder

    assert observer.seams.held == []
    assert not [thread for thread in _threads() if thread.name.startswith("fitscope")]
    recorder.ticks.clear()


def _threads():
    import threading

    return threading.enumerate()
