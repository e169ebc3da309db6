"""The traced functions of a tf.data pipeline: whether they give the same result each time, and their fingerprint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fitscope.remedy.storing.elements import StoreError
from fitscope.remedy.storing.fingerprint import Fingerprint


@dataclass(frozen=True)
class Nature:
    """Whether a function gives the same result for the same input, as far as its graph shows."""

    random: str | None = None
    """What in it is random or has a state, if anything."""
    python: tuple[Any, ...] = ()
    """The Python functions that it calls back: of those, nothing is known."""
    reads_files: bool = False


_STEADY = re.compile(
    r"^(ReadVariableOp|Assert|PrintV2|LookupTable(Find|Size)V2|(Eager)?PyFunc|PyFuncStateless|StatefulPartitionedCall"
    r"|If|While|Case|ReadFile|(?!.*(Shuffle|Random|Sampl|Iterator))\w*Dataset(V\d+)?)$"
)
"""Operations with a state whose result depends on their inputs alone; what functions inside do is looked at, too."""


def nature_of(function: Any) -> Nature:
    """Looks at every operation of a traced function and of those that it calls."""
    random: str | None = None
    python: list[Any] = []
    reads = False
    if any(variable.trainable for variable in function.graph.variables):
        random = "a variable that training changes"
    for graph in _graphs(function.graph):
        if graph is None:
            random = random or "a function that cannot be read"
            continue
        for operation in graph.get_operations():
            if operation.op_def.is_stateful and not _STEADY.match(operation.type):
                random = random or operation.type
            if "PyFunc" in operation.type:
                python.append(_called(operation))
            reads = reads or operation.type == "ReadFile"
    return Nature(random, tuple(python), reads)


def digest(function: Any, fingerprint: Fingerprint) -> None:
    """Adds a traced function, and the values that it reads from outside, to a fingerprint."""
    _digest_graph(function.graph, fingerprint, {})
    for captured in function.captured_inputs:
        fingerprint.add(_captured(captured, function.graph))


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph and those of the functions it calls, each once; None for one that is not to be had."""
    pending: list[Any] = [graph]
    seen: set[str] = set()
    while pending:
        current = pending.pop()
        yield current
        if current is None:
            continue
        for operation in current.get_operations():
            for name in _function_names(operation):
                if name not in seen:
                    seen.add(name)
                    pending.append(_function_graph(current, name))


def _function_names(operation: Any) -> Iterator[str]:
    for attribute in operation.node_def.attr.values():
        kind = attribute.WhichOneof("value")
        if kind == "func":
            yield attribute.func.name
        elif kind == "list":
            yield from (each.name for each in attribute.list.func)


def _function_graph(graph: Any, name: str) -> Any:
    found = graph._functions.get(name) or graph._functions.get(name.encode())
    return getattr(found, "graph", None)


def _called(operation: Any) -> Any:
    """The Python function behind an operation that calls one back."""
    from tensorflow.python.ops import script_ops

    function = script_ops._py_funcs.get(operation.get_attr("token").decode())
    return getattr(function, "_func", function)


_NAMES = ("token", "_user_specified_name", "shared_name", "config_proto", "config", "_class")
"""Attributes that TensorFlow numbers anew each time, or that do not change a result."""


def _digest_graph(graph: Any, fingerprint: Fingerprint, known: dict[str, int]) -> None:
    """Adds a graph without the names in it."""
    operations = graph.get_operations()
    numbers = {operation.name: number for number, operation in enumerate(operations)}
    for operation in operations:
        inputs = [(numbers[tensor.op.name], tensor.value_index) for tensor in operation.inputs]
        before = sorted(numbers[each.name] for each in operation.control_inputs)
        fingerprint.note(operation.type, inputs, before)
        attributes = operation.node_def.attr
        for key in sorted(attributes):
            value = attributes[key]
            named = value.WhichOneof("value") == "func" or len(value.list.func) > 0
            if key not in _NAMES and not named:
                fingerprint.note(key, value.SerializeToString(deterministic=True))
        for name in _function_names(operation):
            new = name not in known
            fingerprint.note("calls", known.setdefault(name, len(known)))
            inner = _function_graph(graph, name)
            if new and inner is not None:
                _digest_graph(inner, fingerprint, known)
        if "PyFunc" in operation.type:
            called = _called(operation)
            if called is None:
                raise StoreError("it calls Python code that cannot be found again")
            fingerprint.add(called)
    fingerprint.note([(numbers[tensor.op.name], tensor.value_index) for tensor in graph.outputs])


def _captured(tensor: Any, graph: Any) -> Any:
    """The value of a tensor, variable or lookup table that a function reads from outside."""
    import tensorflow as tf

    if tensor.dtype not in (tf.resource, tf.variant):
        return tensor.numpy()
    for variable in graph.variables:
        if variable.handle is tensor:
            return variable.numpy()
    graphs = [inner for inner in _graphs(graph) if inner is not None]
    for table in (each for inner in graphs for each in inner.get_operations() if each.type == "LookupTableFindV2"):
        keys, values = table.get_attr("Tin"), table.get_attr("Tout")
        try:
            both = tf.raw_ops.LookupTableExportV2(table_handle=tensor, Tkeys=keys, Tvalues=values)
        except (tf.errors.OpError, ValueError):
            continue
        return sorted(zip(both[0].numpy().tolist(), both[1].numpy().tolist(), strict=True), key=repr)
    raise StoreError("it uses a resource whose content cannot be read, so that a change of it would go unnoticed")
