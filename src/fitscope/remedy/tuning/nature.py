"""What the functions and sources of a tf.data pipeline do: may they be called in parallel, may they be cached?

The answer comes from the operations that TensorFlow has traced. What is not known to be harmless counts as harmful.
"""

from __future__ import annotations

import dis
import gc
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import op_def_registry
from tensorflow.python.ops import script_ops

from fitscope.remedy.tuning.pipeline import datasets

_PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")

_CALLS = ("If", "While", "Case", "StatefulPartitionedCall")
"""Stateful only as far as the functions are that they call, and those are looked at."""

_SOURCES = (
    "RangeDataset",
    "TensorDataset",
    "TensorSliceDataset",
    "TFRecordDataset",
    "TFRecordDatasetV2",
    "TextLineDataset",
    "FixedLengthRecordDataset",
    "FixedLengthRecordDatasetV2",
)
"""Datasets within a function that give the same elements whenever they are read."""

_READS_VARIABLES = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarHandleOp")

_WAITS = (*_PYTHON, "ReadFile", "TFRecordDataset", "TFRecordDatasetV2", "TextLineDataset")


_REPEATABLE = {
    *("_RangeDataset", "_TensorDataset", "_TensorSliceDataset", "_ListDataset", "_WindowDataset"),
    *("TFRecordDatasetV2", "TextLineDatasetV2", "FixedLengthRecordDatasetV2", "_ZipDataset", "_ConcatenateDataset"),
    *("_MapDataset", "_FilterDataset", "_FlatMapDataset", "_InterleaveDataset", "_UnbatchDataset", "_OptionsDataset"),
    *("_BatchDataset", "_PaddedBatchDataset", "_PrefetchDataset", "_RepeatDataset", "_TakeDataset", "_SkipDataset"),
    "_ShardDataset",
}
"""Datasets that give the same elements in each pass if their functions and inputs do."""


@dataclass(frozen=True)
class Nature:
    """What is known of a function: its `reason` says why it must be called in turn, if it must."""

    pure: bool
    """The same result for the same argument, today and in the next epoch."""
    reason: str | None
    stateless: bool
    """TensorFlow takes it for stateless and calls it in parallel by itself."""
    waits: bool
    """It may wait for something other than a core."""
    python: bool = False
    """It calls Python code, which gains by several threads only if it waits."""


def nature(wrapper: Any) -> Nature:
    """What a traced function of a pipeline does."""
    pure, reason, stateless, waits, python = True, None, True, False, False
    function = wrapper.function
    for operation in operations(function.graph):
        kind = operation.type
        waits |= kind in _WAITS
        if not _is_stateful(kind) and kind not in _PYTHON:
            continue
        stateless = False
        if kind in _PYTHON:
            pure, python = False, True
            reason = reason or _reason_of_python(operation.get_attr("token"))
        elif kind in _CALLS or kind in _SOURCES or kind == "Assert":
            continue
        elif kind in ("LookupTableFindV2", "LookupTableSizeV2"):
            pure &= _tables_are_constant(function.captured_inputs)
        elif kind in _READS_VARIABLES:
            pure = False
        elif (seeds := _seeds(operation)) is not None:
            pure = False
            if seeds != (0, 0):
                reason = reason or "its random numbers are seeded"
        else:
            pure = False
            reason = reason or f"its operation {kind} has a state"
    return Nature(pure, reason, stateless, waits, python)


def is_deterministic(dataset: Any) -> bool:
    """Whether a dataset gives the same elements in the same order in each pass."""
    for each in datasets(dataset):
        name = type(each).__name__
        if name in ("_ParallelMapDataset", "_ParallelBatchDataset"):
            order = each._deterministic
            if order == "false" or (order == "default" and each.options().deterministic is False):
                return False
        elif name == "_ShuffleDataset":
            if each._reshuffle_each_iteration is not False:
                return False
        elif name not in _REPEATABLE:
            return False
        if getattr(each, "_num_parallel_reads", None) is not None:
            return False
        if not all(nature(function).pure for function in each._functions()):
            return False
    return True


