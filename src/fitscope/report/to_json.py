"""The report as JSON: the form that programs read."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from fitscope.model import SCHEMA, Finding, Line, Part, Region, Report, Stage, Where
from fitscope.report.layers import layers_value
from fitscope.report.timeline import timeline_value


def to_json(report: Report) -> str:
    """The whole report."""
    return json.dumps(report_value(report), indent=1)


def report_value(report: Report) -> dict[str, Any]:
    """The whole report as a value."""
    run, account = report.run, report.account
    return {
        "schema": SCHEMA,
        "fitscope": run.version,
        "script": run.script,
        "argv": list(run.argv),
        "backend": run.backend,
        "versions": run.versions,
        "machine": {**run.machine, "use": asdict(account.use) if account.use else {}},
        "started": run.started,
        "git": run.git,
        "ended": run.ended,
        "exit_code": run.exit_code,
        "wall_seconds": run.wall_seconds,
        "outside_seconds": account.outside_seconds,
        "overhead": {"seconds": account.overhead_seconds, "share": account.overhead_share},
        "notes": list(account.notes),
        "regions": [_region(region) for region in account.regions],
        "findings": [finding_value(finding) for finding in report.findings],
        "doubts": list(report.doubts),
        "lines": [{**vars(cost), "where": _where(cost.where)} for cost in account.lines],
        "trace": timeline_value(report.trace) if report.trace is not None else None,
        "layers": layers_value(report.layers) if report.layers is not None else None,
    }


def finding_value(finding: Finding) -> dict[str, Any]:
    """One finding as a value."""
    value = {**asdict(finding), "where": _where(finding.where)}
    del value["removal"]  # what an experiment would do is no result
    return value


def _region(region: Region) -> dict[str, Any]:
    return {
        "call": region.call,
        "where": _where(region.where),
        "calls": region.calls,
        "wall_seconds": region.wall_seconds,
        "steps": region.steps,
        "epochs": region.epochs,
        "step_seconds": {
            "median": region.step_seconds.median if region.step_seconds else None,
            "p95": region.step_seconds.p95 if region.step_seconds else None,
        },
        "parts": [_part(part) for part in region.parts],
        "phases": [{"phase": part.phase, "seconds": part.seconds, "share": part.share} for part in region.phases],
        "course": asdict(region.course),
        "stages": [_stage(stage) for stage in region.stages],
        "pipeline": [_stage(stage) for stage in region.pipeline],
        "compiles": [{**vars(item), "where": _where(item.where)} for item in region.compiles],
        "inside": [{**vars(item), "where": _where(item.where)} for item in region.inside],
        "first_waits": vars(region.first_waits),
        "forced_sync": list(region.forced_sync),
        "workers": list(region.workers),
        "threads": [_line(line) for line in region.threads],
        "notes": list(region.notes),
    }


def _part(part: Part) -> dict[str, Any]:
    value: dict[str, Any] = {
        "phase": part.phase,
        "name": part.name,
        "where": _where(part.where),
        "seconds": part.seconds,
        "share": part.share,
        "count": part.count,
    }
    if part.lines:
        value["lines"] = [_line(line) for line in part.lines]
    if part.inner:
        value["inner"] = [_part(inner) for inner in part.inner]
    return value


def _stage(stage: Stage) -> dict[str, Any]:
    return {**vars(stage), "where": _where(stage.where)}


def _line(line: Line) -> dict[str, Any]:
    return {
        "where": _where(line.where),
        "function": line.function,
        "samples": line.samples,
        "share": line.share,
        "doing": line.doing,
    }


def _where(where: Where | None) -> dict[str, Any] | None:
    return {"file": where.file, "line": where.line} if where is not None else None
