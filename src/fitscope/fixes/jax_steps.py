"""Edits of training steps written in JAX: compile them, and not again for every number or length."""

from __future__ import annotations

import ast
import math

from fitscope.effects import RANDOM, changes_outside, graph_obstacle, reached
from fitscope.fixes.draft import Unsure
from fitscope.fixes.execution import in_loop
from fitscope.fixes.kind import Kind, Place, Recompiled, only
from fitscope.model import Edit
from fitscope.names import Function, listed
from fitscope.rules.compiling import changes, is_longest, is_number
from fitscope.rules.eager import derivative, is_jax_step
from fitscope.source import Script

OF_KERAS = listed(
    "keras.optimizers. keras.metrics. keras.losses. keras.layers. keras.models. keras.Model keras.Sequential"
)
STATEFUL = listed("add_loss apply apply_gradients assign assign_add assign_sub reset_state result update_state")
"""Methods that change what Keras keeps, which a function that jax.jit compiles must not."""
ELEMENTWISE = frozenset(
    listed(
        "abs add array asarray clip cos divide exp float32 log log1p maximum minimum multiply power sigmoid sin sqrt "
        "square subtract tanh where"
    )
)
LENGTHS = (32, 16, 64, 128)
"""What the length of a batch may become a multiple of; the first, where no run tells what compiling takes."""


class JitStep(Kind):
    """A training step in JAX that only works on its arguments is compiled."""

    causes = ("eager-execution",)
    aside = True

    def edit(self, place: Place) -> Edit:
        """@jax.jit on it."""
        if place.project.backend not in (None, "jax"):
            raise Unsure("a training step is compiled by jax.jit on JAX only")
        found = [
            (text, function)
            for text in place.project.texts()
            for function in text.script.functions
            if isinstance(function, ast.FunctionDef) and is_jax_step(text.script, function)
        ]
        here = [(text, each) for text, each in found if text.path == place.text.path and each is place.function()]
        chosen = here or in_loop(place, found)
        text, function = only(chosen or found, "function of its own that is the training step")
        reason = _jit_obstacle(text.script, function)
        if reason is not None:
            raise Unsure(f"{function.name} cannot be compiled as it is: {reason}")
        draft = place.draft(text)
        draft.decorate(function, draft.name("jax.jit", function))
        return place.edit(draft, f"{function.name} is compiled; the losses may differ in the last digits")


def _jit_obstacle(script: Script, function: ast.FunctionDef) -> str | None:
    """Why a function might do something else when it is compiled; None if it surely does not."""
    inner = [each for call in script.own_calls(function) if (each := derivative(script, call)) is not None]
    for each in (function, *inner):
        reason = graph_obstacle(script, each) or changes_outside(script, each)
        if reason is not None:
            return reason
    for each in {item for part in (function, *inner) for item in reached(script, part)}:
        names = script.parameters(each)
        for node in script.own(each):
            if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Match | ast.For):
                return f"its line {node.lineno} decides or repeats"
            drawn = script.called(node) if isinstance(node, ast.Call) else ""
            if drawn.startswith(RANDOM) and not drawn.startswith("jax.random."):
                return f"it calls {drawn}, which would draw once"
            if isinstance(node, ast.Call) and script.method(node) in STATEFUL:
                return f"it calls {ast.unparse(node.func)}, which changes what Keras keeps"
            if isinstance(node, ast.Call) and script.is_model(node.func) and not script.method(node):
                return f"it calls {ast.unparse(node.func)} with the weights that it has"
            if isinstance(node, ast.BoolOp) and any(script.depends(item, names) for item in node.values):
                return f"its line {node.lineno} asks for a value"
    callers = script.callers(function)
    if not callers or not any(script.loops(call) for call in callers):
        return "no loop in sight calls it"
    for call in callers:
        named = [(word.arg or "", word.value) for word in call.keywords]
        for name, item in (*zip(script.parameters(function), call.args, strict=False), *named):
            if isinstance(item, ast.Starred) or not name or not _is_data(script, item):
                return f"{ast.unparse(item)}, which it is called with, may be no array"
            reason = _other_use(script, function, name) if is_number(script, item) else None
            if reason is not None:
                return reason
    return None


