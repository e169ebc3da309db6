import pytest

from fitscope.observe import calibrate, ledger


@pytest.fixture
def counted(monkeypatch):
    """A clock that goes on by a microsecond whenever somebody looks at it."""
    looks = iter(range(0, 10**12, 1000))
    for module in (ledger, calibrate):
        monkeypatch.setattr(module, "clock", lambda: next(looks))


def test_a_passage_is_what_the_seam_adds_to_a_call(counted):
    assert calibrate.passage_seconds() == 2e-6


def test_the_calibration_holds_nothing_afterwards(counted):
    before = dict(vars(calibrate._Held))
    calibrate.passage_seconds()
    assert dict(vars(calibrate._Held)) == before


def test_a_passage_never_takes_less_than_no_time(monkeypatch):
    looks = iter([0, 50, 100, 120])  # the bare calls took longer than the held ones
    monkeypatch.setattr(calibrate, "clock", lambda: next(looks))
    assert calibrate.passage_seconds() == 0
