"""Writing an edit: the smallest changes to a script's text that change a call, a chain of methods or a statement."""

from __future__ import annotations

import ast
import re

from fitscope.fixes.text import Text
from fitscope.model import Replacement

USUAL_IMPORTS = {
    "fitscope": ("fitscope", "import fitscope"),
    "functools": ("functools", "import functools"),
    "jax": ("jax", "import jax"),
    "keras": ("keras", "import keras"),
    "tensorflow": ("tf", "import tensorflow as tf"),
}
"""For a module its usual name, and the line that imports it."""


class Unsure(Exception):  # noqa: N818
    """There is no edit that is surely right: the sentence says why."""


class Draft:
    """Changes to one file, in the making."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.script = text.script
        self.replacements: list[Replacement] = []
        self.imports: list[str] = []

    def source(self, node: ast.AST) -> str:
        """A node as it is written."""
        return self.script.text[self.text.start(node) : self.text.end(node)]

    def replace(self, node: ast.AST, text: str) -> None:
        """Writes something else for a node."""
        self.replacements.append(Replacement(self.text.start(node), self.text.end(node), text))

    def wrap(self, node: ast.AST, before: str, after: str = ")") -> None:
        """Puts something around a node."""
        self.replacements.append(Replacement(self.text.start(node), self.text.start(node), before))
        self.replacements.append(Replacement(self.text.end(node), self.text.end(node), after))

    # --- names ---------------------------------------------------------------------------------------------

    def name(self, full: str, at: ast.AST) -> str:
        """How to write the full name of something at a place; what is not imported yet will be."""
        best = ""
        for name, (path, statement) in self.script.imports().items():
            if full != path and not full.startswith(f"{path}."):
                continue
            inside = self.script.function_of(at) is not None
            if self.script.binds(name, at) or not (inside or statement.lineno < at.lineno):  # type: ignore[attr-defined]
                continue
            written = name + full[len(path) :]
            if not best or len(written) < len(best):
                best = written
        if best:
            return best
        module, _, rest = full.partition(".")
        if module not in USUAL_IMPORTS:
            raise Unsure(f"{full} is not imported here")
        name, line = USUAL_IMPORTS[module]
        if self.script.knows(name):
            raise Unsure(f"{full} is not imported here, and the name {name} is taken")
        self.imports.append(line)
        return f"{name}.{rest}" if rest else name

    def free_name(self, *wishes: str) -> str:
        """The first of these names that the file does not use."""
        for wish in wishes:
            if not self.script.knows(wish):
                return wish
        raise Unsure(f"the names {', '.join(wishes)} are taken")

    # --- calls ---------------------------------------------------------------------------------------------

    def set_keyword(self, call: ast.Call, name: str, value: str) -> None:
        """Gives a call an argument, in place of the one that it may have."""
        for keyword in call.keywords:
            if keyword.arg == name:
                self.replace(keyword.value, value)
                return
        if any(keyword.arg is None for keyword in call.keywords):
            raise Unsure("the call takes arguments from a dictionary (**) that may hold this one, too")
        self.add_keyword(call, f"{name}={value}")

    def add_keyword(self, call: ast.Call, argument: str) -> None:
        """Adds an argument behind the others, in the way in which they are written."""
        last = self._last_argument(call)
        close = self.text.end(call) - 1
        if last is None:
            self._insert(self._opening(call) + 1, argument)
            return
        if isinstance(last, ast.GeneratorExp) and len(call.args) == 1 and not call.keywords:
            raise Unsure("its only argument is a generator expression without parentheses of its own")
        end, comma = self._behind(last, close)
        own_line = not self._before_on_line(self.text.start(last)).strip()
        indent = self._before_on_line(self.text.start(last)) if own_line else ""
        stop = self._line_end(comma if comma is not None else end)
        if not own_line or stop > close:
            if comma is None:
                self._insert(end, f", {argument}")
            else:
                self._insert(comma + 1, f" {argument}," if stop < close else f" {argument}")
        elif comma is not None:
            self._insert(stop, f"\n{indent}{argument},")
        elif stop == end:
            self._insert(end, f",\n{indent}{argument}")
        else:
            self._insert(end, ",")
            self._insert(stop, f"\n{indent}{argument}")

    def remove_keyword(self, call: ast.Call, name: str) -> None:
        """Takes an argument out of a call."""
        found = next(keyword for keyword in call.keywords if keyword.arg == name)
        arguments = sorted((*call.args, *call.keywords), key=self.text.start)
        index = arguments.index(found)
        close = self.text.end(call) - 1
        start = self.text.start(found)
        end, comma = self._behind(found, close)
        before = self._before_on_line(start)
        stop = self._line_end(end)
        if not before.strip() and stop < close and not _code(self.script.text[(comma or end - 1) + 1 : stop]):
            self.replacements.append(Replacement(start - len(before), stop + 1, ""))
        elif index:
            previous, _ = self._behind(arguments[index - 1], start)
            if "#" in self.script.text[previous:start]:
                self.replacements.append(Replacement(start, end if comma is None else comma + 1, ""))
            else:
                self.replacements.append(Replacement(previous, end, ""))
        elif len(arguments) > 1:
            following = self.text.start(arguments[1])
            if "#" in self.script.text[end:following]:
                raise Unsure("a comment stands between the arguments")
            self.replacements.append(Replacement(start, following, ""))
        else:
            self.replacements.append(Replacement(start, end if comma is None else comma + 1, ""))

    def remove_items(self, listing: ast.List, items: list[ast.expr]) -> None:
        """Takes some items out of a list, with their lines where they have lines of their own."""
        close = self.text.end(listing) - 1
        for item in items:
            start = self.text.start(item)
            end, comma = self._behind(item, close)
            before = self._before_on_line(start)
            stop = self._line_end(end)
            index = listing.elts.index(item)
            if not before.strip() and stop < close and not _code(self.script.text[(comma or end - 1) + 1 : stop]):
                self.replacements.append(Replacement(start - len(before), stop + 1, ""))
            elif "#" in self.script.text[self.text.start(listing) : close]:
                raise Unsure("a comment stands between the items")
            elif comma is not None and index + 1 < len(listing.elts):
                self.replacements.append(Replacement(start, self.text.start(listing.elts[index + 1]), ""))
            else:
                kept = [each for each in listing.elts[:index] if each not in items]
                first = self._behind(kept[-1], start)[0] if kept and kept[-1] is listing.elts[index - 1] else start
                self.replacements.append(Replacement(first, end if comma is None else comma + 1, ""))

    def rename_method(self, call: ast.Call, name: str) -> None:
        """Calls another method of the same object."""
        assert isinstance(call.func, ast.Attribute)
        end = self.text.end(call.func)
        self.replacements.append(Replacement(end - len(call.func.attr), end, name))

    def _last_argument(self, call: ast.Call) -> ast.expr | ast.keyword | None:
        arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        return max(arguments, key=self.text.end) if arguments else None

    def _opening(self, call: ast.Call) -> int:
        """Where the parenthesis of a call is."""
        position = self.text.end(call.func)
        text = self.script.text
        while text[position] != "(":
            position = text.index("\n", position) if text[position] == "#" else position + 1
        return position

    def _behind(self, node: ast.AST, limit: int) -> tuple[int, int | None]:
        """Where an argument ends, parentheses around it included, and where its comma is, if it has one."""
        text, position = self.script.text, self.text.end(node)
        end = position
        while position < limit:
            letter = text[position]
            if letter == "#":
                position = text.index("\n", position)
            elif letter == ")":
                end = position + 1
            elif letter == ",":
                return end, position
            position += 1
        return end, None

    # --- chains of methods ---------------------------------------------------------------------------------

    def chain(self, call: ast.Call, method: str) -> None:
        """Calls one more method right behind a call in a chain, on a line of its own if the others are."""
        end = self.text.end(call)
        stop = self._line_end(end)
        rest = self.script.text[end:stop]
        indent = self._before_on_line(self._dot(call)) if isinstance(call.func, ast.Attribute) else "?"
        if indent.strip():
            self._insert(end, method)
        elif rest.strip() == "\\" or self._ends_statement(call):
            self._insert(end, f" \\\n{indent}{method}")
        elif not _code(rest) and "#" in rest:
            self._insert(stop, f"\n{indent}{method}")
        else:
            self._insert(end, f"\n{indent}{method}")

    def chain_before(self, call: ast.Call, method: str) -> None:
        """Calls one more method right before a call in a chain."""
        dot = self._dot(call)
        indent = self._before_on_line(dot)
        self._insert(dot, method if indent.strip() else f"{method}\n{indent}")

    def method(self, call: ast.Call) -> str:
        """A method call as it is written, with its dot and without what it is called on."""
        return self.script.text[self._dot(call) : self.text.end(call)]

    def unchain(self, call: ast.Call) -> None:
        """Takes a method out of a chain."""
        assert isinstance(call.func, ast.Attribute)
        start, end = self._dot(call), self.text.end(call)
        statement = self.statement(call)
        if (
            isinstance(statement, ast.Assign)
            and statement.value is call
            and len(statement.targets) == 1
            and ast.unparse(statement.targets[0]) == ast.unparse(call.func.value)
        ):
            self.remove_statement(statement)
            return
        before = self._before_on_line(start)
        if not before.strip():
            # The line of its own goes with it, and a comment on it stays behind the method before.
            start -= len(before) + 1
            if "#" in self.script.lines[self.script.text.count("\n", 0, start)]:
                raise Unsure("a comment stands between the methods")
        self.replacements.append(Replacement(start, end, ""))

    def _dot(self, call: ast.Call) -> int:
        assert isinstance(call.func, ast.Attribute)
        return self.script.text.rindex(".", 0, self.text.end(call.func) - len(call.func.attr) + 1)

    def _ends_statement(self, node: ast.AST) -> bool:
        return self.text.end(node) == self.text.end(self.statement(node))

    # --- statements ----------------------------------------------------------------------------------------

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node stands in."""
        for each in (node, *self.script.ancestors(node)):
            if isinstance(each, ast.stmt):
                return each
        raise Unsure("it stands in no statement")

    def insert_before(self, node: ast.AST, *lines: str) -> None:
        """Writes statements before the one that a node stands in."""
        statement = self.statement(node)
        start = self.text.start(statement)
        indent = self._before_on_line(start)
        if indent.strip() or isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try):
            raise Unsure("the statement shares its line with another one")
        self._insert(start - len(indent), "".join(f"{indent}{line}\n" for line in lines))

    def insert_before_loop(self, loop: ast.For | ast.While, *lines: str) -> None:
        """Writes statements before a loop."""
        indent = self.indent_of(loop)
        if indent != self.line_before(loop):
            raise Unsure("the loop shares its line with another statement")
        self._insert(self.text.line_start(loop.lineno), "".join(f"{indent}{line}\n" for line in lines))

    def indent_of(self, statement: ast.stmt) -> str:
        """The white space that the line of a statement begins with."""
        line = self.script.lines[statement.lineno - 1]
        return line[: len(line) - len(line.lstrip())]

    def line_before(self, statement: ast.stmt) -> str:
        """What stands before a statement on its line."""
        return self._before_on_line(self.text.start(statement))

    def insert_first(self, function: ast.FunctionDef, *lines: str) -> None:
        """Writes statements before all others of a function, behind its docstring."""
        body = function.body
        documented = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and len(body) > 1
        first = body[1] if documented else body[0]
        start = self.text.line_start(_first_line(first))
        indent = self._before_on_line(self.text.start(first))
        if indent.strip() or first.lineno == function.lineno:
            raise Unsure("the statement shares its line with another one")
        tab = "\t" if "\t" in indent else "    "
        written = [line.replace("    ", tab) if line.startswith("    ") else line for line in lines]
        self._insert(start, "".join(f"{indent}{line}\n" for line in written))

    def decorate(self, function: ast.FunctionDef, decorator: str) -> None:
        """Puts a decorator nearest to a function."""
        start = self.text.line_start(function.lineno)
        indent = self._before_on_line(self.text.start(function))
        self._insert(start, f"{indent}@{decorator}\n")

    def remove_statement(self, statement: ast.stmt) -> None:
        """Takes a statement out, with its lines; a block that it was alone in keeps a `pass`."""
        end = self.text.end(statement)
        start = self.text.line_start(_first_line(statement)) + len(self.indent_of(statement))
        start = start if _first_line(statement) < statement.lineno else self.text.start(statement)
        before, stop = self._before_on_line(start), self._line_end(end)
        if before.strip() or _code(self.script.text[end:stop]):
            raise Unsure("the statement shares its line with another one")
        parent = self.script.parents[statement]
        blocks = [getattr(parent, name, []) for name in ("body", "orelse", "finalbody")]
        alone = any(isinstance(block, list) and statement in block and len(block) == 1 for block in blocks)
        if alone and not isinstance(parent, ast.Module):
            self.replacements.append(Replacement(start, end, "pass"))
        else:
            stop = min(stop + 1, len(self.script.text))
            self.replacements.append(Replacement(start - len(before), stop, ""))

    def hoist(self, statement: ast.stmt, loop: ast.stmt) -> None:
        """Moves a statement out of a loop, to the line before it."""
        end = statement.end_lineno or statement.lineno
        empty = end < len(self.script.lines) and not self.script.line(end + 1)
        with_empty = isinstance(statement, ast.FunctionDef) and empty  # the empty line behind a function goes with it
        if with_empty:
            start = self.text.line_start(_first_line(statement))
            self.replacements.append(Replacement(start, self.text.line_start(end + 2), ""))
        else:
            self.remove_statement(statement)
        self.copy_out(statement, loop, "\n" if with_empty else "")

    def copy_out(self, statement: ast.stmt, loop: ast.stmt, behind: str = "") -> None:
        """Writes a statement of a loop on the line before it, too."""
        inner, outer = (self._before_on_line(self.text.start(node)) for node in (statement, loop))
        end = self.text.end(statement)
        shared = inner.strip() or outer.strip() or _code(self.script.text[end : self._line_end(end)])
        if shared or any(_spans_lines(node) for node in ast.walk(statement)):
            raise Unsure("the statement cannot be moved as it is written")
        lines = self.script.lines[_first_line(statement) - 1 : statement.end_lineno]
        moved = [outer + line.removeprefix(inner) if line.strip() else line for line in lines]
        self._insert(self.text.line_start(loop.lineno), "".join(f"{line}\n" for line in moved) + behind)

    # --- text ----------------------------------------------------------------------------------------------

    def _insert(self, position: int, text: str) -> None:
        self.replacements.append(Replacement(position, position, text))

    def _before_on_line(self, position: int) -> str:
        return self.script.text[self.script.text.rfind("\n", 0, position) + 1 : position]

    def _line_end(self, position: int) -> int:
        found = self.script.text.find("\n", position)
        return found if found >= 0 else len(self.script.text)


def _first_line(statement: ast.stmt) -> int:
    """The line where a statement begins, decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _spans_lines(node: ast.AST) -> bool:
    """Whether a node is a text over several lines, which must not be indented otherwise."""
    return isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno != node.lineno


def _code(rest: str) -> str:
    """What of the end of a line is no comment."""
    return re.sub(r"#.*", "", rest).strip()
