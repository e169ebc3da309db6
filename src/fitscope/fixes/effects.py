"""Whether a function may be called in another order, in another thread or from a graph."""

from __future__ import annotations

import ast

from fitscope.source import Script
from fitscope.syntax import Function, listed

RANDOM = listed(
    "jax.random. keras.random. numpy.random. random. secrets. tensorflow.image.random_ tensorflow.random. torch.rand "
    "torch.normal torch.multinomial torch.bernoulli uuid."
)
PURE_METHODS = frozenset(
    listed(
        "argmax argmin astype clip copy count decode encode endswith find flatten format get index item items join "
        "keys lower max mean min ndim numpy prod ravel repeat replace reshape rstrip size split squeeze startswith "
        "std strip sum swapaxes take tobytes tolist transpose upper values view"
    )
)
"""Methods of arrays, strings and dictionaries that change nothing."""
PYTHON_VALUES = listed("bool float int print input open breakpoint")
"""What needs values, not the tensors of a graph, or happens once instead of in every step."""


def state_of(script: Script, function: Function | None, depth: int = 3) -> str | None:
    """Why the calls of a function may depend on their order; None where each stands for itself."""
    if function is None:
        return "its code is out of sight"
    for node in script.own(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            return f"it changes {node.names[0]}, which other calls see"
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return "it is a generator"
        targets = (
            node.targets
            if isinstance(node, ast.Assign | ast.Delete)
            else [node.target]
            if isinstance(node, ast.AugAssign | ast.AnnAssign)
            else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute | ast.Subscript) and _outer(script, target, function):
                return f"it changes {ast.unparse(target)}, which other calls see"
        if isinstance(node, ast.Call):
            found = _state_of_call(script, node, function, depth)
            if found is not None:
                return found
    return None


def _state_of_call(script: Script, call: ast.Call, function: Function, depth: int) -> str | None:
    name = script.called(call)
    if name.startswith(RANDOM):
        return f"it draws random numbers ({name})"
    if name == "next" or name == "print":
        return f"it calls {name}"
    inner = script.function(call.func)
    if inner is not None and inner is not function:
        return state_of(script, inner, depth - 1) if depth else "its code is nested too deeply to be judged"
    made = script.local_class(call.func)
    if made is not None and depth:
        for method in script.methods(made).values():
            for each in script.own_calls(method):
                if script.called(each).startswith(RANDOM):
                    return f"it draws random numbers ({script.called(each)})"
    if isinstance(call.func, ast.Attribute) and script.dotted(call.func) is None:
        owner = call.func.value
        if _outer(script, owner, function) and call.func.attr not in PURE_METHODS:
            return f"it calls {ast.unparse(call.func)}, which may keep something between calls"
    if isinstance(call.func, ast.Name) and inner is None and made is None:
        bindings = script.bindings(call.func)
        if bindings and all(binding.how in ("assign", "parameter", "other") for binding in bindings):
            return f"it calls {name}, whose code is out of sight"
    return None


def _outer(script: Script, node: ast.AST, function: Function) -> bool:
    """Whether an expression is about something that a function did not make itself."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    if node.id in ("self", "cls"):
        return True
    bindings = script.bindings(node)
    inside = [each for each in bindings if script.function_of(each.node) is function or each.node is function]
    parameters = set(script.parameters(function))
    return not inside and node.id not in parameters


def graph_obstacle(script: Script, function: Function, depth: int = 2) -> str | None:
    """Why a function might do something else in a graph than it does step by step; None if it surely does not."""
    for node in script.own(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            return f"it changes {node.names[0]}, which a graph would do once only"
        if isinstance(node, ast.Try | ast.Assert | ast.Raise | ast.Yield | ast.YieldFrom):
            return f"its line {node.lineno} would be gone through once, when the graph is made"
        targets = (
            node.targets
            if isinstance(node, ast.Assign | ast.Delete)
            else [node.target]
            if isinstance(node, ast.AugAssign)
            else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute | ast.Subscript) and _outer(script, target, function):
                return f"it changes {ast.unparse(target)}, which a graph would do once only"
            if isinstance(node, ast.AugAssign) and _outer(script, target, function):
                return f"it changes {ast.unparse(target)}, which a graph would do once only"
        if isinstance(node, ast.Call):
            name = script.called(node)
            last = name.rpartition(".")[2]
            if name in PYTHON_VALUES or last in ("numpy", "item", "append", "write", "info", "debug"):
                return f"it calls {name.removeprefix('.')}, which in a graph happens once or fails"
            if name.startswith(("numpy.", "random.", "time.", "matplotlib.")):
                return f"it calls {name}, which in a graph happens once"
            inner = script.function(node.func)
            if inner is not None and inner is not function and depth:
                found = graph_obstacle(script, inner, depth - 1)
                if found is not None:
                    return found
    return None


def drawn(script: Script, function: Function, depth: int = 2) -> str | None:
    """What a function draws random numbers with of which a graph draws others, itself or through functions."""
    for call in script.own_calls(function):
        name, inner = script.called(call), script.function(call.func)
        if name.startswith("tensorflow.random."):
            return name
        if inner is not None and inner is not function and depth:
            found = drawn(script, inner, depth - 1)
            if found is not None:
                return found
    return None