def operations(graph: Any) -> Iterator[Any]:
    """The operations of a function and of all functions that it calls."""
    pending, seen = [graph], set[str]()
    while pending:
        graph = pending.pop()
        for operation in graph.get_operations():
            yield operation
            for value in operation.node_def.attr.values():
                for name in [value.func.name, *(each.name for each in value.list.func)]:
                    if name and name not in seen:
                        seen.add(name)
                        pending.append(graph._get_function(name).graph)


def variables(dataset: Any) -> list[Any]:
    """The variables that the functions of a pipeline read or change: a random layer keeps its state in one."""
    found: dict[int, Any] = {}
    for each in datasets(dataset):
        for wrapper in each._functions():
            found.update({id(variable): variable for variable in wrapper.function.variables})
    return list(found.values())


def _is_stateful(kind: str) -> bool:
    definition = op_def_registry.get(kind)
    return definition is None or bool(definition.is_stateful)


def _seeds(operation: Any) -> tuple[int, int] | None:
    """The seeds of an operation that draws random numbers; both zero if it draws them afresh."""
    try:
        return operation.get_attr("seed"), operation.get_attr("seed2")
    except ValueError:
        return None


def _tables_are_constant(captured: list[Any]) -> bool:
    """Whether all tables among what a function captured are of the kind that cannot change.

    The handle alone does not tell: its owner is looked for.
    """
    handles = {id(each) for each in captured if each.dtype == tf.resource}
    tables = (each for each in gc.get_objects() if type(each) is tf.lookup.StaticHashTable)
    constant = {id(each.resource_handle) for each in tables}
    return handles <= constant


def _reason_of_python(token: bytes) -> str | None:
    """Why a Python function must be called in turn, as far as its code shows."""
    draws = False
    for code, named in _codes(script_ops._py_funcs._funcs.get(token.decode())):
        for line in dis.get_instructions(code):
            outer = line.opname == "STORE_DEREF" and line.argval in code.co_freevars
            if outer or line.opname in ("STORE_GLOBAL", "STORE_ATTR"):
                return f"its Python code changes {line.argval!r}"
        for each in named:
            if isinstance(each, (np.random.Generator, np.random.RandomState, random.Random)):
                return "its Python code draws from a generator that may be seeded"
            if isinstance(each, Iterator):
                return f"its Python code reads from an iterator ({type(each).__name__})"
        draws |= any("random" in name or "rng" in name for name in code.co_names)
    if draws and context.global_seed() is not None:
        return "its Python code draws random numbers, and a seed is set"
    return None


def _codes(function: Any) -> Iterator[tuple[CodeType, list[Any]]]:
    """The code of a function, and of those that it names or holds, with the objects that it names or holds."""
    pending, seen = [function], set[int]()
    while pending and len(seen) < 200:
        each = pending.pop()
        if id(each) in seen or isinstance(each, (type, ModuleType)):
            continue
        seen.add(id(each))
        if isinstance(each, FunctionType):
            held = [cell.cell_contents for cell in each.__closure__ or () if _is_filled(cell)]
            held += each.__defaults__ or ()
            if (each.__module__ or "").split(".")[0] in _LIBRARIES:
                pending += [value for value in held if callable(value)]
                continue
            nested = [each.__code__]
            while nested:
                code = nested.pop()
                nested += [value for value in code.co_consts if isinstance(value, CodeType)]
                named = held + [each.__globals__[name] for name in code.co_names if name in each.__globals__]
                yield code, named
                pending += [value for value in named if callable(value)]
        elif isinstance(each, MethodType):
            pending += [each.__func__, each.__self__]
        elif isinstance(each, partial):
            pending += [each.func, *each.args, *each.keywords.values()]
        elif isinstance(each, script_ops.EagerFunc):
            pending.append(each._func)
        elif type(each).__module__.split(".")[0] not in (*_LIBRARIES, "builtins"):
            pending.append(vars(type(each)).get("__call__"))
            yield _NOTHING, list(getattr(each, "__dict__", {}).values())


_LIBRARIES = ("tensorflow", "numpy", "keras", "scipy", "PIL", "cv2", "pandas")

_NOTHING = compile("", "<nothing>", "exec")


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