def _is_data(script: Script, node: ast.expr, depth: int = 3) -> bool:
    """Whether an argument may be an array, a number or a tree of them: it is no string, switch, function or model.

    The batches of another framework are no arrays of JAX, either.
    """
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    for binding in script.bindings(node) if isinstance(node, ast.Name) else ():
        source = binding.node.value if isinstance(binding.node, ast.Assign) else None
        if binding.how == "loop" and script.modules & {"tensorflow", "torch"}:
            return False
        if (
            binding.how == "other"
            and isinstance(source, ast.Name)
            and not (depth and _is_data(script, source, depth - 1))
        ):
            return False
        function = script.function_of(binding.node)
        if isinstance(binding.node, ast.arg) and function is not None:
            given = script.given(function, binding.node.arg)
            if not (
                depth and given and all(each is not None and _is_data(script, each, depth - 1) for each in given)
            ):
                return False
    if isinstance(node, ast.Lambda) or script.function(node) is not None or script.is_model(node):
        return False
    made = [value for value in script.values(node) if isinstance(value, ast.Call)]
    if any(script.called(value).startswith(OF_KERAS) or _is_plain_object(script, value) for value in made):
        return False
    return not any(isinstance(value, ast.Constant) and not _is_data(script, value) for value in script.values(node))


def _is_plain_object(script: Script, call: ast.Call) -> bool:
    """Whether a call makes an object of a class of the script, which JAX does not take apart."""
    owner = script.local_class(call.func)
    return owner is not None and [script.dotted(base) for base in owner.bases] != ["typing.NamedTuple"]


class TracedNumber(Kind):
    """A number that changes is an argument of the compiled function, not a part of it."""

    causes = ("recompilation", "retracing")
    aside = True

    def edit(self, place: Place) -> Edit:
        """The number is no longer static for jax.jit."""
        found = [
            (text, function, decorator, given)
            for text in place.project.texts()
            for function in text.script.functions
            if isinstance(function, ast.FunctionDef)
            for decorator in function.decorator_list
            if (given := _static(text.script, decorator)) is not None
        ]
        changing = [
            (text, function, decorator, name)
            for text, function, decorator, given in found
            for name in given
            if _changes_in_calls(text.script, function, name)
            if text.path != place.text.path or _is_about(place, function)
        ]
        text, function, decorator, name = only(changing, "static argument of jax.jit that is a changing number")
        script = text.script
        reason = _other_use(script, function, name)
        if reason is not None:
            raise Unsure(reason)
        names = [each for each in _static(script, decorator) or () if each != name]
        draft = place.draft(text)
        keyword = next(each for each in decorator.keywords if each.arg == "static_argnames")
        if names:
            draft.replace(keyword.value, "(" + ", ".join(f'"{each}"' for each in names) + ",)")
        elif len(decorator.keywords) > 1:
            draft.remove_keyword(decorator, "static_argnames")
        else:
            jit = decorator.args[0] if script.called(decorator) == "functools.partial" else decorator.func
            draft.replace(decorator, draft.source(jit))
        return place.edit(
            draft, f"{name} is passed to the compiled function: one serves all values; the last digits may differ"
        )


def _is_about(place: Place, function: ast.FunctionDef) -> bool:
    """Whether the finding's line stands in a function, or in a statement or a loop that calls it."""
    calls = place.script.callers(function)
    around = [loop for call in calls for loop in place.script.loops(call)]
    spans = [function, *calls, *around]
    return any(each.lineno <= place.line <= (each.end_lineno or each.lineno) for each in spans)


def _static(script: Script, decorator: ast.expr) -> list[str] | None:
    """The arguments that `@partial(jax.jit, static_argnames=…)` takes as they are."""
    if not isinstance(decorator, ast.Call):
        return None
    partial = script.called(decorator) == "functools.partial" and [
        script.dotted(each) for each in decorator.args
    ] == ["jax.jit"]
    if not partial and not (script.called(decorator) == "jax.jit" and not decorator.args):
        return None
    words = {keyword.arg: keyword.value for keyword in decorator.keywords}
    if "static_argnums" in words or None in words:
        return None
    given = words.get("static_argnames")
    items = given.elts if isinstance(given, ast.Tuple | ast.List) else [given] if given is not None else []
    names = [script.literal(item) for item in items]
    return [str(name) for name in names] if names and all(isinstance(name, str) for name in names) else None


def _changes_in_calls(script: Script, function: ast.FunctionDef, name: str) -> bool:
    """Whether all calls of a function give a number for a parameter, and loops give it other values."""
    names = script.parameters(function)
    found = False
    for call in script.callers(function):
        item = script.argument(call, name, names.index(name) if name in names else None)
        if item is None or not (is_number(script, item) or _is_record(script, item)):
            return False
        found = found or any(changes(script, item, loop) for loop in script.loops(call))
    return found


