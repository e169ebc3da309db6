"""Functions that may as well be called on a whole batch, because each number of their result depends on one number.

`map(f).batch(n)` equals `batch(n).map(f)` bit for bit if `f` consists of operations that compute each number by
itself and round it correctly (so that the place of a number in memory cannot matter, as it does for `exp`), and if no
operand changes its alignment when a dimension is put in front.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

_SAME_SHAPE = {
    *("Identity", "Cast", "Neg", "Abs", "Square", "Sqrt", "Round", "Floor", "Ceil", "Rint", "Sign", "Relu"),
    *("LogicalNot", "IsNan", "IsInf", "IsFinite", "ZerosLike", "OnesLike", "StopGradient"),
}

_BROADCAST = {
    *("AddV2", "Add", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "FloorDiv", "FloorMod", "SquaredDifference"),
    *("Maximum", "Minimum", "ClipByValue", "SelectV2", "LogicalAnd", "LogicalOr"),
    *("Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
}


def batched(wrapper: Any) -> Callable[..., Any] | None:
    """The traced function as one of whole batches, or None if it is not certain that it means the same."""
    graph = wrapper.function.graph
    inputs = list(graph.inputs)
    own = inputs[: len(inputs) - len(wrapper.function.captured_inputs)]
    if len(own) != len(inputs) or not all(each.shape.is_fully_defined() for each in own):
        return None
    flat = tf.nest.flatten((wrapper._input_structure, wrapper.output_structure))
    if not all(type(each) is tf.TensorSpec for each in flat):
        return None
    derived = {each.name for each in own}
    steps = []
    for operation in graph.get_operations():
        if operation.type in ("Placeholder", "Const", "NoOp"):
            continue
        varies = [each.name in derived for each in operation.inputs]
        if not _is_elementwise(operation, varies):
            return None
        derived.update(each.name for each in operation.outputs)
        steps.append(operation)
    if not all(each.name in derived for each in graph.outputs):
        return None
    return _replay(wrapper, steps)


def _is_elementwise(operation: Any, varies: list[bool]) -> bool:
    """Whether a new first dimension of the operands that vary passes through an operation untouched."""
    kind, inputs = operation.type, operation.inputs
    if operation.control_inputs or not any(varies):
        return False
    if kind in _SAME_SHAPE:
        return True
    if kind in _BROADCAST:
        ranks = {each.shape.rank for each, changes in zip(inputs, varies, strict=True) if changes}
        fixed = [each.shape.rank for each, changes in zip(inputs, varies, strict=True) if not changes]
        if len(ranks) != 1 or None in ranks or None in fixed:
            return False
        if kind == "ClipByValue" and any(fixed):
            return False
        return bool(max(fixed, default=0) <= ranks.pop())
    if varies != [True] + [False] * (len(varies) - 1):
        return False
    if kind == "OneHot":
        return bool(operation.get_attr("axis") == -1)
    if kind == "ExpandDims":
        axis = tf.get_static_value(inputs[1])
        return axis is not None and int(axis) < 0
    if kind == "StridedSlice":
        return bool(operation.get_attr("ellipsis_mask") & 1)
    return False


def _replay(wrapper: Any, steps: list[Any]) -> Callable[..., Any]:
    """A function that runs the operations again, one by one, on arguments with one more dimension."""
    graph = wrapper.function.graph
    structure = wrapper.output_structure

    def on_batches(*arguments: Any) -> Any:
        values = {inner.name: value for inner, value in zip(graph.inputs, tf.nest.flatten(arguments), strict=True)}
        for step in steps:
            operands = []
            for each in step.inputs:
                if each.name not in values:
                    values[each.name] = tf.constant(tf.get_static_value(each), each.dtype)
                operands.append(values[each.name])
            again = tf.compat.v1.get_default_graph().create_op(
                step.type,
                operands,
                [each.dtype for each in step.outputs],
                attrs={name: value for name, value in step.node_def.attr.items() if name != "_output_shapes"},
                name=step.name,
            )
            values.update(zip((each.name for each in step.outputs), again.outputs, strict=True))
        return tf.nest.pack_sequence_as(structure, [values[each.name] for each in graph.outputs])

    unconverted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(on_batches)
    return unconverted
