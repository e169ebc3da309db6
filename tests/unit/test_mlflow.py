import pytest
import shown_runs as runs

mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")

from fitscope.model import FitscopeError
from fitscope.report import to_trackers


def test_an_active_mlflow_run_gets_a_summary(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "tracked").as_uri())
    report = runs.full(tmp_path)
    with mlflow.start_run() as run:
        assert to_trackers.log(report) == ["mlflow"]
    kept = mlflow.get_run(run.info.run_id).data
    assert kept.metrics == pytest.approx(to_trackers.summary(report))
    assert kept.metrics["fitscope/training_seconds"] == 89.5
    assert kept.tags["fitscope.causes"] == "blocking-callback, blocking-callback"
    with pytest.raises(FitscopeError):
        to_trackers.log(report)
