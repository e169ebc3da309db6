"""Causes that the source alone shows: paths in, unmeasured findings out."""

from __future__ import annotations

import difflib
import io
import json
import os
import re
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fitscope import settings, words
from fitscope.model import Finding, FitscopeError, Where
from fitscope.rules import CATALOG
from fitscope.rules.rule import FAMILIES, Hit, Rule
from fitscope.source import Script

NOT_ENTERED = frozenset({"__pycache__", "node_modules", "site-packages"})
ALLOW = re.compile(r"#\s*fitscope:\s*allow\b[\s:]*(.*)")
PYTHON_MAGICS = frozenset({"capture", "fitscope", "prun", "time", "timeit"})
"""Cell magics whose body is Python."""


@dataclass(frozen=True)
class Selection:
    """Which causes to look for: names, codes or families; all of them if none is selected."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def rules(self, rules: Sequence[Rule]) -> list[Rule]:
        """The rules that are selected and not ignored; raises FitscopeError for a name that means none."""
        chosen = {rule for name in self.select for rule in _meant(name, rules)} if self.select else set(rules)
        ignored = {rule for name in self.ignore for rule in _meant(name, rules)}
        return [rule for rule in rules if rule in chosen and rule not in ignored]


@dataclass(frozen=True)
class Linted:
    """What reading the sources gave."""

    findings: tuple[Finding, ...]
    problems: tuple[str, ...]
    """One line for each file that could not be read, or comment that means nothing."""
    files: int
    """How many files were read."""


def lint(paths: Sequence[Path], selection: Selection | None = None, rules: Sequence[Rule] = CATALOG) -> Linted:
    """Reads files and folders; raises FitscopeError if a path is missing or a name means nothing."""
    asked = selection or Selection()
    asked.rules(rules)
    configured: dict[Path, Selection] = {}
    findings: list[Finding] = []
    problems: list[str] = []
    read = 0
    for path in _files(paths):
        shown = words.path(path)
        try:
            text = _read(path)
            script = Script.parse(shown, text.text)
        except FitscopeError as error:
            problems.append(f"{shown}: {error}")
            continue
        read += 1
        problems += [f"{shown}: {problem}" for problem in text.problems]
        chosen = _configured(path, asked, rules, configured).rules(rules)
        allowed = _Allowed(script, rules)
        for line, problem in allowed.problems:
            where = text.where(shown, line)
            problems.append(f"{where.file}:{where.line}: {problem}")
        try:
            findings += _findings(script, text, chosen, allowed)
        except RecursionError:
            problems.append(f"{shown}: it is nested too deeply to be read")
    if not read and not problems:
        raise FitscopeError(f"there is no Python file in {', '.join(str(path) for path in paths)}.")
    return Linted(tuple(findings), tuple(problems), read)


# --- files -------------------------------------------------------------------------------------------------


def _files(paths: Sequence[Path]) -> Iterable[Path]:
    """The files to read: those named, and the scripts and notebooks of the folders, each once."""
    for path in paths:
        if not path.exists():
            raise FitscopeError(f"there is no file or folder {path}.")
    seen: set[Path] = set()
    for path in paths:
        for file in [path] if not path.is_dir() else _walk(path):
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def _walk(folder: Path) -> Iterable[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in NOT_ENTERED and not Path(place, name, "pyvenv.cfg").exists()
        )
        for name in sorted(names):
            if name.endswith((".py", ".ipynb")) and not name.startswith("."):
                yield Path(place, name)


@dataclass(frozen=True)
class _Text:
    """The Python of a file, and for a notebook which cell each line comes from."""

    text: str
    cells: tuple[tuple[int, int], ...] = ()
    """For each line its cell and its line there, both counted from 1; empty for a script."""
    problems: tuple[str, ...] = field(default=())

    def where(self, file: str, line: int) -> Where:
        """The place of a line as the user knows it."""
        if not self.cells:
            return Where(file, line)
        cell, inside = self.cells[min(line, len(self.cells)) - 1]
        return Where(f"{file}:cell {cell}", inside)


def _read(path: Path) -> _Text:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FitscopeError(f"it cannot be read: {(error.strerror or str(error)).lower()}.") from None
    if path.suffix == ".ipynb":
        return _notebook(content)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return _Text(content.decode(encoding))
    except SyntaxError as error:
        raise FitscopeError(f"its encoding is not known: {error.msg}.") from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FitscopeError(f"line {line} is not in the encoding of the file, {encoding}.") from None


def _notebook(content: bytes) -> _Text:
    """All code cells of a notebook as one script: a cell uses the names of those before it."""
    try:
        book = json.loads(content.decode("utf-8-sig"))
        cells = book.get("cells") or [cell for sheet in book.get("worksheets", ()) for cell in sheet.get("cells", ())]
        language = str(book.get("metadata", {}).get("kernelspec", {}).get("language", "python"))
        sources = [_source(cell) for cell in cells]
    except (ValueError, AttributeError, TypeError):
        raise FitscopeError("it is no notebook.") from None
    if language.lower() != "python":
        return _Text("")
    lines: list[str] = []
    origin: list[tuple[int, int]] = []
    problems: list[str] = []
    for number, source in enumerate(sources, 1):
        if source is None:
            continue
        text = _without_magics(source)
        try:
            Script.parse("", text)
        except FitscopeError as error:
            problems.append(f"cell {number}: {error}")
            continue
        for inside, line in enumerate(text.split("\n"), 1):
            lines.append(line)
            origin.append((number, inside))
    return _Text("\n".join(lines), tuple(origin) or ((1, 1),), tuple(problems))


def _source(cell: dict[str, Any]) -> str | None:
    """The text of a code cell; as IPython does, without the indentation of its first line."""
    if cell.get("cell_type") != "code":
        return None
    source = cell.get("source", cell.get("input", ""))
    text = source if isinstance(source, str) else "".join(source)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    return "\n".join(line.removeprefix(indent) for line in lines)


def _without_magics(text: str) -> str:
    """The Python of a cell: what IPython alone understands is put out of action, line by line."""
    try:
        Script.parse("", text)
        return text
    except FitscopeError:
        pass
    first = re.match(r"\s*%%(\w+)", text)
    if first and first[1] not in PYTHON_MAGICS:
        return ""
    lines = []
    continued = False
    for line in text.split("\n"):
        magic = re.match(r"(\s*)[%!?]", line) or re.match(r"(\s*)[^#'\"]*[\w\])]\?{1,2}\s*$", line)
        assigned = re.match(r"(\s*[\w., ]+=\s*)[%!]", line)
        python = f"{assigned[1]}None" if assigned else f"{magic[1]}pass" if magic else line
        lines.append("" if continued else python)
        continued = bool(continued or magic or assigned) and line.endswith("\\")
    return "\n".join(lines)


# --- what is wanted ----------------------------------------------------------------------------------------


def _meant(name: str, rules: Sequence[Rule]) -> list[Rule]:
    """The rules of a name, a code or a family."""
    wanted = name.strip().lower()
    found = [rule for rule in rules if wanted in (rule.name, rule.code.lower(), rule.family)]
    if not found and wanted not in FAMILIES:
        close = difflib.get_close_matches(wanted, [*FAMILIES, *(rule.name for rule in rules)], n=1)
        hint = f" Did you mean {close[0]}?" if close else " `fitscope explain` lists them all."
        raise FitscopeError(f"there is no cause {name!r}.{hint}")
    return found


def _configured(path: Path, asked: Selection, rules: Sequence[Rule], known: dict[Path, Selection]) -> Selection:
    """What the nearest pyproject.toml with a [tool.fitscope] says, and the command line on top of it."""
    folder = path.resolve().parent
    if folder not in known:
        said = next(
            filter(None, (_table(each / "pyproject.toml", rules) for each in (folder, *folder.parents))), None
        )
        said = said or Selection()
        known[folder] = Selection(asked.select or said.select, (*said.ignore, *asked.ignore))
    return known[folder]


def _table(path: Path, rules: Sequence[Rule]) -> Selection | None:
    """The [tool.fitscope] of a pyproject.toml, if there is one."""
    table = settings.read(path)
    if table is None:
        return None
    given = {}
    for key in ("select", "ignore"):
        names = table.get(key, []) if isinstance(table, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise FitscopeError(
                f'{words.path(path)}: [tool.fitscope] {key} is a list of names: {key} = ["sequential-map"].'
            )
        given[key] = tuple(names)
    selection = Selection(**given)
    try:
        selection.rules(rules)
    except FitscopeError as error:
        raise FitscopeError(f"{words.path(path)}: {error}") from None
    return selection


class _Allowed:
    """The comments `# fitscope: allow NAME` of a script."""

    def __init__(self, script: Script, rules: Sequence[Rule]) -> None:
        self.problems: list[tuple[int, str]] = []
        self._names: dict[int, set[str]] = {}
        self._script = script
        if "fitscope:" not in script.text:
            return
        try:
            for token in tokenize.generate_tokens(io.StringIO(script.text).readline):
                said = ALLOW.match(token.string) if token.type == tokenize.COMMENT else None
                if said is not None:
                    self._note(said[1], token.start[0], rules)
        except (tokenize.TokenError, SyntaxError):
            pass

    def _note(self, names: str, line: int, rules: Sequence[Rule]) -> None:
        for name in filter(None, re.split(r"[,\s]+", names)):
            try:
                self._names.setdefault(line, set()).update(rule.name for rule in _meant(name, rules))
            except FitscopeError as error:
                self.problems.append((line, str(error)))
        if not names.strip():
            self.problems.append((line, "say which cause to allow: # fitscope: allow NAME"))

    def __call__(self, rule: Rule, line: int) -> bool:
        """Whether a finding is allowed by a comment in its statement, or by one alone on the line above."""
        if not self._names:
            return False
        first, last = self._script.statement_at(line)
        above = [first - 1] if self._script.line(first - 1).startswith("#") else []
        return any(rule.name in self._names.get(number, ()) for number in (*above, line, *range(first, last + 1)))


# --- findings ----------------------------------------------------------------------------------------------


def _findings(script: Script, text: _Text, rules: Iterable[Rule], allowed: _Allowed) -> list[Finding]:
    if not script.trains:
        return []
    hits: dict[tuple[int, str], tuple[Rule, Hit]] = {}
    for rule in rules:
        for hit in rule.lint(script):
            if not allowed(rule, hit.line):
                hits.setdefault((hit.line, rule.code), (rule, hit))
    return [_finding(script, text, rule, hit) for _, (rule, hit) in sorted(hits.items(), key=lambda item: item[0])]


def _finding(script: Script, text: _Text, rule: Rule, hit: Hit) -> Finding:
    measure = "%%fitscope in its cell" if text.cells else f"fitscope run {script.path}"
    return Finding(
        code=rule.code,
        name=rule.name,
        family=rule.family,
        says=f"{hit.says.removesuffix('.')} (unmeasured: {measure} shows what it costs)",
        where=text.where(script.path, hit.line),
        evidence=(),
        estimated=None,
        remedy=hit.remedy,
        fixable=rule.fixable,
    )
