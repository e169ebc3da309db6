"""A summary of the report in the MLflow or W&B run that is active in this process.

Only packages that the program itself has imported are used, and only when it is asked for: nothing leaves the machine
unless the user's own tracker sends it.
"""

from __future__ import annotations

import sys
from typing import Any

from fitscope.model import FitscopeError, Report


def summary(report: Report) -> dict[str, float]:
    """The report as a few numbers: the dearest region's steps and shares, and what the first finding may gain."""
    account = report.account
    found = {"fitscope/wall_seconds": report.run.wall_seconds, "fitscope/findings": float(len(report.findings))}
    if account.regions:
        region = account.regions[0]
        found["fitscope/training_seconds"] = region.wall_seconds
        if region.step_seconds is not None:
            found["fitscope/step_seconds_median"] = region.step_seconds.median
            found["fitscope/step_seconds_p95"] = region.step_seconds.p95
        for phase in region.phases:
            found[f"fitscope/share_{phase.phase}"] = phase.share
    if report.findings and report.findings[0].estimated is not None:
        found["fitscope/estimated_speedup_low"] = report.findings[0].estimated.low
        found["fitscope/estimated_speedup_high"] = report.findings[0].estimated.high
    return found


def log(report: Report) -> list[str]:
    """Adds the summary to every active run; the names of the trackers that have one."""
    causes = ", ".join(finding.name for finding in report.findings) or "none"
    found = []
    mlflow: Any = sys.modules.get("mlflow")
    if mlflow is not None and mlflow.active_run() is not None:
        mlflow.log_metrics(summary(report))
        mlflow.set_tag("fitscope.causes", causes)
        found.append("mlflow")
    wandb: Any = sys.modules.get("wandb")
    if wandb is not None and getattr(wandb, "run", None) is not None:
        wandb.run.summary.update({**summary(report), "fitscope/causes": causes})
        found.append("wandb")
    if not found:
        raise FitscopeError("no MLflow or W&B run is active in this program: start one, then log to it.")
    return found
