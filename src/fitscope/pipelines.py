"""The tf.data pipelines of a script: chains of methods, followed through assignments and functions."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from fitscope.names import Function, listed
from fitscope.syntax import Syntax

METHODS = listed(
    "apply as_numpy_iterator batch bucket_by_sequence_length cache concatenate enumerate filter flat_map interleave "
    "map padded_batch prefetch ragged_batch rebatch repeat shard shuffle skip snapshot take take_while unbatch "
    "unique window with_options"
)
TELLING = set(listed("interleave padded_batch prefetch ragged_batch unbatch with_options"))
"""Methods that hardly anything but a tf.data.Dataset has: they tell one that is made out of sight."""

MAKERS = (
    "keras.preprocessing.image_dataset_from_directory",
    "keras.utils.audio_dataset_from_directory",
    "keras.utils.image_dataset_from_directory",
    "keras.utils.text_dataset_from_directory",
    "keras.utils.timeseries_dataset_from_array",
    "tensorflow.data.Dataset.",
    "tensorflow.data.FixedLengthRecordDataset",
    "tensorflow.data.TFRecordDataset",
    "tensorflow.data.TextLineDataset",
    "tensorflow.data.experimental.make_csv_dataset",
    "tensorflow_datasets.load",
)


@dataclass(frozen=True)
class Link:
    """One call in a chain of tf.data methods."""

    name: str
    node: ast.Call
    sure: bool
    """False where the call stands below an `if` or in a loop: the pipeline may do without it."""

    @property
    def line(self) -> int:
        """The line on which the method is named: in a chain over many lines each has its own."""
        return self.node.func.end_lineno or self.node.lineno


@dataclass(frozen=True)
class Chain:
    """A tf.data pipeline from its source to its last method, as far as the script shows it."""

    links: tuple[Link, ...]

    def after(self, link: Link) -> tuple[Link, ...]:
        """The links behind one of them."""
        return self.links[self.links.index(link) + 1 :]

    def before(self, link: Link) -> tuple[Link, ...]:
        """The links in front of one of them."""
        return self.links[: self.links.index(link)]


def chains(script: Syntax) -> list[Chain]:
    """Every pipeline of a script that is not the beginning of a longer one, first to last."""
    flow = _Flow(script)
    flow.block(script.tree.body, {}, sure=True)
    for function in script.functions:
        if not isinstance(function, ast.Lambda) and flow.handles_datasets(function):
            flow.block(function.body, {}, sure=True)
    beginnings = {key[:size] for key in flow.found for size in range(1, len(key))}
    kept = [chain for key, chain in flow.found.items() if key not in beginnings]
    return sorted(kept, key=lambda chain: chain.links[0].line)


Known = dict[str, Chain]


class _Flow:
    """Goes through statements in their order and remembers which name holds which pipeline."""

    def __init__(self, script: Syntax) -> None:
        self.script = script
        self.found: dict[tuple[int, ...], Chain] = {}
        self._depth = 0
        self._handles: dict[Function, bool] = {}

    def block(self, statements: list[ast.stmt], known: Known, *, sure: bool) -> Chain | None:
        """Follows a block of statements; gives the pipeline that it returns, if it returns one."""
        returned: Chain | None = None
        for statement in statements:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if isinstance(statement, ast.Return):
                if statement.value is not None:
                    returned = self.expression(statement.value, known, sure=sure) or returned
            elif isinstance(statement, ast.Assign):
                self.assign(statement, known, sure=sure)
            else:
                for node in ast.iter_child_nodes(statement):
                    if isinstance(node, ast.expr):
                        self.expression(node, known, sure=sure)
                returned = self.inner_blocks(statement, known, sure=sure) or returned
        return returned

    def assign(self, statement: ast.Assign, known: Known, *, sure: bool) -> None:
        """Gives its names what an assignment says."""
        chain = self.expression(statement.value, known, sure=sure)
        for target in statement.targets:
            if isinstance(target, ast.Name | ast.Attribute):
                name = ast.unparse(target)
                if chain is not None:
                    known[name] = chain
                else:
                    known.pop(name, None)

    def inner_blocks(self, statement: ast.stmt, known: Known, *, sure: bool) -> Chain | None:
        """Follows the blocks of a compound statement."""
        if isinstance(statement, ast.If):
            # Both branches start from the same point; behind them a name holds the longer of its two pipelines.
            one, other = dict(known), dict(known)
            first = self.block(statement.body, one, sure=False)
            second = self.block(statement.orelse, other, sure=False)
            for name in {*one, *other}:
                held = [branch[name] for branch in (one, other) if name in branch]
                known[name] = max(held, key=lambda chain: len(chain.links))
            return first or second
        returned: Chain | None = None
        certain = sure and isinstance(statement, ast.With | ast.AsyncWith | ast.Try)
        for field in ("body", "orelse", "finalbody"):
            inner = getattr(statement, field, None)
            if isinstance(inner, list):
                returned = self.block(inner, known, sure=certain) or returned
        return returned

    def expression(self, node: ast.expr, known: Known, *, sure: bool) -> Chain | None:
        """The pipeline that an expression stands for; those that it contains are noted on the way."""
        if isinstance(node, ast.Name | ast.Attribute):
            return known.get(ast.unparse(node)) if known else None
        if isinstance(node, ast.Lambda):
            return None
        if not isinstance(node, ast.Call):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.expression(child, known, sure=sure)
            return None
        given = [self.expression(item, known, sure=sure) for item in node.args]
        named = {word.arg: self.expression(word.value, known, sure=sure) for word in node.keywords}
        if self.script.called(node).startswith(MAKERS):
            return self.note((), node, sure=sure)
        if isinstance(node.func, ast.Attribute) and self.script.dotted(node.func) is None:
            start = self.expression(node.func.value, known, sure=sure)
            if start is not None:
                return self.note(start.links, node, sure=sure) if node.func.attr in METHODS else None
            if node.func.attr in METHODS and self.looks_like_dataset(node):
                return self.note((), node, sure=sure)
        function = self.script.function(node.func)
        if isinstance(function, ast.FunctionDef) and self._depth < 3 and self.handles_datasets(function):
            names = self.script.parameters(function)
            pairs: dict[str | None, Chain | None] = dict(zip(names, given, strict=False))
            pairs.update(named)
            self._depth += 1
            inside = {name: chain for name, chain in pairs.items() if name and chain is not None}
            returned = self.block(function.body, inside, sure=sure)
            self._depth -= 1
            return returned
        return None

    def handles_datasets(self, function: Function) -> bool:
        """Whether a function calls anything that a pipeline is made with, itself or one call further."""
        if function not in self._handles:
            self._handles[function] = False
            for call in self.script.own_calls(function):
                name = self.script.called(call)
                inner = self.script.function(call.func)
                if (
                    name.startswith(MAKERS)
                    or name.removeprefix(".") in METHODS
                    or (inner is not None and self.handles_datasets(inner))
                ):
                    self._handles[function] = True
                    break
        return self._handles[function]

    def looks_like_dataset(self, call: ast.Call) -> bool:
        """Whether the methods called one after the other are those of a dataset that is made out of sight."""
        names: set[str] = set()
        node: ast.AST | None = call
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names.add(node.func.attr)
            access = self.script.parents.get(node)
            node = self.script.parents.get(access) if isinstance(access, ast.Attribute) else None
        return bool(names & TELLING)

    def note(self, start: tuple[Link, ...], call: ast.Call, *, sure: bool) -> Chain:
        """Keeps a pipeline among those found."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else self.script.called(call).rpartition(".")[2]
        chain = Chain((*start, Link(name, call, sure)))
        self.found[tuple(id(link.node) for link in chain.links)] = chain
        return chain
