"""A Python file as the rules read it: parsed, its names and its structure resolved, and never run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
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


@dataclass(frozen=True)
class Reached:
    """A call that a function makes, itself or through other functions of the script."""

    node: ast.Call
    guarded: bool
    """Whether a condition stands before it: then it need not happen each time."""


NO_BINDINGS: list[Binding] = []


class Syntax:
    """A parsed file: what its names stand for, and what stands in what."""

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

    # --- lines, for those who know only a line number ------------------------------------------------------

    def line(self, number: int) -> str:
        """The text of a line, counted from 1; empty past the end."""
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def loops_around(self, number: int) -> set[int]:
        """The first lines of the `for` loops that a line stands in."""
        around = [loop for loop in self._loops if loop.lineno <= number <= (loop.end_lineno or 0)]
        return {loop.lineno for loop in around if isinstance(loop, ast.For)}

    def in_loop(self, number: int, *, but_yielding: bool = False) -> bool:
        """Whether a line is repeated by a loop or a comprehension of the function that it stands in.

        `but_yielding`: a loop that yields does not count, because it goes through the batches of a generator.
        """
        start = 0
        for function in self.functions:
            if not isinstance(function, ast.Lambda) and function.lineno <= number <= (function.end_lineno or 0):
                start = max(start, function.lineno)
        for loop in self._loops:
            first = loop.body[0].lineno if isinstance(loop, ast.For | ast.AsyncFor | ast.While) else loop.lineno
            if loop.lineno >= start and first <= number <= (loop.end_lineno or 0):
                if but_yielding and any(isinstance(node, ast.Yield) for node in ast.walk(loop)):
                    continue
                return True
        return False

    def calls_on_line(self, number: int) -> tuple[str, ...]:
        """The names of what is called on a line, as `called` gives them."""
        return tuple(self.called(call) for call in self._calls_by_line.get(number, ()))

    def statement_at(self, number: int) -> tuple[int, int]:
        """The first and the last line of the statement that a line belongs to; of a block only its head."""
        found = (number, number)
        for node in self.parents:
            if isinstance(node, ast.stmt) and node.lineno <= number <= (node.end_lineno or node.lineno):
                body = getattr(node, "body", None)
                last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
                if number <= max(last, node.lineno):
                    found = (node.lineno, max(last, node.lineno))
        return found

    @cached_property
    def _calls_by_line(self) -> dict[int, list[ast.Call]]:
        found: dict[int, list[ast.Call]] = {}
        for call in self.calls:
            found.setdefault(call.func.end_lineno or call.lineno, []).append(call)
        return found

    # --- names ---------------------------------------------------------------------------------------------

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

    # --- structure -----------------------------------------------------------------------------------------

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

    def loops(self, node: ast.AST) -> list[Loop]:
        """The loops of its own function that repeat a node, innermost first."""
        found: list[Loop] = []
        child = node
        for parent in self.ancestors(node):
            if isinstance(parent, FUNCTIONS):
                break
            if isinstance(parent, ast.For | ast.AsyncFor):
                if child is not parent.iter and child not in parent.orelse:
                    found.append(parent)
            elif isinstance(parent, ast.While):
                if child not in parent.orelse:
                    found.append(parent)
            elif isinstance(parent, COMPREHENSIONS) and not self._is_source(parent, child, node):
                found.append(parent)
            child = parent
        return found

    def _is_source(self, loop: Loop, child: ast.AST, node: ast.AST) -> bool:
        """Whether a node stands in what a comprehension goes through: that is evaluated once."""
        if isinstance(loop, ast.For | ast.AsyncFor | ast.While) or child is not loop.generators[0]:
            return False
        source = loop.generators[0].iter
        return node is source or source in self.ancestors(node)

    def own(self, function: ast.AST) -> Iterator[ast.AST]:
        """The nodes of a function's body in order, without what functions and classes defined in it contain."""
        body = getattr(function, "body", [])
        stack: list[ast.AST] = list(reversed(body)) if isinstance(body, list) else [body]
        while stack:
            node = stack.pop()
            yield node
            if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                stack.extend(reversed(list(ast.iter_child_nodes(node))))

    def own_calls(self, function: ast.AST) -> Iterator[ast.Call]:
        """The calls that a function makes itself."""
        return (node for node in self.own(function) if isinstance(node, ast.Call))

    def function(self, node: ast.AST | None, depth: int = 4) -> Function | None:
        """The function of the script that an expression stands for: a name, a lambda, a method, a partial."""
        if node is None or depth == 0:
            return None
        if isinstance(node, ast.Lambda):
            return node
        if isinstance(node, ast.Name):
            bindings = self.bindings(node)
            if len(bindings) != 1:
                return None
            found = bindings[0].node
            if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
                return found
            return self.function(bindings[0].value, depth - 1) if bindings[0].how == "assign" else None
        if isinstance(node, ast.Attribute):
            return self._method(node)
        if isinstance(node, ast.Call):
            name = self.called(node)
            if name in ("functools.partial", "tensorflow.function", "jax.jit") and node.args:
                return self.function(node.args[0], depth - 1)
            maker = self.function(node.func, depth - 1)
            if maker is not None and not isinstance(maker, ast.Lambda):
                made = [self.function(value, depth - 1) for value in self.returned(maker)]
                return made[0] if len(made) == 1 else None
        return None

    def returned(self, function: Function) -> list[ast.expr]:
        """What a function returns."""
        if isinstance(function, ast.Lambda):
            return [function.body]
        return [node.value for node in self.own(function) if isinstance(node, ast.Return) and node.value]

    def parameters(self, function: Function) -> list[str]:
        """The names of a function's parameters, without self."""
        arguments = function.args
        names = [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        return names[1:] if names[:1] in (["self"], ["cls"]) else names

    def is_generator(self, function: Function) -> bool:
        """Whether a function yields."""
        return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in self.own(function))

    def derives(self, node: ast.ClassDef, bases: Iterable[str] | str, depth: int = 5) -> bool:
        """Whether a class comes from one of these, or, given a prefix, from anything below it."""
        for base in node.bases:
            if isinstance(base, ast.Subscript):
                base = base.value
            full = self.dotted(base)
            if full is not None:
                if full.startswith(bases) if isinstance(bases, str) else full in bases:
                    return True
            elif isinstance(base, ast.Name) and depth:
                parent = self.local_class(base)
                if parent is not None and self.derives(parent, bases, depth - 1):
                    return True
        return False

    def local_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class of the script that a name stands for."""
        if isinstance(node, ast.Name):
            for binding in self.bindings(node):
                if isinstance(binding.node, ast.ClassDef):
                    return binding.node
        return None

    def methods(self, node: ast.ClassDef, depth: int = 5) -> dict[str, Function]:
        """The methods that a class defines, those of its parents in the script included."""
        found: dict[str, Function] = {}
        for base in node.bases if depth else ():
            parent = self.local_class(base)
            if parent is not None:
                found.update(self.methods(parent, depth - 1))
        found.update(
            (item.name, item) for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        return found

    def decorators(self, function: Function) -> list[str]:
        """The full names of a function's decorators; a call of one counts as it."""
        if isinstance(function, ast.Lambda):
            return []
        names = []
        for item in function.decorator_list:
            if isinstance(item, ast.Call):
                name = self.called(item)
                names.append(self.dotted(item.args[0]) or "" if name == "functools.partial" and item.args else name)
            else:
                names.append(self.dotted(item) or "")
        return names

    def callers(self, function: Function) -> list[ast.Call]:
        """The calls of a function or method in this script, as far as its name tells them."""
        if isinstance(function, ast.Lambda):
            return []
        if function.name == "__init__":
            owner = self.class_of(function)
            return [call for call in self.calls if self.local_class(call.func) is owner]
        found = []
        for node in self.references(function.name):
            call = self.parents.get(node)
            if isinstance(call, ast.Call) and call.func is node and self.function(node) is function:
                found.append(call)
        return found

    def given(self, function: Function, parameter: str) -> list[ast.expr | None]:
        """What the calls of a function in this script pass for a parameter; None where that is out of sight."""
        names = self.parameters(function)
        if parameter not in names:
            return []
        return [self.argument(call, parameter, names.index(parameter)) for call in self.callers(function)]

    def mentioned(self, function: Function) -> bool:
        """Whether a function is handed on as a value: then others may call it, compiled or not."""
        if isinstance(function, ast.Lambda):
            return True
        for node in self.references(function.name):
            parent = self.parents.get(node)
            if not (isinstance(parent, ast.Call) and parent.func is node) and self.function(node) is function:
                return True
        return False

    def reached(self, function: Function, depth: int = 2, guarded: bool = False) -> Iterator[Reached]:
        """The calls that a function makes, itself and through functions of the script."""
        for call in self.own_calls(function):
            behind = guarded or self.guarded(call, function)
            yield Reached(call, behind)
            inner = self.function(call.func) if depth else None
            if inner is not None and inner is not function:
                yield from self.reached(inner, depth - 1, behind)

    def guarded(self, node: ast.AST, function: ast.AST) -> bool:
        """Whether a condition decides if a function comes to this node; a test for None is no condition."""
        child = node
        for parent in self.ancestors(node):
            tests: list[ast.expr] = []
            if isinstance(parent, ast.If | ast.IfExp | ast.While) and child is not parent.test:
                tests.append(parent.test)
            elif isinstance(parent, ast.BoolOp) and child is not parent.values[0]:
                tests.append(parent.values[0])
            tests += [item.test for item in _before(parent, child) if isinstance(item, ast.If) and _leaves(item)]
            if isinstance(parent, ast.ExceptHandler) or not all(_is_formal(test) for test in tests):
                return True
            if parent is function:
                break
            child = parent
        return False

    def seldom(self, node: ast.AST) -> bool:
        """Whether a test such as `step % 100 == 0` decides if this node is reached, within its function."""
        child = node
        for parent in self.ancestors(node):
            if isinstance(parent, FUNCTIONS):
                break
            tests = [parent.test] if isinstance(parent, ast.If) and child is not parent.test else []
            tests += [item.test for item in _before(parent, child) if isinstance(item, ast.If) and _leaves(item)]
            if any(isinstance(item, ast.Mod) for test in tests for item in ast.walk(test)):
                return True
            child = parent
        return False

    def rounds(self, loop: Loop) -> int | None:
        """How often a loop repeats, where a literal says so."""
        source = loop.iter if isinstance(loop, ast.For | ast.AsyncFor) else None
        if isinstance(loop, COMPREHENSIONS):
            source = loop.generators[0].iter
        if (
            isinstance(source, ast.Call)
            and self.called(source) in ("enumerate", "tqdm.tqdm", "reversed")
            and source.args
        ):
            source = source.args[0]
        if isinstance(source, ast.Call) and self.called(source) in ("random.sample", "zip") and source.args:
            source = source.args[-1] if self.called(source) == "random.sample" else source.args[0]
            number = self.literal(source)
            if isinstance(number, int):
                return number
        if isinstance(source, ast.Subscript) and isinstance(source.slice, ast.Slice):
            low, high = self.literal(source.slice.lower) or 0, self.literal(source.slice.upper)
            return high - low if isinstance(low, int) and isinstance(high, int) and high >= low >= 0 else None
        if isinstance(source, ast.List | ast.Tuple | ast.Set):
            return len(source.elts)
        if isinstance(source, ast.Dict):
            return len(source.keys)
        if isinstance(source, ast.Call) and self.called(source) in ("range", "tensorflow.range") and source.args:
            bounds = [self.literal(item) for item in source.args]
            numbers = [item for item in bounds if isinstance(item, int)]
            if len(numbers) == len(bounds):
                try:
                    return len(range(*numbers))
                except (TypeError, ValueError):
                    return None
        return None

    def repeated_calls(self, loop: ast.AST) -> Iterator[ast.Call]:
        """The calls that a loop makes in each round, itself and not in loops inside it."""
        for node in ast.walk(loop):
            if isinstance(node, ast.Call) and self.loops(node)[:1] == [loop] and not self.seldom(node):
                yield node

    def repeats(self, node: ast.AST) -> int | None:
        """How often the loops around a node repeat it, where literals say so."""
        times = 1
        for loop in self.loops(node):
            rounds = self.rounds(loop)
            if rounds is None:
                return None
            times *= rounds
        return times

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

    def _method(self, node: ast.Attribute) -> Function | None:
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            owner = self.class_of(node)
            method = self.methods(owner).get(node.attr) if owner else None
            values = self.values(node)
            return method or (self.function(values[0]) if len(values) == 1 else None)
        if not isinstance(node.value, ast.Name) or not self.classes:
            return None
        bindings = self.bindings(node.value)
        # A name has the same bindings wherever it is read in its scope, and some names have thousands.
        if id(bindings) not in self._owners:
            made = [self.local_class(item.value.func) for item in bindings if isinstance(item.value, ast.Call)]
            owners = [owner for owner in made if owner is not None]
            self._owners[id(bindings)] = owners[0] if len(owners) == 1 else None
        owner = self._owners[id(bindings)]
        return self.methods(owner).get(node.attr) if owner is not None else None


def _canonical(name: str) -> str:
    name += "."
    for old, new in RENAMED:
        if name.startswith(old):
            name = new + name[len(old) :]
    return name.removesuffix(".")


def _is_formal(test: ast.expr) -> bool:
    """Whether a test only asks if there is something: `logs is not None`, `logs`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_formal(test.operand)
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.Is | ast.IsNot)
    return (isinstance(test, ast.Name) and test.id == "logs") or isinstance(test, ast.Constant)


def _before(parent: ast.AST, child: ast.AST) -> list[ast.stmt]:
    """The statements that stand before one in its block."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and child in block:
            return block[: block.index(child)]
    return []


def _leaves(statement: ast.If) -> bool:
    return bool(statement.body) and isinstance(statement.body[-1], ast.Return | ast.Continue | ast.Break | ast.Raise)
