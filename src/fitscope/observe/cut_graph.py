"""Cutting what computes some values out of a TensorFlow graph, so that it can run alone, on made-up values."""

from __future__ import annotations

import math
import re
import sys
from typing import Any

ASSIGNS = ("AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp")
LOOPS = ("StatelessWhile", "While")
MOST_OPERATIONS = 20_000
PER_OPERATION, PER_NUMBER = 3e-6, 4e-9
"""Seconds that no simple operation takes, and no number of its result."""
MOST_NUMBERS = 20_000_000
"""More is not made up."""
HARD = re.compile(
    "Call|Case|Cholesky|Conv|CTC|EditDistance|Einsum|FFT|If$|MatMul|Qr|Resize|Sort|Svd|TopK|Unique|While"
)
"""Operations that take longer than by the numbers of their results."""


def extent(tensor: Any) -> int:
    """How far a graph has come."""
    return len(tensor.graph.get_operations())


def cut(before: int, given: tuple[Any, ...], variables: list[Any], batch_size: int | None) -> Part | None:
    """What computes the new values of variables, of all that a graph gained since; None if it cannot be cut out."""
    graph = next(tensor.graph for tensor in given if hasattr(tensor, "graph"))
    handles = {id(graph.capture(variable._value.handle)) for variable in variables}
    new = graph.get_operations()[before:]
    targets = [op.inputs[1] for op in new if op.type in ASSIGNS and id(op.inputs[0]) in handles]
    if not targets or len(new) > MOST_OPERATIONS:
        return None
    made = {id(op) for op in new}
    inside: dict[str, Any] = {}
    edges: dict[str, Any] = {}
    pending = list(targets)
    while pending:
        tensor = pending.pop()
        op = tensor.op
        if op.name in inside or tensor.name in edges:
            continue
        if op.type == "Const":
            inside[op.name] = op
        elif id(op) not in made or op.type in ("Placeholder", "ReadVariableOp"):
            if tensor.dtype.name in ("resource", "variant", "string") or tensor.shape.rank is None:
                return None
            edges[tensor.name] = tensor
        elif not _harmless(op):
            return None
        else:
            inside[op.name] = op
            pending += list(op.inputs)
    return Part(graph, targets, inside, edges, batch_size or 32)


def _harmless(op: Any) -> bool:
    """Whether an operation may run on made-up values: it changes nothing, and it surely comes to an end."""
    if op.type in LOOPS:
        return op.type == "StatelessWhile" and _counts(op)
    return not op.op_def.is_stateful


def _counts(loop: Any) -> bool:
    """Whether a loop goes on by a number that counts, and by nothing that is computed."""
    name = loop.get_attr("cond").name
    function = loop.graph._get_function(name)
    kinds = {node.op for node in function.cached_definition.node_def} if function is not None else {"?"}
    return kinds <= {"Const", "Identity", "Less", "LogicalAnd", "NoOp"} and "Less" in kinds


class Part:
    """A piece of a graph that runs alone."""

    def __init__(
        self, graph: Any, targets: list[Any], inside: dict[str, Any], edges: dict[str, Any], batch: int
    ) -> None:
        self._graph = graph
        self._targets = [target.name for target in targets]
        self._inside = inside
        self._edges = edges
        self._batch = batch
        self._function: Any = None
        self._nothing: Any = None
        self._values: list[Any] = []

    def at_most(self) -> float:
        """Seconds that it takes in a step, by a guess that is too high."""
        if any(HARD.search(op.type) for op in self._inside.values()):
            return math.inf
        numbers = sum(self._numbers(tensor) for op in self._inside.values() for tensor in op.outputs)
        return PER_OPERATION * len(self._inside) + PER_NUMBER * numbers

    def _numbers(self, tensor: Any) -> float:
        return math.inf if tensor.shape.rank is None else math.prod(self._shape(tensor))

    def _shape(self, tensor: Any) -> list[int]:
        return [self._batch if size is None else size for size in tensor.shape.as_list()]

    def run(self) -> None:
        """Runs it once, to its end."""
        if self._function is None:
            self._build()
        for result in self._function(*self._values):
            result.numpy()

    def run_nothing(self) -> None:
        """Calls a function that takes and gives the same and computes nothing: what a call itself takes."""
        for result in self._nothing(*self._values):
            result.numpy()

    def _build(self) -> None:
        tf: Any = sys.modules["tensorflow"]
        numpy: Any = sys.modules["numpy"]
        whole = self._graph.as_graph_def()
        piece = tf.compat.v1.GraphDef()
        piece.versions.CopyFrom(whole.versions)
        piece.library.CopyFrom(whole.library)
        for node in whole.node:
            if node.name in self._inside:
                kept = piece.node.add()
                kept.CopyFrom(node)
                del kept.input[:]
                kept.input.extend(name for name in node.input if not name.startswith("^"))
        names = list(self._edges)
        if sum(self._numbers(tensor) for tensor in self._edges.values()) > MOST_NUMBERS:
            raise MemoryError("too much to be made up")
        random = numpy.random.default_rng(0)
        for tensor in self._edges.values():
            kind = tensor.dtype.as_numpy_dtype
            shape = self._shape(tensor)
            value = random.random(shape, "float32") if tensor.dtype.is_floating else numpy.zeros(shape, "int8")
            self._values.append(tf.constant(value.astype(kind)))

        def alone(*values: Any) -> Any:
            return tf.graph_util.import_graph_def(
                piece, input_map=dict(zip(names, values, strict=True)), return_elements=self._targets, name=""
            )

        def nothing(*values: Any) -> Any:
            return [tf.zeros(()) for _ in self._targets]

        self._function = tf.function(alone, autograph=False).get_concrete_function(*self._values)
        self._nothing = tf.function(nothing, autograph=False).get_concrete_function(*self._values)
