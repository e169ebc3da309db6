"""Whether what an expression gives is only read afterwards, so that the same object may be handed out again."""

from __future__ import annotations

import ast

from fitscope.effects import INTO_ARGUMENTS
from fitscope.names import listed
from fitscope.source import LOADER_BASES, Script

ARRAYS = listed("jax.numpy. keras.ops. keras.utils. numpy. tensorflow. torch.")
"""Modules whose functions change none of their arguments, but for those that are there to."""
COPIES = frozenset(
    listed(
        "append argmax argmin array concatenate copy fromiter hstack isnan mean max min pad repeat resize round "
        "stack std sum tensor tile vstack where zeros_like"
    )
)
"""Functions of theirs that surely give something new; what others give may be the same memory."""
SAME_MEMORY = frozenset(
    listed(
        "as_tensor asarray ascontiguousarray atleast_1d atleast_2d atleast_3d broadcast_to expand_dims from_numpy "
        "moveaxis ravel reshape squeeze swapaxes transpose"
    )
)
"""Methods of arrays whose result may be the memory of their object."""
PARTS = frozenset(listed("copy get items values"))
"""Methods whose result may hold what their object holds: the copy of a dictionary has the same arrays."""
CONTAINERS = listed("enumerate list max min reversed sorted tuple zip")
NEW_VALUES = frozenset(
    listed(
        "all any argmax argmin astype clip count cumsum decode encode endswith find flatten format index item join "
        "keys lower max mean min prod repeat round split startswith std strip sum take tobytes tolist upper var"
    )
)
"""Methods that change nothing and give something new."""
INTO_ARRAYS = listed("numpy.empty numpy.full numpy.ones numpy.zeros numpy.empty_like numpy.zeros_like")
DEEPEST = 40


def only_read(script: Script, node: ast.expr, depth: int = DEEPEST) -> bool:
    """Whether nobody who gets hold of a value changes it; a batch that goes to Keras or to a DataLoader is read."""
    if not depth:
        return False
    parent = script.parents.get(node)
    if isinstance(parent, ast.Tuple | ast.List | ast.Starred | ast.IfExp | ast.keyword | ast.Dict):
        if isinstance(parent, ast.IfExp) and node is parent.test:
            return True
        if isinstance(parent, ast.keyword):
            call = script.parents.get(parent)
            return isinstance(call, ast.Call) and parent.arg != "out" and _read_by(script, call, node, depth)
        return only_read(script, parent, depth - 1)
    if isinstance(parent, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        return only_read(script, parent, depth - 1)
    if isinstance(parent, ast.BinOp):
        return not isinstance(parent.op, ast.Add) or only_read(script, parent, depth - 1)
    if isinstance(parent, ast.Compare | ast.UnaryOp | ast.Expr | ast.FormattedValue):
        return True
    if isinstance(parent, ast.Call):
        return _read_by(script, parent, node, depth)
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.ctx, ast.Load) and (node is not parent.value or only_read(script, parent, depth - 1))
    if isinstance(parent, ast.Attribute):
        return _read_through(script, parent, depth)
    if isinstance(parent, ast.Assign):
        return all(_kept(script, target, depth) for target in parent.targets)
    if isinstance(parent, ast.For | ast.comprehension) and node is parent.iter:
        return _kept(script, parent.target, depth)
    if isinstance(parent, ast.Return | ast.Yield):
        return _handed_on(script, parent, depth)
    return False


def _read_by(script: Script, call: ast.Call, node: ast.expr, depth: int) -> bool:
    """Whether a call does not change its argument, and neither does who gets the result, if that may be the same."""
    name = script.called(call)
    last = name.rpartition(".")[2]
    if node is call.func or _is_told_to_change(call):
        return False
    if isinstance(call.func, ast.Name) and script.bindings(call.func) and script.dotted(call.func) is None:
        return False  # a function of the script, even if it is called len
    if name in ("len", "print", "str", "int", "float", "isinstance", "range", "sum", "any", "all"):
        return True
    if name in CONTAINERS:
        return only_read(script, call, depth - 1)
    if name.startswith(ARRAYS):
        changes = last in INTO_ARGUMENTS or last.endswith("_")
        return not changes and (last in COPIES or only_read(script, call, depth - 1))
    if script.method(call) in ("count", "get", "index"):
        return True
    if script.method(call) in ("append", "extend") and isinstance(call.func, ast.Attribute):
        return isinstance(call.func.value, ast.Name) and _kept(script, call.func.value, depth)
    return False


def _read_through(script: Script, attribute: ast.Attribute, depth: int) -> bool:
    """`value.copy()`, `value.shape`, `value.T`."""
    if not isinstance(attribute.ctx, ast.Load):
        return False
    call = script.parents.get(attribute)
    if isinstance(call, ast.Call) and call.func is attribute:
        if _is_told_to_change(call):
            return False
        same = attribute.attr in SAME_MEMORY or attribute.attr in PARTS
        return attribute.attr in NEW_VALUES or (same and only_read(script, call, depth - 1))
    if attribute.attr in ("shape", "ndim", "size", "dtype"):
        return True
    return attribute.attr == "T" and only_read(script, attribute, depth - 1)


def _is_told_to_change(call: ast.Call) -> bool:
    """`out=…`, `copy=False`, `inplace=True`."""
    return any(keyword.arg in ("copy", "inplace", "out") for keyword in call.keywords)


def _kept(script: Script, target: ast.expr, depth: int) -> bool:
    """Whether a value may be kept under a name, or copied into an array: what is done with it is only reading."""
    if isinstance(target, ast.Tuple | ast.List):
        return all(_kept(script, item, depth) for item in target.elts)
    if isinstance(target, ast.Starred):
        return _kept(script, target.value, depth)
    if isinstance(target, ast.Subscript):
        made = script.values(target.value)
        return bool(made) and all(
            isinstance(value, ast.Call) and script.called(value) in INTO_ARRAYS for value in made
        )
    if not isinstance(target, ast.Name) or depth <= 1:
        return False
    bindings = script.bindings(target)
    same = [each for each in _named(script, target.id) if script.bindings(each) is bindings]
    for each in same:
        parent = script.parents.get(each)
        if isinstance(parent, ast.AugAssign) and parent.target is each:
            return False
        if isinstance(parent, ast.Subscript) and parent.value is each and not isinstance(parent.ctx, ast.Load):
            return False
        if isinstance(each.ctx, ast.Load) and not _grows(script, each) and not only_read(script, each, depth // 2):
            return False
    return True


def _named(script: Script, name: str) -> list[ast.Name]:
    return [node for node in script.parents if isinstance(node, ast.Name) and node.id == name]


def _grows(script: Script, name: ast.Name) -> bool:
    """`rows.append(…)`: the list is another one then, and what is in it stays."""
    parent = script.parents.get(name)
    return (
        isinstance(parent, ast.Attribute)
        and parent.attr in ("append", "clear", "extend")
        and isinstance(script.parents.get(parent), ast.Call)
    )


def _handed_on(script: Script, node: ast.Return | ast.Yield, depth: int) -> bool:
    """Whether those who get what a function returns only read it."""
    function = script.function_of(node)
    if function is None:
        return False
    if any(loader.function is function for loader in script.loaders()):
        return True
    owner = script.class_of(function)
    item = getattr(function, "name", "") == "__getitem__"
    if item and owner is not None and script.derives(owner, LOADER_BASES):
        return True
    callers = script.callers(function)
    if isinstance(node, ast.Yield) or not callers or script.mentioned(function):
        return False
    return all(only_read(script, call, depth // 2) for call in callers)
