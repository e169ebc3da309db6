import sys

import pytest
import shown_runs as runs

wandb = pytest.importorskip("wandb", reason="wandb is not installed")

from fitscope.report import to_trackers


@pytest.mark.filterwarnings("ignore::DeprecationWarning:wandb", "ignore::ResourceWarning")
def test_an_active_wandb_run_gets_a_summary(tmp_path, monkeypatch):
    """Offline, as on a machine without network: W&B keeps the run in a folder of its own."""
    for name in ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))  # W&B puts a finder of its own there, and leaves it
    report = runs.full(tmp_path)
    with wandb.init(project="fitscope-test", mode="offline", dir=tmp_path, settings={"console": "off"}) as run:
        assert to_trackers.log(report) == ["wandb"]
        kept = dict(run.summary)
    assert kept.pop("fitscope/causes") == "blocking-callback, blocking-callback"
    assert kept == pytest.approx(to_trackers.summary(report))
    assert next((tmp_path / "wandb").glob("offline-run-*/*.wandb")).stat().st_size > 0
