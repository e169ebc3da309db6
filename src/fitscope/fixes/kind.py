"""What a kind of edit is, and what it is given: a finding, the scripts around it, and what the run knew."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from fitscope.account import account
from fitscope.effects import is_shared
from fitscope.fixes.draft import Draft, Unsure
from fitscope.fixes.text import Text
from fitscope.model import Called, Edit, Finding, FitscopeError, Run, Where
from fitscope.names import Function
from fitscope.source import Script


@dataclass(frozen=True)
class Recompiled:
    """What a run tells of a step that was compiled again for other shapes."""

    longest: int
    """Of the sizes that changed."""
    compiling: float
    """Seconds of compiling, for one shape."""
    steps: float
    """Seconds of all steps."""


@dataclass
class Project:
    """A script and the modules of the user's that belong to it."""

    main: Path
    run: Run | None = None
    here: Path = field(default_factory=Path.cwd)
    _texts: dict[Path, Text] = field(default_factory=dict)

    def text(self, file: str | Path) -> Text:
        """A file of the project; raises FitscopeError if it cannot be read."""
        path = Path(self.here, file).resolve()
        if path not in self._texts:
            shown = path.relative_to(self.here.resolve()) if path.is_relative_to(self.here.resolve()) else path
            self._texts[path] = Text.read(path, shown.as_posix())
        return self._texts[path]

    def texts(self) -> list[Text]:
        """The script and the modules beside it that it imports, directly or not."""
        found: dict[Path, Text] = {}
        waiting = [self.text(self.main)]
        while waiting:
            text = waiting.pop(0)
            if text.path in found:
                continue
            found[text.path] = text
            for path in _imported(text, Path(self.here, self.main).resolve().parent):
                try:
                    waiting.append(self.text(path))
                except FitscopeError:
                    continue
        return list(found.values())

    @property
    def backend(self) -> str | None:
        """The Keras backend: that of the run, else the one that the script or the environment chooses."""
        if self.run is not None and self.run.backend is not None:
            return self.run.backend
        chosen = [text.script.backend for text in self.texts()]
        return next((name for name in chosen if name is not None), os.environ.get("KERAS_BACKEND"))

    def epochs(self, where: Where | None) -> int | None:
        """How many epochs each fit at a line went on for in the recorded run."""
        _, called = self._called("fit", where)
        return called.epochs // called.calls if called is not None and called.calls else None

    def batch_size(self, where: Where | None) -> int | None:
        """How many rows a batch of the fit at a line had in the recorded run."""
        root, called = self._called("fit", where)
        facts = self.run.facts if self.run is not None and called is not None else ()
        sizes = [fact.get("batch_size") for fact in facts if fact["fact"] == "settings" and fact.get("root") == root]
        return next((size for size in sizes if isinstance(size, int)), None)

    def calls(self, call: str, where: Where | None) -> int:
        """How often fit or predict was called at a line in the recorded run."""
        _, called = self._called(call, where)
        return called.calls if called is not None else 0

    def one_batch_each(self, call: str, where: Where | None) -> bool:
        """Whether every call of fit or predict at a line took one batch, made of arrays, in the recorded run."""
        _, called = self._called(call, where)
        if called is None or not self.on_arrays(call, where):
            return False
        return called.calls == called.steps > 0 and called.epochs <= called.calls

    def few_batches_each(self, call: str, where: Where | None, most: int) -> bool:
        """Whether the calls at a line took a few batches each, made of arrays, in the recorded run."""
        _, called = self._called(call, where)
        return called is not None and 0 < called.steps <= most * called.calls and self.on_arrays(call, where)

    def one_step_epochs(self, where: Where | None) -> bool:
        """Whether every epoch of every fit at a line was one batch, made of arrays, in the recorded run."""
        _, called = self._called("fit", where)
        return called is not None and called.epochs == called.steps > 0 and self.on_arrays("fit", where)

    def recompiled(self) -> Recompiled | None:
        """What the recorded run knows of compiling for other shapes."""
        for region in account(self.run).regions if self.run is not None else ():
            for each in region.compiles:
                sizes = changed_sizes(each.detail) if each.cause == "changed shape" else []
                if sizes and region.step_seconds is not None:
                    steps = region.steps * region.step_seconds.median
                    return Recompiled(max(sizes), each.seconds / each.count, steps)
        return None

    def on_arrays(self, call: str, where: Where | None) -> bool:
        """Whether the calls at a line worked on arrays in the recorded run."""
        root, called = self._called(call, where)
        if self.run is None or called is None:
            return False
        below = {each.name for each in self.run.nodes.values() if each.parent == root and each.phase == "data"}
        return below == {"arrays"}

    def _called(self, call: str, where: Where | None) -> tuple[int, Called | None]:
        """What the recorded run knows of the calls at a line."""
        for root, called in self.run.called.items() if self.run is not None else ():
            node = self.run.nodes[root] if self.run is not None else None
            if node is not None and node.name == call and node.where == where:
                return root, called
        return 0, None


