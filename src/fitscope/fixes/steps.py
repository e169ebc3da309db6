"""Edits of training steps written by hand, and of trainings so short that starting them is what costs."""

from __future__ import annotations

import ast

from fitscope.effects import RANDOM, changes_outside, graph_obstacle, reached, state_of
from fitscope.fixes.draft import Unsure
from fitscope.fixes.execution import changes_inside, in_loop, receiver
from fitscope.fixes.kind import Kind, Place, only
from fitscope.model import Edit
from fitscope.rules.compiling import changes, is_longest, is_number
from fitscope.source import Script
from fitscope.syntax import Function, Loop, listed

COMPILERS = listed("jax.jit tensorflow.function")
DERIVES = listed("jax.grad jax.value_and_grad")
OF_KERAS = listed(
    "keras.optimizers. keras.metrics. keras.losses. keras.layers. keras.models. keras.Model keras.Sequential"
)
STATEFUL = listed("add_loss apply apply_gradients assign assign_add assign_sub reset_state result update_state")
"""Methods that change what Keras keeps, which a function that jax.jit compiles must not."""
FRAMEWORKS = listed("jax. keras. numpy. tensorflow. torch. tqdm.")
AT_COMPILATION = (*RANDOM, *listed("datetime. input logging. next print time."))
"""What is called when a function is compiled, and in every round that compiles one."""
ELEMENTWISE = frozenset(
    listed(
        "abs add array asarray clip cos divide exp float32 log log1p maximum minimum multiply power sigmoid sin sqrt "
        "square subtract tanh where"
    )
)
KERAS_BATCH = 32
LENGTHS = 32
"""What the length of a batch becomes a multiple of."""


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
            if isinstance(function, ast.FunctionDef) and _is_jax_step(text.script, function)
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


def _is_jax_step(script: Script, function: ast.FunctionDef) -> bool:
    """Whether a function computes gradients and gives back what they make of the weights, and is not compiled."""
    calls = list(script.own_calls(function))
    derives = any(_derivative(script, call) is not None for call in calls)
    applies = any(script.method(call) in ("stateless_apply", "update") for call in calls)
    plain = not script.decorators(function) and not script.mentioned(function)
    loops = any(isinstance(node, ast.For | ast.While) for node in script.own(function))
    return derives and applies and plain and not loops and script.class_of(function) is None


def _derivative(script: Script, call: ast.Call) -> Function | None:
    """The function whose gradient a call computes: `jax.value_and_grad(loss)(…)`, or by a name for that."""
    made = [call.func, *script.values(call.func)]
    for each in made:
        if isinstance(each, ast.Call) and script.called(each) in DERIVES and each.args:
            return script.function(each.args[0])
    return None


