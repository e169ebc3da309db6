"""A Python file as the rules read it: its names resolved, and what stands in what; it is never run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from fitscope.names import (
    COMPREHENSIONS,
    FUNCTIONS,
    Function,
    Loop,
    Names,
)


@dataclass(frozen=True)
class Reached:
    """A call that a function makes, itself or through other functions of the script."""

    node: ast.Call
    guarded: bool
    """Whether a condition stands before it: then it need not happen each time."""


class Syntax(Names):
    """A parsed file: what stands in what, and what repeats, calls and returns what."""

    # --- lines, for those who know only a line number ------------------------------------------------------

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

    # --- structure -----------------------------------------------------------------------------------------

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
