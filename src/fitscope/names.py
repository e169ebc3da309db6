"""A Python file, parsed and never run: what its names stand for."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeAlias

from fitscope.model import FitscopeError

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.AsyncFor, ast.While, *COMPREHENSIONS)
SCOPES = (ast.Module, ast.ClassDef, *FUNCTIONS, *COMPREHENSIONS)
IGNORED = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)

RENAMED = (
    ("tensorflow.compat.v1.", "tensorflow."),
    ("tensorflow.compat.v2.", "tensorflow."),
    ("tensorflow.python.", "tensorflow."),
    ("tensorflow.keras.", "keras."),
    ("tf_keras.", "keras."),
    ("keras.src.", "keras."),
    ("keras.models.Sequential.", "keras.Sequential."),
    ("keras.models.Model.", "keras.Model."),
    ("keras.engine.training.Model.", "keras.Model."),
    ("keras.preprocessing.sequence.pad_sequences.", "keras.utils.pad_sequences."),
    ("keras.layers.Input.", "keras.Input."),
)
"""The names under which the same thing is imported, each with the one that the rules know."""


def listed(names: str) -> tuple[str, ...]:
    """A long list of names, written without a quote and a line for each."""
    return tuple(names.split())


def line_of(node: ast.AST) -> int:
    """The line that a node begins on; that of its variable for a loop of a comprehension or a `with`."""
    for part in (node, getattr(node, "target", None), getattr(node, "optional_vars", None)):
        number = getattr(part, "lineno", None)
        if isinstance(number, int):
            return number
    return 0


@dataclass(frozen=True)
class Binding:
    """One place where a name gets a value."""

    node: ast.AST
    value: ast.expr | None
    how: str
    """assign, augment, loop, parameter, define, import, or other."""


NO_BINDINGS: list[Binding] = []


class Names:
    """A parsed file, and what each name in it was set to or imported from."""

    def __init__(self, path: str, text: str, tree: ast.Module) -> None:
        self.path = path
        self.text = text
        self.tree = tree
        self.lines = text.split("\n")
        self.parents: dict[ast.AST, ast.AST] = {}
        self.calls: list[ast.Call] = []
        self.functions: list[Function] = []
        self.classes: list[ast.ClassDef] = []
        self.modules: set[str] = set()
        self._bound: dict[tuple[ast.AST, str], list[Binding]] = {}
        self._set: dict[tuple[ast.AST, str], list[ast.expr]] = {}
        self._stars: list[str] = []
        self._loops: list[Loop] = []
        self._uses: dict[str, list[ast.Name | ast.Attribute]] = {}
        self._called: dict[ast.Call, str] = {}
        self._owners: dict[int, ast.ClassDef | None] = {}
        self._index()

    @classmethod
    def parse(cls, path: str, text: str) -> Self:
        """Reads the text; raises FitscopeError with one sentence if it is no Python of our version."""
        text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = compile(text, path, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError as error:
            raise FitscopeError(
                f"line {error.lineno or 1} is no Python that this version reads: {error.msg}"
            ) from None
        except ValueError as error:
            raise FitscopeError(f"it is no Python: {error}") from None
        except (RecursionError, MemoryError):
            raise FitscopeError("it is nested too deeply to be read") from None
        return cls(path, text, tree)

    def line(self, number: int) -> str:
        """The text of a line, counted from 1; empty past the end."""
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def dotted(self, node: ast.AST) -> str | None:
        """The full name of what was imported: `tf.data.Dataset` is tensorflow.data.Dataset; None for a value."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        module = self._imported(node)
        return _canonical(".".join([module, *reversed(parts)])) if module else None

    def called(self, call: ast.Call) -> str:
        """What is called: keras.callbacks.TensorBoard, print, or .map for a method of some value."""
        if call not in self._called:
            name = self.dotted(call.func)
            if name is None and isinstance(call.func, ast.Name):
                name = call.func.id
            elif name is None and isinstance(call.func, ast.Attribute):
                name = "." + call.func.attr
            self._called[call] = name or ""
        return self._called[call]

    def method(self, call: ast.Call) -> str:
        """The name of the method that is called on a value; empty for functions."""
        return call.func.attr if isinstance(call.func, ast.Attribute) else ""

    def bindings(self, name: ast.Name) -> list[Binding]:
        """The places that give a name its value, in the nearest scope that has any."""
        below_function = False
        inner: ast.AST = name
        for scope in self.ancestors(name):
            child, inner = inner, scope
            if not isinstance(scope, SCOPES) or (isinstance(scope, ast.ClassDef) and below_function):
                continue
            if isinstance(child, ast.arguments) or child in getattr(scope, "decorator_list", ()):
                continue  # a default value and a decorator are computed outside
            if (scope, name.id) in self._bound:
                return self._bound[scope, name.id]
            below_function = below_function or isinstance(scope, FUNCTIONS)
        return NO_BINDINGS

    def values(self, node: ast.AST) -> list[ast.expr]:
        """The expressions that a name or an attribute of `self` was set to, as far as they are in sight."""
        if isinstance(node, ast.Name):
            return [binding.value for binding in self.bindings(node) if binding.value and binding.how == "assign"]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            owner = self.class_of(node)
            return self._set.get((owner, node.attr), []) if owner else []
        return []

    def literal(self, node: ast.AST | None) -> object:
        """The value of a literal, or of a name that is set to one and to nothing else; None if it is no such."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.literal(node.operand)
            return -value if isinstance(value, int | float) else None
        if isinstance(node, ast.Name):
            bindings = self.bindings(node)
            if len(bindings) == 1 and bindings[0].how == "assign" and isinstance(bindings[0].value, ast.Constant):
                return bindings[0].value.value
        return None

    def argument(self, call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
        """An argument by its name or position."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        if position is not None and position < len(call.args):
            found = call.args[position]
            return None if any(isinstance(item, ast.Starred) for item in call.args[: position + 1]) else found
        return None

    def references(self, name: str) -> list[ast.Name | ast.Attribute]:
        """Every place that reads a name, or an attribute of that name."""
        return self._uses.get(name, [])

    @cached_property
    def backend(self) -> str | None:
        """The Keras backend that the script itself chooses."""
        chosen = self.environment.get("KERAS_BACKEND")
        return chosen if chosen in ("tensorflow", "jax", "torch") else None

    @cached_property
    def environment(self) -> dict[str, str]:
        """The environment variables that the script sets to a literal."""
        found: dict[str, str] = {}
        for node in self.parents:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
                target = node.targets[0]
                if self.dotted(target.value) == "os.environ":
                    self._variable(found, target.slice, node.value)
        for call in self.calls:
            if self.called(call) in ("os.environ.setdefault", "os.putenv") and len(call.args) == 2:
                self._variable(found, *call.args)
        return found

    def _variable(self, found: dict[str, str], name: ast.expr, value: ast.expr) -> None:
        key, text = self.literal(name), self.literal(value)
        if isinstance(key, str) and isinstance(text, str):
            found[key] = text

    def _imported(self, name: ast.Name, depth: int = 3) -> str | None:
        bindings = self.bindings(name)
        for binding in bindings:
            if binding.how == "import":
                return self._import_path(binding.node, name.id)
        if len(bindings) == 1 and bindings[0].how == "assign" and depth:
            # `layers = tf.keras.layers` is an import by other means.
            return self._path_of(bindings[0].value, depth - 1)
        if not bindings and len(self._stars) == 1 and name.id[:1].isupper():
            return f"{self._stars[0]}.{name.id}"
        return None

    def _path_of(self, node: ast.AST | None, depth: int) -> str | None:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        module = self._imported(node, depth)
        return ".".join([module, *reversed(parts)]) if module else None

    @staticmethod
    def _import_path(node: ast.AST, name: str) -> str | None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname == name:
                    return alias.name
                if not alias.asname and alias.name.split(".")[0] == name:
                    return name
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return f"{'.' * node.level}{node.module or ''}.{alias.name}"
        return None

    def imports(self) -> dict[str, tuple[str, ast.stmt]]:
        """What the names that are imported at the top level stand for, each with the statement that imports it."""
        found: dict[str, tuple[str, ast.stmt]] = {}
        for (scope, name), bindings in self._bound.items():
            if (
                scope is self.tree
                and len(bindings) == 1
                and isinstance(bindings[0].node, ast.Import | ast.ImportFrom)
            ):
                path = self._import_path(bindings[0].node, name)
                if path is not None:
                    found[name] = _canonical(path), bindings[0].node
        return found

    def binds(self, name: str, node: ast.AST) -> bool:
        """Whether a name means something of its own in a function or class around a node."""
        return any((scope, name) in self._bound for scope in self.ancestors(node) if scope is not self.tree)

    def knows(self, name: str) -> bool:
        """Whether a name is used for anything in this file."""
        return name in self._uses or any(bound == name for _, bound in self._bound)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, from the inside out."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def function_of(self, node: ast.AST) -> Function | None:
        """The innermost function that a node stands in."""
        return next((parent for parent in self.ancestors(node) if isinstance(parent, FUNCTIONS)), None)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class that a node stands in."""
        return next((parent for parent in self.ancestors(node) if isinstance(parent, ast.ClassDef)), None)

    # --- building ------------------------------------------------------------------------------------------

    def _index(self) -> None:
        stack: list[ast.AST] = [self.tree]
        while stack:
            node = stack.pop()
            children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, IGNORED)]
            for child in children:
                self.parents[child] = node
            stack.extend(reversed(children))
            if isinstance(node, ast.Call):
                self.calls.append(node)
            elif isinstance(node, FUNCTIONS):
                self.functions.append(node)
            elif isinstance(node, ast.ClassDef):
                self.classes.append(node)
            if isinstance(node, LOOPS):
                self._loops.append(node)
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._uses.setdefault(node.id if isinstance(node, ast.Name) else node.attr, []).append(node)
        for node in [self.tree, *self.parents]:
            self._bind(node)
        for bindings in self._bound.values():
            bindings.sort(key=lambda binding: line_of(binding.node))

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._bind_import(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._note(node, node.name, Binding(node, None, "define"))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._target(target, node.value, node, "assign")
        elif (isinstance(node, ast.AnnAssign) and node.value is not None) or isinstance(node, ast.NamedExpr):
            self._target(node.target, node.value, node, "assign")
        elif isinstance(node, ast.AugAssign):
            self._target(node.target, node.value, node, "augment")
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._target(node.target, node.iter, node, "loop")
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._target(node.optional_vars, node.context_expr, node, "other")
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            self._note(node, node.name, Binding(node, None, "other"))
        if isinstance(node, FUNCTIONS):
            arguments = node.args
            for item in (
                *arguments.posonlyargs,
                *arguments.args,
                *arguments.kwonlyargs,
                arguments.vararg,
                arguments.kwarg,
            ):
                if item is not None:
                    self._bound.setdefault((node, item.arg), []).append(Binding(item, None, "parameter"))

    def _bind_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                full = _canonical(f"{module}.{alias.name}" if module else alias.name)
                if alias.name == "*":
                    self._stars.append(full.removesuffix(".*"))
                else:
                    self._note(node, alias.asname or alias.name, Binding(node, None, "import"))
                self.modules |= {module.split(".")[0], full.split(".")[0]}
            else:
                self._note(node, alias.asname or alias.name.split(".")[0], Binding(node, None, "import"))
                self.modules |= {alias.name.split(".")[0], _canonical(alias.name).split(".")[0]}

    def _target(self, target: ast.expr, value: ast.expr | None, node: ast.AST, how: str) -> None:
        if isinstance(target, ast.Name):
            self._note(node, target.id, Binding(node, value, how))
        elif isinstance(target, ast.Tuple | ast.List):
            pairs: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) and how == "assign":
                pairs = list(value.elts)
            for item, part in zip(target.elts, pairs, strict=True):
                # A part of something unpacked has no expression of its own, but a loop's variable keeps its loop's.
                kept = value if how == "loop" else part
                self._target(item, kept, node, how if kept is not None else "other")
        elif isinstance(target, ast.Starred):
            self._target(target.value, None, node, "other")
        elif (
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id in ("self", "cls")
        ):
            owner = self.class_of(target)
            if owner is not None and value is not None and how == "assign":
                self._set.setdefault((owner, target.attr), []).append(value)

    def _note(self, node: ast.AST, name: str, binding: Binding) -> None:
        scope: ast.AST = self.tree
        for parent in self.ancestors(node):
            if isinstance(parent, COMPREHENSIONS) and not isinstance(node, ast.comprehension):
                continue
            if isinstance(parent, SCOPES):
                scope = parent
                break
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) and name in self._globals(scope):
            scope = self.tree
        self._bound.setdefault((scope, name), []).append(binding)

    def _globals(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
        return {name for item in function.body if isinstance(item, ast.Global) for name in item.names}


def _canonical(name: str) -> str:
    name += "."
    for old, new in RENAMED:
        if name.startswith(old):
            name = new + name[len(old) :]
    return name.removesuffix(".")
