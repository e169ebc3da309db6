"""Edits of loops that make a compiled function or a model anew in every round."""

from __future__ import annotations

import ast

from fitscope.effects import RANDOM, changed_in_loop, changes_outside, free_names, reached, state_of
from fitscope.fixes.draft import Draft, Unsure
from fitscope.fixes.execution import changes_inside, receiver
from fitscope.fixes.jax_steps import OF_KERAS
from fitscope.fixes.kind import Kind, Place, only
from fitscope.model import Edit
from fitscope.names import Function, Loop, listed
from fitscope.source import Script

NO_DRAWS = listed("random.Random random.SystemRandom random.getstate random.seed random.setstate")
COMPILERS = listed("jax.jit tensorflow.function")
AT_COMPILATION = (*RANDOM, *listed("datetime. input logging. next print time."))
"""What is called when a function is compiled, and in every round that compiles one."""
Made = ast.FunctionDef | ast.Assign
"""A statement that makes a function."""


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
            if isinstance(each, Made) and (loop := _makes_step(text.script, each)) is not None
            if text.path != place.text.path or _covers(loop, place.line) or _makes_place(place, each)
        ]
        text, step, loop = only(found, "place where a loop makes a compiled function")
        script = text.script
        moved = _moved(script, step, loop)
        _check_rounds(script, moved, loop)
        draft = place.draft(text)
        for each in moved:
            draft.hoist(each, loop)
        return place.edit(draft, f"{_name(step)} is made once, before the loop, and compiled once")


def _makes_place(place: Place, statement: Made) -> bool:
    """Whether the finding's line stands in the function that a statement makes."""
    inside = place.function()
    value = statement.value if isinstance(statement, ast.Assign) else None
    return inside is not None and value is not None and place.script.function(value) is inside


def _makes_step(script: Script, statement: Made) -> ast.For | ast.While | None:
    """The loop that makes a compiled function in each of its rounds, by this statement."""
    loop = script.parents.get(statement)
    if not isinstance(loop, ast.For | ast.While) or statement not in loop.body:
        return None
    if isinstance(statement, ast.FunctionDef):
        return loop if set(script.decorators(statement)) & set(COMPILERS) else None
    named = len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)
    if not named or not isinstance(statement.value, ast.Call):
        return None
    if script.called(statement.value) in COMPILERS:
        return loop
    made = script.function(statement.value)
    compiled = isinstance(made, ast.FunctionDef) and bool(set(script.decorators(made)) & set(COMPILERS))
    return loop if compiled else None


def _name(made: Made) -> str:
    return made.name if isinstance(made, ast.FunctionDef) else ast.unparse(made.targets[0])


def _moved(script: Script, step: Made, loop: ast.For | ast.While) -> list[Made]:
    """What has to go before the loop for a step to go there, in order; raises Unsure where something changes."""
    moved: list[Made] = [step]
    waiting: list[Made] = [step]
    while waiting:
        for name in free_names(script, [waiting.pop()]):
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
        target = _name(each)
        scope = script.function_of(loop) or script.tree
        bound = [
            node
            for node in ast.walk(scope)
            if _binds(node, target) and script.function_of(node) is script.function_of(loop)
        ]
        if len(bound) != 1:
            raise Unsure(f"{target} is set more than once")
    for maker in _makers(script, [step]):
        reason = state_of(script, maker) or changes_outside(script, maker) or _keeps_something(script, maker)
        if reason is not None:
            raise Unsure(f"every round may need a new one: {reason}")
    for each in moved:
        for part in ast.walk(each):
            if isinstance(part, ast.Call) and _is_kept(script, part):
                raise Unsure(f"every round makes {ast.unparse(part.func)} anew")
    return sorted(moved, key=lambda each: each.lineno)


def _makers(script: Script, made: list[Made]) -> list[Function]:
    """The functions of the script whose results these are."""
    calls = [each.value for each in made if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call)]
    return [maker for call in calls if (maker := script.function(call.func)) is not None]