def _is_record(script: Script, node: ast.expr, depth: int = 3) -> bool:
    """Whether a name stands for a NamedTuple of numbers, which JAX takes apart."""
    values = script.values(node)
    if not values or not depth:
        return False
    for value in values:
        if not isinstance(value, ast.Call):
            return False
        owner = value.func.value if isinstance(value.func, ast.Attribute) else None
        if owner is not None and script.method(value) == "_replace":
            if not _is_record(script, owner, depth - 1):
                return False
            continue
        made = script.local_class(value.func)
        if made is None or [script.dotted(base) for base in made.bases] != ["typing.NamedTuple"]:
            return False
        fields = [each for each in made.body if isinstance(each, ast.AnnAssign)]
        if not fields or not all(ast.unparse(each.annotation) in ("float", "int") for each in fields):
            return False
    return True


def _other_use(script: Script, function: Function, name: str, depth: int = 3) -> str | None:
    """Why a number has to be known when the function is compiled: it is used for more than arithmetic."""
    unsure = f"{name} is used for more than arithmetic in the function"
    if not depth:
        return unsure
    for node in script.own(function):
        if not isinstance(node, ast.Name) or node.id != name:
            continue
        used: ast.expr = node
        parent = script.parents.get(node)
        if isinstance(parent, ast.Attribute):  # a field of a record
            used, parent = parent, script.parents.get(parent)
        if isinstance(node.ctx, ast.Load) and _meets_array(script, used, name):
            continue
        if isinstance(parent, ast.Call) and used in parent.args:
            inner = derivative(script, parent) or script.function(parent.func)
            names = script.parameters(inner) if inner is not None else []
            position = parent.args.index(used)
            if inner is not None and position < len(names):
                reason = _other_use(script, inner, names[position], depth - 1)
                if reason is None:
                    continue
        return unsure
    return None


def _meets_array(script: Script, node: ast.expr, name: str) -> bool:
    """Whether a number is computed with until an array is a part of that: what is made of numbers may be a shape."""
    met = False
    parent = script.parents.get(node)
    while isinstance(parent, ast.BinOp | ast.UnaryOp):
        if isinstance(parent, ast.BinOp):
            other = parent.right if parent.left is node else parent.left
            names = [each for each in ast.walk(other) if isinstance(each, ast.Name) and each.id != name]
            met = met or any(script.literal(each) is None and not is_number(script, each) for each in names)
        node, parent = parent, script.parents.get(parent)
    if isinstance(parent, ast.Call) and script.called(parent).startswith(("jax.numpy.", "keras.ops.")):
        return met or (parent.args[:1] == [node] and script.called(parent).rpartition(".")[2] in ELEMENTWISE)
    if isinstance(parent, ast.Tuple):
        return met and isinstance(script.parents.get(parent), ast.Return)
    return met and not isinstance(parent, ast.Slice | ast.Subscript | ast.keyword)


class FewLengths(Kind):
    """Batches that are padded to their own longest row get one of a few lengths."""

    causes = ("recompilation",)
    aside = True

    def edit(self, place: Place) -> Edit:
        """The length is rounded up."""
        if place.project.backend not in (None, "jax"):
            raise Unsure("batches of another length cost little here")
        if place.finding.evidence and "changed shape" not in place.finding.says:
            raise Unsure("it is not compiled again for another shape")
        found = [
            (text, call)
            for text in place.project.texts()
            for call in text.script.calls
            if is_longest(text.script, call) and text.script.function_of(call) is not None
        ]
        text, call = only(found, "place where a batch is padded to its longest row")
        whole: ast.expr = call
        parent = text.script.parents.get(call)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add | ast.Sub):
            whole, parent = parent, text.script.parents.get(parent)
        if not isinstance(parent, ast.Assign | ast.keyword | ast.Tuple) or whole.lineno != whole.end_lineno:
            raise Unsure("what the longest row is needed for cannot be told from the source")
        draft = place.draft(text)
        inner = draft.source(whole) if whole is call else f"({draft.source(whole)})"
        size = _multiple(place.project.recompiled())
        draft.replace(whole, f"-(-{inner} // {size}) * {size}")
        return place.edit(
            draft,
            f"batches are padded to the next multiple of {size}, and compiled once for each",
            "rows have more padding, which counts where the model does not mask it",
        )


def _multiple(seen: Recompiled | None) -> int:
    """What lengths are rounded up to: few of them to compile for, and not much padding to compute."""
    if seen is None:
        return LENGTHS[0]

    def seconds(size: int) -> float:
        return math.ceil(seen.longest / size) * seen.compiling + seen.steps * size / (2 * seen.longest)

    return min(LENGTHS, key=seconds)


KINDS = (JitStep(), TracedNumber(), FewLengths())
