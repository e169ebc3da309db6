import sys
import types

import pytest
import shown_runs as runs

pytest.importorskip("tensorboard", reason="tensorboard is not installed")
import absl.flags  # noqa: F401 - puts a finder into sys.meta_path: before the tests look at that

from fitscope.report import to_tensorboard


def test_scalars_stand_at_the_steps_that_keras_counts(tmp_path):
    report = runs.full(tmp_path)
    found = list(to_tensorboard.scalars(report))
    epochs = [(each.step, each.value) for each in found if each.tag == "fitscope/fit train.py:40/seconds per epoch"]
    assert epochs == [(40, 24.0), (80, 24.0), (120, 24.0)]
    shares = [each.value for each in found if each.tag == "fitscope/fit train.py:40/share of data"]
    assert shares == [9 / 24] * 3
    steps = [each for each in found if each.tag == "fitscope/fit train.py:40/seconds per step"]
    assert [each.step for each in steps] == list(range(1, 121))
    assert steps[0].value == 6.5


def test_tensorboard_reads_what_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.compat.notf", types.ModuleType("notf"))  # read without TensorFlow
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    report = runs.full(tmp_path)
    number = to_tensorboard.write(report, tmp_path / "logs")
    read = EventAccumulator(str(tmp_path / "logs"), size_guidance={"scalars": 0, "tensors": 0})
    read.Reload()
    events = read.Scalars("fitscope/fit train.py:40/seconds per epoch")
    assert [(event.step, event.value) for event in events] == [(40, 24.0), (80, 24.0), (120, 24.0)]
    assert events[0].wall_time == pytest.approx(report.run.started + 30)
    assert sum(len(read.Scalars(tag)) for tag in read.Tags()["scalars"]) == number