def _check_rounds(script: Script, moved: list[Made], loop: ast.For | ast.While) -> None:
    """Raises Unsure where what is compiled anew in a round may be another thing, though its code is the same."""
    steps = [each if isinstance(each, ast.FunctionDef) else script.function(each.value) for each in moved]
    inside = [each for step in steps if step is not None for each in reached(script, step, 4)]
    for each in inside:
        reason = changes_outside(script, each)
        if reason is not None:
            raise Unsure(f"every round may need a new one: {reason}")
        for call in script.own_calls(each):
            name = script.called(call)
            if name.startswith(AT_COMPILATION) and not name.startswith("jax.random."):
                raise Unsure(f"{name} is called anew whenever it is compiled")
    changed = changed_in_loop(script, loop, [*moved, *inside, *_makers(script, moved)])
    if changed is not None:
        raise Unsure(f"{changed} may change what it uses from round to round")


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
        loop, name, building = _building(place)
        _check_anew(place.script, building, loop, name)
        draft = _set_back(place, loop, building, f"(*{name}.weights, *{name}.optimizer.variables)")
        return place.edit(
            draft,
            "the model is built and compiled once, and set back to its first weights in every round",
            "every round begins with the same weights instead of others",
        )


class TrainOn(Kind):
    """A model that a loop builds anew for the weights of the round before is built once, its optimizer set back."""

    causes = ("recompilation",)
    aside = True

    def edit(self, place: Place) -> Edit:
        """The first values of its optimizer are kept; its weights are set by the loop itself."""
        if place.project.backend not in (None, "tensorflow"):
            raise Unsure("with the same seed a model that is built once was seen to train otherwise here")
        loop, name, building = _building(place)
        script = place.script
        inside = _check_anew(script, building, loop, name, allowed=("set_weights",))
        if not _carries_weights(script, loop, name, building):
            raise Unsure("that every round begins with the weights of another cannot be told from the source")
        draws = [script.called(call) for call in inside if may_draw(script, call)]
        if draws:
            raise Unsure(f"{draws[0]} may draw random numbers, which begin anew with a new model")
        others = sorted(
            {name for text in place.project.texts() for name in map(text.script.called, text.script.calls)}
        )
        drawn = [name for name in others if name.startswith("random.") and name not in NO_DRAWS]
        if drawn:
            raise Unsure(f"to build a layer draws from Python's random numbers, as {drawn[0]} does")
        draft = _set_back(place, loop, building, f"{name}.optimizer.variables")
        return place.edit(
            draft, "the model is built and compiled once, and its optimizer set back to its beginning in every round"
        )


def _building(place: Place) -> tuple[ast.For | ast.While, str, list[ast.stmt]]:
    """The outermost loop around a training, the name of its model, and the statements of the loop that build it."""
    script = place.script
    fits = script.model_calls("fit", "train_on_batch")
    inside = [call for call in fits if any(_covers(loop, place.line) for loop in script.loops(call))]
    fit = only(inside[:1], "training in a loop at this place")
    loop = script.loops(fit)[-1]
    name = receiver(fit)
    if not isinstance(loop, ast.For | ast.While) or not name.isidentifier():
        raise Unsure("the source does not show where the loop builds the model")
    return loop, name, [each for each in loop.body if _builds(script, each, name)]


def _set_back(place: Place, loop: ast.For | ast.While, building: list[ast.stmt], variables: str) -> Draft:
    """The model is built before the loop; in it some variables get the values that they had at first."""
    assert isinstance(building[0], ast.Assign)
    name = ast.unparse(building[0].targets[0])
    draft = place.draft()
    values = draft.free_name("first_values", "values_at_first")
    draft.copy_out(building[0], loop)
    for each in building[1:]:
        draft.hoist(each, loop)
    draft.insert_before_loop(
        loop,
        f"{name}.optimizer.build({name}.trainable_variables)",
        f"{values} = [variable.numpy() for variable in {variables}]",
    )
    inner = draft.indent_of(building[0])
    tab = inner.removeprefix(draft.indent_of(loop)) or "    "
    draft.replace(
        building[0],
        f"for variable, value in zip({variables}, {values}):\n{inner}{tab}variable.assign(value)",
    )
    return draft