def _jit_obstacle(script: Script, function: ast.FunctionDef) -> str | None:
    """Why a function might do something else when it is compiled; None if it surely does not."""
    inner = [each for call in script.own_calls(function) if (each := _derivative(script, call)) is not None]
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
        function = script.function_of(binding.node) if binding.how == "parameter" else None
        given = script.given(function, binding.node.arg) if function is not None else [node]  # type: ignore[attr-defined]
        if function is not None and not (
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


class StepOnce(Kind):
    """A compiled function that a loop makes anew in every round is made once."""

    causes = ("recompilation", "retracing")
    aside = True

    def edit(self, place: Place) -> Edit:
        """The statements stand before the loop."""
        found = [
            (text, each, loop)
            for text in place.project.texts()
            for each in text.script.parents
            if isinstance(each, ast.stmt) and (loop := _makes_step(text.script, each)) is not None
            if text.path != place.text.path or _covers(loop, place.line) or _makes_place(place, each)
        ]
        text, step, loop = only(found, "place where a loop makes a compiled function")
        script = text.script
        moved = _moved(script, step, loop)
        _check_rounds(script, moved, loop)
        draft = place.draft(text)
        for each in moved:
            draft.hoist(each, loop)
        name = getattr(step, "name", "") or ast.unparse(step.targets[0])
        return place.edit(draft, f"{name} is made once, before the loop, and compiled once")


def _makes_place(place: Place, statement: ast.stmt) -> bool:
    """Whether the finding's line stands in the function that a statement makes."""
    inside = place.function()
    value = statement.value if isinstance(statement, ast.Assign) else None
    return inside is not None and value is not None and place.script.function(value) is inside


def _makes_step(script: Script, statement: ast.stmt) -> ast.For | ast.While | None:
    """The loop that makes a compiled function in each of its rounds, by this statement."""
    loop = script.parents.get(statement)
    if not isinstance(loop, ast.For | ast.While) or statement not in loop.body:
        return None
    if isinstance(statement, ast.FunctionDef):
        return loop if set(script.decorators(statement)) & set(COMPILERS) else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    if not isinstance(statement.targets[0], ast.Name) or not isinstance(statement.value, ast.Call):
        return None
    if script.called(statement.value) in COMPILERS:
        return loop
    made = script.function(statement.value)
    compiled = isinstance(made, ast.FunctionDef) and bool(set(script.decorators(made)) & set(COMPILERS))
    return loop if compiled else None


def _moved(script: Script, step: ast.stmt, loop: ast.For | ast.While) -> list[ast.stmt]:
    """What has to go before the loop for a step to go there, in order; raises Unsure where something changes."""
    moved: list[ast.stmt] = [step]
    waiting = [step]
    while waiting:
        for name in _free_names(script, waiting.pop()):
            for binding in script.bindings(name):
                if binding.node is not loop and loop not in script.loops(binding.node):
                    continue
                found = binding.node
                if found in moved:
                    continue
                if not isinstance(found, ast.FunctionDef) or found not in loop.body:
                    raise Unsure(f"{name.id}, which it uses, changes from round to round")
                moved.append(found)
                waiting.append(found)
    for each in moved:
        target = each.name if isinstance(each, ast.FunctionDef) else ast.unparse(each.targets[0])  # type: ignore[attr-defined]
        scope = script.function_of(loop) or script.tree
        bound = [
            node
            for node in ast.walk(scope)
            if _binds(node, target) and script.function_of(node) is script.function_of(loop)
        ]
        if len(bound) != 1:
            raise Unsure(f"{target} is set more than once")
    maker = (
        script.function(step.value.func)
        if isinstance(step, ast.Assign) and isinstance(step.value, ast.Call)
        else None
    )
    if maker is not None:
        reason = state_of(script, maker) or changes_outside(script, maker) or _keeps_something(script, maker)
        if reason is not None:
            raise Unsure(f"every round may need a new one: {reason}")
    for each in moved:
        for part in ast.walk(each):
            if isinstance(part, ast.Call) and _is_kept(script, part):
                raise Unsure(f"every round makes {ast.unparse(part.func)} anew")
    return sorted(moved, key=lambda each: each.lineno)


def _check_rounds(script: Script, moved: list[ast.stmt], loop: ast.For | ast.While) -> None:
    """Raises Unsure where what is compiled anew in a round may be another thing, though its code is the same."""
    steps = [each if isinstance(each, ast.FunctionDef) else script.function(each.value) for each in moved]  # type: ignore[attr-defined]
    inside = [each for step in steps if step is not None for each in reached(script, step, 4)]
    for each in inside:
        reason = changes_outside(script, each)
        if reason is not None:
            raise Unsure(f"every round may need a new one: {reason}")
        for call in script.own_calls(each):
            name = script.called(call)
            if name.startswith(AT_COMPILATION) and not name.startswith("jax.random."):
                raise Unsure(f"{name} is called anew whenever it is compiled")
    used = {name.id for each in moved for name in _free_names(script, each)}
    used -= {name for each in inside for name in script.parameters(each)}
    rest = [node for part in loop.body if part not in moved for node in ast.walk(part)]
    called = [script.function(node.func) for node in rest if isinstance(node, ast.Call)]
    others = [each for one in called if one is not None for each in reached(script, one) if each not in inside]
    for node in (*rest, *(node for each in others for node in script.own(each))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == "trainable":
            raise Unsure(f"{ast.unparse(node)} changes from round to round")
        if not isinstance(node, ast.Call) or script.function(node.func) is not None:
            continue
        given = {each.id for item in node.args for each in ast.walk(item) if isinstance(each, ast.Name)}
        if given & used and not script.called(node).startswith((*FRAMEWORKS, ".append", "len", "print")):
            raise Unsure(f"{ast.unparse(node.func)}, whose code is out of sight, may change what it uses")


def _free_names(script: Script, statement: ast.stmt) -> list[ast.Name]:
    return [node for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]


def _binds(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name == name
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node.id == name


def _keeps_something(script: Script, maker: Function) -> str | None:
    for node in ast.walk(maker):
        if isinstance(node, ast.Call) and _is_kept(script, node):
            return f"it makes {ast.unparse(node.func)}"
    return None


def _is_kept(script: Script, call: ast.Call) -> bool:
    """Whether a call makes something that a training changes: a model, an optimizer, a variable."""
    name = script.called(call)
    return (name.startswith(OF_KERAS) and name.rpartition(".")[2][:1].isupper()) or name == "tensorflow.Variable"


class StartAnew(Kind):
    """A model that a loop builds anew, to start from the beginning, is built once and set back."""

    causes = ("recompilation",)
    aside = True

    def edit(self, place: Place) -> Edit:
        """Its first weights, and those of its optimizer, are kept."""
        script = place.script
        fits = script.model_calls("fit", "train_on_batch")
        inside = [call for call in fits if any(_covers(loop, place.line) for loop in script.loops(call))]
        fit = only(inside[:1], "training in a loop at this place")
        loop = script.loops(fit)[-1]
        name = receiver(fit)
        if not isinstance(loop, ast.For | ast.While) or not name.isidentifier():
            raise Unsure("the source does not show where the loop builds the model")
        building = [each for each in loop.body if _builds(script, each, name)]
        _check_anew(script, building, loop, name)
        draft = place.draft()
        values = draft.free_name("first_values", "values_at_first")
        both = f"(*{name}.weights, *{name}.optimizer.variables)"
        draft.copy_out(building[0], loop)
        for each in building[1:]:
            draft.hoist(each, loop)
        draft.insert_before_loop(
            loop,
            f"{name}.optimizer.build({name}.trainable_variables)",
            f"{values} = [variable.numpy() for variable in {both}]",
        )
        inner = draft.indent_of(building[0])
        tab = inner.removeprefix(draft.indent_of(loop)) or "    "
        draft.replace(
            building[0],
            f"for variable, value in zip({both}, {values}):\n{inner}{tab}variable.assign(value)",
        )
        return place.edit(
            draft,
            "the model is built and compiled once, and set back to its first weights in every round",
            "every round begins with the same weights instead of others",
        )


def _builds(script: Script, statement: ast.stmt, name: str) -> bool:
    """`model = build()`, `model.add(…)` or `model.compile(…)`."""
    if isinstance(statement, ast.Assign):
        return [ast.unparse(target) for target in statement.targets] == [name] and script.is_model(statement.value)
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Call) and script.method(value) in ("add", "compile") and receiver(value) == name


def _check_anew(script: Script, building: list[ast.stmt], loop: ast.For | ast.While, name: str) -> None:
    """Raises Unsure where a model that is set back is not the same as a new one."""
    built = building[0] if building else None
    if not isinstance(built, ast.Assign) or sum(isinstance(each, ast.Assign) for each in building) != 1:
        raise Unsure("the source does not show where the loop builds the model")
    if any(changes_inside(script, each, loop, name) for each in building):
        raise Unsure("what the model is built of changes from round to round")
    if any(script.knows(each) for each in ("variable", "value")):
        raise Unsure("the names variable and value are taken")
    maker = script.function(built.value.func) if isinstance(built.value, ast.Call) else None
    inside = [
        call for each in (reached(script, maker) if maker is not None else ()) for call in script.own_calls(each)
    ]
    inside += [node for each in building for node in ast.walk(each) if isinstance(node, ast.Call)]
    names = {script.called(call) for call in inside}
    known = names & {"keras.Input", "keras.layers.Input", "keras.layers.InputLayer"} or any(
        keyword.arg in ("input_shape", "input_dim") for call in inside for keyword in call.keywords
    )
    if not known or not any(script.method(call) == "compile" for call in inside):
        raise Unsure("that the model is complete when it is built cannot be told from the source")
    for node in ast.walk(loop):
        if isinstance(node, ast.Call):
            last = script.called(node).rpartition(".")[2]
            if last in ("clear_session", "set_random_seed", "set_seed"):
                raise Unsure(f"every round calls {script.called(node)}")
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        parent = script.parents.get(node)
        if not (isinstance(parent, ast.Attribute) and isinstance(script.parents.get(parent), ast.Call)):
            raise Unsure("the models of the rounds may be used later, side by side")
        changes_it = parent.attr in ("add", "compile", "load_weights", "pop", "set_weights")
        if changes_it and not any(parent in ast.walk(each) for each in building):
            raise Unsure(f"every round calls {parent.attr} of the model")
    bound = [node for node in script.parents if isinstance(node, ast.Name) and _binds(node, name)]
    if len([each for each in bound if script.bindings(each) is script.bindings(built.targets[0])]) > 1:  # type: ignore[arg-type]
        raise Unsure("the model is set more than once")


def _covers(loop: Loop, line: int) -> bool:
    return loop.lineno <= line <= (loop.end_lineno or loop.lineno)


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
            inner = _derivative(script, parent) or script.function(parent.func)
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


class RepeatedEpoch(Kind):
    """Epochs of a single step become the steps of one epoch."""

    causes = ("short-epochs",)

    def edit(self, place: Place) -> Edit:
        """The data is repeated."""
        text, call = only(place.fit_calls(), "fit at this place")
        script = text.script
        if not place.project.one_step_epochs(place.finding.where):
            raise Unsure("an epoch has more than one step, and their order would be another one")
        if not isinstance(script.parents.get(call), ast.Expr):
            raise Unsure("what fit returns is used")
        words = {keyword.arg: keyword.value for keyword in call.keywords}
        if set(words) - {"batch_size", "epochs", "shuffle", "verbose", "x", "y"} or len(call.args) not in (0, 2):
            raise Unsure("this fit has arguments that go by epochs")
        x, y = script.argument(call, "x", 0), script.argument(call, "y", 1)
        epochs = words.get("epochs")
        if epochs is None or not _is_array(script, x) or not _is_array(script, y) or _inputs(place) > 1:
            raise Unsure("what it trains on, or for how long, is out of sight")
        if script.literal(words.get("verbose")) not in (0, 2):
            raise Unsure("a progress bar shows its epochs")
        draft = place.draft(text)
        number, both = draft.source(epochs), f"({draft.source(x)}, {draft.source(y)})"
        if place.project.backend in (None, "tensorflow"):
            data = f"{draft.name('tensorflow.data.Dataset', call)}.from_tensors({both}).repeat({number})"
        else:
            data = f"({both} for _ in range({number}))"
        kept = [f"{word}={draft.source(value)}" for word, value in words.items() if word == "verbose"]
        if call.lineno != call.end_lineno and "#" in draft.source(call):
            raise Unsure("a comment stands between the arguments")
        draft.replace(call, f"{draft.source(call.func)}({', '.join([data, *kept])})")
        return place.edit(
            draft,
            "the same steps in one epoch",
            "the history, and what is printed, has one record instead of one for each step",
        )


def _is_array(script: Script, node: ast.expr | None) -> bool:
    """Whether an expression is one array as far as the source shows, not several or a table."""
    if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return False
    values = script.values(node)
    tables = any(isinstance(value, ast.List | ast.Tuple | ast.Dict | ast.ListComp) for value in values)
    return not tables and "pandas" not in script.modules


class FitInSteps(Kind):
    """A `fit` of a few steps is written as these steps."""

    causes = ("fit-in-loop",)
    aside = True

    def edit(self, place: Place) -> Edit:
        """A loop of train_on_batch."""
        script = place.script
        calls = [call for call in place.calls() if call in set(script.model_calls("fit"))]
        call = only(calls[:1], "fit at this place")
        statement = script.parents.get(call)
        if not isinstance(statement, ast.Expr) or statement.lineno != statement.end_lineno:
            raise Unsure("what fit returns is used, or it is written over several lines")
        words = {keyword.arg: keyword.value for keyword in call.keywords}
        x, y = script.argument(call, "x", 0), script.argument(call, "y", 1)
        if set(words) - {"batch_size", "epochs", "shuffle", "verbose", "x", "y"} or len(call.args) > 2:
            raise Unsure("this fit has arguments that train_on_batch does not take")
        epochs = script.literal(words["epochs"]) if "epochs" in words else 1
        if epochs != 1 or not isinstance(x, ast.Name) or not isinstance(y, ast.Name):
            raise Unsure("it trains for more than one epoch, or on more than two arrays with names")
        arrays = _is_array(script, x) and _is_array(script, y) and "scipy" not in script.modules
        if not arrays or not place.project.on_arrays("fit", place.finding.where) or _inputs(place) > 1:
            raise Unsure("that it trains on arrays cannot be told from the run")
        if any(each.script.references("history") for each in place.project.texts()):
            raise Unsure("what fit notes in the model's history is used")
        draft = place.draft()
        if draft.indent_of(statement) != draft.line_before(statement):
            raise Unsure("the statement shares its line with another one")
        size = draft.source(words["batch_size"]) if "batch_size" in words else str(KERAS_BATCH)
        simple = "batch_size" not in words or isinstance(words["batch_size"], ast.Constant | ast.Name | ast.Attribute)
        if not simple:
            raise Unsure("the size of its batches is computed")
        start = draft.free_name("start", "begin", "first_row")
        part = f"[{start} : {start} + {size}]"
        indent = draft.indent_of(statement)
        tab = "\t" if "\t" in indent else "    "
        draft.replace(
            call,
            f"for {start} in range(0, len({x.id}), {size}):\n"
            f"{indent}{tab}{receiver(call)}.train_on_batch({x.id}{part}, {y.id}{part})",
        )
        ordered = script.literal(words.get("shuffle")) is False
        silent = script.literal(words.get("verbose")) == 0
        risk = "" if ordered else "fit shuffles the rows, and train_on_batch does not"
        risk = risk or ("" if silent else "no progress is shown")
        return place.edit(draft, "the same steps, without a pipeline and an epoch of their own", risk)


def _inputs(place: Place) -> int:
    """How many inputs the models of a project have, as far as the source shows."""
    return sum(
        text.script.called(call) in ("keras.Input", "keras.layers.Input")
        for text in place.project.texts()
        for call in text.script.calls
    )


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
        written = f"-(-{inner} // {LENGTHS}) * {LENGTHS}"
        draft.replace(whole, written)
        return place.edit(
            draft,
            f"batches are padded to the next multiple of {LENGTHS}, and compiled once for each",
            "rows have more padding, which counts where the model does not mask it",
        )


KINDS = (
    JitStep(),
    StepOnce(),
    StartAnew(),
    TracedNumber(),
    FewLengths(),
    RepeatedEpoch(),
    FitInSteps(),
)