def changed_sizes(detail: str) -> list[int]:
    """The numbers that are others in `((16, 43), (16,)) -> ((16, 39), (16,))`."""
    shapes = [[int(number) for number in re.findall(r"\d+", side)] for side in detail.split("->")]
    if len(shapes) != 2 or len(shapes[0]) != len(shapes[1]):
        return []
    return [size for pair in zip(*shapes, strict=True) if pair[0] != pair[1] for size in pair]


def _imported(text: Text, folder: Path) -> Iterator[Path]:
    """The files beside the script that a file imports."""
    for node in ast.walk(text.script.tree):
        names: list[str] = []
        base = folder
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = text.path.parents[min(node.level, len(text.path.parents)) - 1]
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}".strip(".") for alias in node.names)]
        for name in filter(None, names):
            stem = base.joinpath(*name.split("."))
            for path in (stem.with_suffix(".py"), stem / "__init__.py"):
                if path.is_file():
                    yield path.resolve()


@dataclass(frozen=True)
class Place:
    """A finding in the script that it points into."""

    finding: Finding
    project: Project
    text: Text
    unsafe: bool = False
    """Whether an edit that may change results is welcome."""

    @property
    def script(self) -> Script:
        """The script that the finding points into."""
        return self.text.script

    @property
    def line(self) -> int:
        """The line that it points at."""
        return self.finding.where.line if self.finding.where is not None else 0

    def draft(self, text: Text | None = None) -> Draft:
        """A new draft of changes to the file of the finding, or to another one."""
        return Draft(text or self.text)

    def edit(self, draft: Draft, does: str, unsafe: str = "") -> Edit:
        """The finished edit."""
        imports = tuple(dict.fromkeys(draft.imports))
        return Edit(self.finding, draft.text.name, tuple(draft.replacements), does, unsafe, imports)

    def calls(self) -> list[ast.Call]:
        """The calls whose name stands on the finding's line; else those of the statement around it."""
        on_line = [call for call in self.script.calls if (call.func.end_lineno or call.lineno) == self.line]
        first, last = self.script.statement_at(self.line)
        around = [call for call in self.script.calls if first <= call.lineno and (call.end_lineno or 0) <= last]
        return on_line + [call for call in around if call not in on_line]

    def function(self) -> Function | None:
        """The innermost function, lambdas apart, that the finding's line stands in."""
        inside = [
            each
            for each in self.script.functions
            if not isinstance(each, ast.Lambda) and _first(each) <= self.line <= (each.end_lineno or 0)
        ]
        return max(inside, key=lambda each: each.lineno, default=None)

    def owner(self) -> ast.ClassDef | None:
        """The innermost class that the finding's line stands in."""
        inside = [
            each for each in self.script.classes if _first(each) <= self.line <= (each.end_lineno or each.lineno)
        ]
        return max(inside, key=lambda each: each.lineno, default=None)

    def made(self, owner: ast.ClassDef) -> list[tuple[Text, ast.Call]]:
        """The calls that make objects of a class of the finding's file, in all files of the project."""
        found = []
        for text in self.project.texts():
            for call in text.script.calls:
                if text.path == self.text.path:
                    if text.script.local_class(call.func) is owner:
                        found.append((text, call))
                else:
                    full = text.script.dotted(call.func) or ""
                    if full.split(".")[-2:] == [self.text.path.stem, owner.name]:
                        found.append((text, call))
        return found

    def fit_calls(self) -> list[tuple[Text, ast.Call]]:
        """The fit that the finding is about, or all of the project's."""
        found = [(text, call) for text in self.project.texts() for call in text.script.model_calls("fit")]
        here = [
            (text, call)
            for text, call in found
            if text.path == self.text.path and call.lineno <= self.line <= (call.end_lineno or 0)
        ]
        return here or found

    def passes(self) -> int | None:
        """How many epochs the training has, by the run or as a fit says."""
        run = self.project.run
        if run is not None:
            found = [
                called.epochs // called.calls
                for root, called in run.called.items()
                if run.nodes[root].name == "fit" and called.calls
            ]
            if found:
                return max(found)
        numbers = [text.script.literal(text.script.argument(call, "epochs")) for text, call in self.fit_calls()]
        return max((number for number in numbers if isinstance(number, int)), default=None)

    def others_draw(self) -> bool:
        """Whether anything but trainings on one row draws from the random numbers that all share."""
        for text in self.project.texts():
            script = text.script
            fits = set(script.model_calls("fit"))
            for each in script.calls:
                name = script.called(each)
                other = each in fits and not script.one_row(script.argument(each, "x", 0))
                shuffled = script.literal(script.argument(each, "shuffle")) is True
                if is_shared(name) or other or shuffled or script.method(each) == "shuffle":
                    return True
        return False


def _first(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | Function) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


class Kind:
    """A kind of edit: for some causes, what to change in the script."""

    causes: ClassVar[tuple[str, ...]]
    aside: ClassVar[bool] = False
    """Whether it is for some places of a cause only: why it cannot serve is told if no other kind has a reason."""

    def edit(self, place: Place) -> Edit:
        """The edit for a finding; raises Unsure where none is surely right."""
        raise NotImplementedError


def only(found: list[Any], what: str) -> Any:
    """The one of its kind; raises Unsure if there are none or several."""
    if len(found) != 1:
        raise Unsure(f"the source shows {'no' if not found else 'more than one'} {what}")
    return found[0]
