"""From findings to edits: what to change in a script, as a diff, and the changed files."""

from __future__ import annotations

import ast
import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fitscope import store
from fitscope.account import account
from fitscope.diagnose import FEW_SECONDS, diagnose
from fitscope.fixes import BY_CAUSE
from fitscope.fixes.draft import Unsure
from fitscope.fixes.kind import Place, Project
from fitscope.fixes.text import Text
from fitscope.lint import lint
from fitscope.model import Advice, Edit, Finding, FitscopeError, Replacement, Run


@dataclass(frozen=True)
class Fixes:
    """What can be done about the findings of a script."""

    project: Project
    findings: tuple[Finding, ...]
    edits: tuple[Edit, ...]
    advice: tuple[Advice, ...]


# --- findings ----------------------------------------------------------------------------------------------


def find_run(script: Path, arguments: Sequence[str] = (), folder: Path = Path(store.FOLDER)) -> Run | None:
    """The last recorded run of a script that has not been changed since; one with these arguments is preferred."""
    if not folder.is_dir():
        return None
    fitting: list[Run] = []
    for _, run in store.runs(folder):
        path = Path(run.cwd, run.script)
        with contextlib.suppress(OSError):
            if path.samefile(script) and _unchanged(run, script) and _trained(run):
                fitting.append(run)
    same = [run for run in fitting if list(run.argv) == list(arguments)]
    return next(reversed(same or fitting), None)


def _trained(run: Run) -> bool:
    """Whether a run trained for long enough to have findings."""
    return sum(region.wall_seconds for region in account(run).regions) >= FEW_SECONDS


def _unchanged(run: Run, script: Path) -> bool:
    """Whether no file of the user's that a run went through has been written since it began."""
    files = {node.where.file for node in run.nodes.values() if node.where is not None}
    paths = [script, *(Path(run.cwd, file) for file in files if not Path(file).is_absolute())]
    return all(path.stat().st_mtime <= run.started for path in paths if path.exists())


def findings_of(project: Project) -> tuple[Finding, ...]:
    """The findings of the recorded run, and other places of the same causes; without a run, what the source shows."""
    linted = lint([text.path for text in project.texts()]).findings
    if project.run is None:
        return linted
    measured = diagnose(project.run, account(project.run)).findings
    names = {finding.name for finding in measured}
    return (*measured, *(finding for finding in linted if finding.name in names))


# --- edits -------------------------------------------------------------------------------------------------


def fixes(project: Project, findings: Iterable[Finding], *, unsafe: bool = False) -> Fixes:
    """For each finding an edit, or why there is none; `unsafe`: one that may change results is asked for, too."""
    findings = tuple(findings)
    edits: list[Edit] = []
    advice: list[Advice] = []
    for finding in findings:
        found = _edit(project, finding, unsafe=unsafe)
        if isinstance(found, Advice):
            advice.append(found)
        elif not any(_same(found, each) for each in edits):
            edits.append(found)
    # A place that an edit was found for needs no advice, and a cause needs it once.
    kept: dict[tuple[str, str], Advice] = {}
    for each in advice:
        if not any(edit.finding.name == each.finding.name and not each.finding.evidence for edit in edits):
            kept.setdefault((each.finding.name, each.why), each)
    return Fixes(project, findings, tuple(edits), tuple(kept.values()))


def _edit(project: Project, finding: Finding, *, unsafe: bool) -> Edit | Advice:
    if finding.name not in BY_CAUSE:
        return Advice(finding, "")
    if finding.where is None:
        return Advice(finding, "the run does not show which line it comes from")
    # The linter names files from the working folder, a run from the folder that it was started in.
    folder = project.run.cwd if project.run is not None and finding.evidence else Path.cwd()
    path = Path(folder, finding.where.file)
    if path.suffix != ".py" or not path.is_file():
        return Advice(finding, f"{finding.where.file} is no script that fitscope could change")
    if "site-packages" in path.parts:
        return Advice(finding, f"{finding.where.file} belongs to an installed package")
    reasons: dict[bool, str] = {}
    risky: Edit | None = None
    for kind in BY_CAUSE[finding.name]:
        try:
            place = Place(finding, project, project.text(path), unsafe)
            edit = kind.edit(place)
            place.project.text(edit.file).changed(edit.replacements)
            if edit.safe or unsafe:
                return edit
            risky = risky or edit  # another kind may be safe
        except (Unsure, FitscopeError) as error:
            reasons[kind.aside] = str(error).removesuffix(".")
    if risky is not None:
        return risky
    return Advice(finding, reasons[False] if False in reasons else reasons[True])