def _carries_weights(script: Script, loop: ast.For | ast.While, name: str, building: list[ast.stmt]) -> bool:
    """Whether every round but the first begins with weights that a round before it has taken out of the model.

    Its statements, in order: the model is built, `set_weights(kept)`, maybe under `if kept is not None`, it is
    trained, `kept = model.get_weights()`.
    """
    if any(isinstance(node, ast.Continue | ast.Break | ast.Return) for node in ast.walk(loop)):
        return False
    behind = loop.body[loop.body.index(building[-1]) + 1 :]
    first = next((each for each in behind if name in {getattr(node, "id", "") for node in ast.walk(each)}), None)
    needed = ""
    if isinstance(first, ast.If) and len(first.body) == 1 and not first.orelse:
        needed = ast.unparse(first.test)
        first = first.body[0]
    call = first.value if isinstance(first, ast.Expr) else None
    if not isinstance(call, ast.Call) or receiver(call) != name or script.method(call) != "set_weights":
        return False
    given = call.args[0] if len(call.args) == 1 and not call.keywords else None
    if not isinstance(given, ast.Name) or needed not in ("", f"{given.id} is not None"):
        return False
    taken = [each for each in loop.body if ast.unparse(each) == f"{given.id} = {name}.get_weights()"]
    bound = [node for node in script.parents if isinstance(node, ast.Name) and _binds(node, given.id)]
    before = [node for node in bound if loop not in script.ancestors(node)]
    nothing = all(_is_none(script, node) for node in before)
    return len(taken) == 1 and len(bound) == len(before) + 1 and (nothing or not needed)


def _is_none(script: Script, node: ast.AST) -> bool:
    statement = script.parents.get(node)
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Constant) and value.value is None


def may_draw(script: Script, call: ast.Call) -> bool:
    """Whether a call makes something that may draw random numbers while it trains, or that is out of sight."""
    name = script.called(call)
    last = name.rpartition(".")[2]
    if not name.startswith("keras."):
        return last[:1].isupper() and not name.startswith(("numpy.", "tensorflow.data."))
    return any(word in last for word in ("Dropout", "Noise", "Random", "Mix", "Augment"))


def _builds(script: Script, statement: ast.stmt, name: str) -> bool:
    """`model = build()`, `model.add(…)` or `model.compile(…)`."""
    if isinstance(statement, ast.Assign):
        return [ast.unparse(target) for target in statement.targets] == [name] and script.is_model(statement.value)
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Call) and script.method(value) in ("add", "compile") and receiver(value) == name


def _check_anew(
    script: Script,
    building: list[ast.stmt],
    loop: ast.For | ast.While,
    name: str,
    allowed: tuple[str, ...] = (),
) -> list[ast.Call]:
    """The calls that build a model; raises Unsure where one that is set back is not the same as a new one."""
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
        if changes_it and parent.attr not in allowed and not any(parent in ast.walk(each) for each in building):
            raise Unsure(f"every round calls {parent.attr} of the model")
    bound = [node for node in script.parents if isinstance(node, ast.Name) and _binds(node, name)]
    here = script.bindings(next(node for node in bound if node is built.targets[0]))
    if len([each for each in bound if script.bindings(each) is here]) > 1:
        raise Unsure("the model is set more than once")
    return inside


def _covers(loop: Loop, line: int) -> bool:
    return loop.lineno <= line <= (loop.end_lineno or loop.lineno)


KINDS = (StepOnce(), TrainOn(), StartAnew())
