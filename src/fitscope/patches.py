"""The edit for each finding of a report, as far as there is one: for forms that people read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fitscope import fix
from fitscope.fixes.kind import Project
from fitscope.model import Finding, Patch, Report


def with_patches(report: Report) -> Report:
    """The same report, its findings with the edits that remove their causes; the source has to be as it was."""
    run = report.run
    project = Project(Path(run.cwd, run.script), run, Path(run.cwd))
    return replace(report, findings=tuple(_with_patch(project, finding) for finding in report.findings))


def _with_patch(project: Project, finding: Finding) -> Finding:
    if finding.where is None or project.run is None or finding.patch is not None:
        return finding
    path = Path(project.run.cwd, finding.where.file)
    try:
        if not path.is_file() or path.stat().st_mtime > project.run.started:
            return finding
        edits = fix.fixes(project, [finding]).edits[:1]
        diff = fix.apply(project, edits).diff().decode("utf-8", "replace")
    except Exception:  # an edit is an extra: a mistake in it must not cost the user the report
        return finding
    return replace(finding, patch=Patch(diff, edits[0].unsafe)) if diff else finding