def _same(one: Edit, other: Edit) -> bool:
    return one.file == other.file and set(one.replacements) == set(other.replacements)


# --- changed files -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Applied:
    """Files with edits made to them."""

    before: tuple[Text, ...]
    after: tuple[Text, ...]
    edits: tuple[Edit, ...]
    left_out: tuple[tuple[Edit, str], ...]
    """Edits that could not be made together with the others, and why."""

    def diff(self) -> bytes:
        """All changes as one unified diff."""
        return b"".join(before.diff(after) for before, after in zip(self.before, self.after, strict=True))


def apply(project: Project, edits: Iterable[Edit]) -> Applied:
    """Makes as many of the edits as go together, in their order; nothing is written."""
    taken: dict[str, list[Edit]] = {}
    left_out: list[tuple[Edit, str]] = []
    for edit in edits:
        others = taken.setdefault(edit.file, [])
        text = project.text(edit.file)
        if any(
            _collide(change, other) for each in others for change in edit.replacements for other in each.replacements
        ):
            left_out.append((edit, "it would change the same place as another edit"))
            continue
        try:
            _with(text, [*others, edit])
        except FitscopeError:
            left_out.append((edit, "the result would be no Python"))
            continue
        others.append(edit)
    chosen = {file: found for file, found in taken.items() if found}
    before = tuple(project.text(file) for file in chosen)
    after = tuple(_with(project.text(file), found) for file, found in chosen.items())
    return Applied(before, after, tuple(edit for found in chosen.values() for edit in found), tuple(left_out))


def _collide(one: Replacement, other: Replacement) -> bool:
    if one.start == one.end and other.start == other.end:
        return one.start == other.start
    return one.start < other.end and other.start < one.end


def _with(text: Text, edits: list[Edit]) -> Text:
    changes = [change for edit in edits for change in edit.replacements]
    lines = dict.fromkeys(line for edit in edits for line in edit.imports)
    first = min((change.start for change in changes), default=0)
    if lines:
        changes.insert(0, _import(text, list(lines), first))
    return text.changed(changes)


def _import(text: Text, lines: list[str], first: int) -> Replacement:
    """Where new imports go: behind the last import at the top, else behind docstring and `from __future__`."""
    last: ast.stmt | None = None
    for index, node in enumerate(text.script.tree.body):
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if text.start(node) > first or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            break
        if docstring or isinstance(node, ast.Import | ast.ImportFrom):
            last = node
    written = "".join(f"{line}\n" for line in lines)
    if last is not None:
        end = text.script.text.find("\n", text.end(last))
        if end < 0:
            return Replacement(len(text.script.text), len(text.script.text), f"\n{written.removesuffix(chr(10))}")
        return Replacement(end + 1, end + 1, written)
    number = 1
    while text.script.line(number).startswith("#"):
        number += 1
    start = text.line_start(min(number, len(text.script.lines)))
    return Replacement(start, start, written)


def write(applied: Applied) -> None:
    """Writes the changed files, each at once and with the mode it had; raises FitscopeError where it cannot."""
    for before in applied.before:
        path = before.path
        if not os.access(path, os.W_OK):
            raise FitscopeError(f"{before.name} cannot be written: you have no permission to change it.")
        if path.read_bytes() != before.encoded():
            raise FitscopeError(f"{before.name} was changed meanwhile: run fitscope fix again.")
    for before, after in zip(applied.before, applied.after, strict=True):
        try:
            _replace(before.path, after.encoded())
        except OSError as error:
            raise FitscopeError(
                f"{before.name} cannot be written: {(error.strerror or str(error)).lower()}."
            ) from None


def _replace(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(name, stat.S_IMODE(path.stat().st_mode))  # noqa: PTH101
        os.replace(name, path)  # noqa: PTH105
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise
