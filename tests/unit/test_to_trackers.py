import sys

import pytest
import shown_runs as runs

from fitscope.model import FitscopeError
from fitscope.report import to_trackers


def test_without_an_active_run_nothing_is_logged(tmp_path, monkeypatch):
    for tracker in ("mlflow", "wandb"):
        monkeypatch.delitem(sys.modules, tracker, raising=False)
    with pytest.raises(FitscopeError, match="no MLflow or W&B run is active"):
        to_trackers.log(runs.full(tmp_path))
    assert "mlflow" not in sys.modules
    assert "wandb" not in sys.modules
