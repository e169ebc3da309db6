"""Causes in how the step is compiled: again and again, or for longer than it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from fitscope import words
from fitscope.effects import changed_in_loop, free_names
from fitscope.model import Compile, Region, Where
from fitscope.names import Binding, Function, Loop
from fitscope.rules.case import FOREIGN_CORES, Case, counted, parts_of, seconds_of, share, took
from fitscope.rules.execution import FEW_ROUNDS, ExecutionRule, is_name
from fitscope.rules.rule import Cause, Hit, example
from fitscope.source import Script

USUAL = ("first", "variables created")
"""Causes of a compilation that every training has."""
GIVE_NUMBERS = (
    *("float", "int", "len", "round", "time.perf_counter", "time.time"),
    *("random.randint", "random.random", "random.randrange", "random.uniform"),
)


MUCH_COMPILING = 3.0
"""Seconds of compiling that every training may have."""


def compiled_again(region: Region) -> list[Compile]:
    """Compilations of the step that should not have been needed.

    Backends compile many small functions on the way; only what takes a good part of the dearest one counts.
    """
    each = [item.seconds / item.count for item in region.compiles if item.count]
    least = 0.1 * max(each, default=0.0)
    found = [item for item in region.compiles if item.cause not in USUAL and item.seconds / item.count >= least]
    return [item for item in found if item.count >= 3]


def compile_seconds(region: Region) -> float:
    """What tracing and compiling took, garbage collection in it included."""
    collecting = sum(part.seconds for part in parts_of(region, "gc") if part.name in ("tracing", "lowering", "XLA"))
    return seconds_of(region, "compile") + collecting


def _again(case: Case, region: Region, causes: tuple[str, ...], rule: str) -> Iterable[Cause]:
    """The finding on compilations for one of these causes."""
    found = [item for item in compiled_again(region) if item.cause in causes]
    if not found:
        return
    total = sum(item.seconds for item in region.compiles)
    part = sum(item.seconds for item in found) / total if total else 0.0
    number = sum(item.count for item in found)
    spent = compile_seconds(region) * part
    # The first run of every compiled step is slower, too, and is not always told from the others.
    # (A loop of which nothing but its traces is seen has steps that nobody counted.)
    counted_steps = region.call != "loop" or bool(parts_of(region, "data"))
    step, usual = seconds_of(region, "step"), region.step_seconds
    longer = min(spent, step - region.steps * usual.median) if usual is not None else 0.0
    first_runs = 0.9 * max(longer, step * min(1.0, number / max(1, region.steps)))
    saved = spent + (first_runs if counted_steps else 0.0)
    if not case.matters(spent):
        return
    item = max(found, key=lambda each: each.seconds)
    detail = f" ({item.detail})" if item.detail else ""
    yield Cause(
        says=f"{item.function} was {rule} {words.count(number, 'time')} more: {item.cause}{detail}.",
        where=item.where or region.where,
        evidence=(
            share("of the training is spent compiling again", spent / case.seconds),
            counted("compilations after the first", number),
            took("each", spent / number),
        ),
        saves=case.saves(saved),
        remedy=_REMEDIES[item.cause],
        claims=frozenset({f"{id(region)}:compile"}),
    )


_REMEDIES = {
    "changed shape": "Give every batch one of a few shapes: pad to fixed lengths or buckets, drop_remainder=True.",
    "Python scalar": "Pass the changing number as a tensor: tf.constant(value), or keep it in a tf.Variable.",
    "new function": "Build and compile the model (or the function) once, before the loop, and set its weights anew.",
    "another argument": "Pass arguments that change as arrays, not as Python values.",
}


class Retracing(ExecutionRule):
    """A `tf.function` is traced again because an argument changed.

    TensorFlow makes a new graph for every new Python number and for every new shape. Each trace runs the
    Python code again and takes as long as hundreds of steps.

    fitscope counts the traces of each function and compares their arguments. It says so when at least three more
    than needed were made, and they take 3 % of the training or more.

    Change: pass changing numbers as tensors (`tf.constant(beta)`), pad batches to a few shapes, or let one graph
    serve all of them: `@tf.function(reduce_retracing=True)` or an `input_signature`.
    """

    code = "FS301"
    name = "retracing"
    fixable = True
    examples = (
        example("retracing", line="train_step(batch, step / 100)", backends=("tensorflow",), estimable=False),
    )

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at the traces of every region."""
        if case.run.backend == "tensorflow":
            for region in case.regions():
                yield from _again(case, region, ("Python scalar", "changed shape", "another argument"), "traced")

    def lint(self, script: Script) -> Iterable[Hit]:
        """A tf.function that a loop makes anew, or gives another Python number each time."""
        for call in script.calls:
            loops = script.loops(call)
            rounds = script.repeats(call)
            if not loops or (rounds is not None and rounds <= FEW_ROUNDS):
                continue
            if script.called(call) == "tensorflow.function" and called_in_round(script, call):
                yield Hit(call.lineno, NEW_FUNCTION, "Make it once, before the loop.")
            elif _is_traced(script, call.func):
                given = (*call.args, *(word.value for word in call.keywords))
                number = next(
                    (item for item in given if is_number(script, item) and changes(script, item, loops[0])), None
                )
                if number is not None:
                    yield Hit(
                        call.lineno,
                        f"{ast.unparse(number)} is a Python number that changes in every round: a tf.function is "
                        "traced again for each value.",
                        "Pass a tensor, tf.constant(…, tf.float32), or keep the number in a tf.Variable.",
                    )
        for line in _made_anew(script, "tensorflow.function"):
            yield Hit(line, NEW_FUNCTION, "Make it once, before the loop.")


NEW_FUNCTION = "A new tf.function is made in every round, and each is traced from the start."


def _made_anew(script: Script, compiler: str) -> Iterable[int]:
    """The lines at which a loop makes the same compiled function in every round, to call it there."""
    for node in (*script.functions, *script.calls):
        statement = node if isinstance(node, ast.FunctionDef) else script.parents.get(node)
        loop = script.parents.get(statement) if statement is not None else None
        rounds = script.repeats(node)
        if not isinstance(loop, ast.For | ast.While) or (rounds is not None and rounds <= FEW_ROUNDS):
            continue
        made = node if isinstance(node, ast.FunctionDef) else script.function(node)
        if not isinstance(made, ast.FunctionDef) or compiler not in script.decorators(made):
            continue
        maker = script.function(node.func) if isinstance(node, ast.Call) else None
        if node is not made and (maker is None or maker not in script.ancestors(made) or script.decorators(maker)):
            continue  # it is not made here, or once
        named = made.name if node is made else _name_of(script, node)
        calls = [each for each in ast.walk(loop) if isinstance(each, ast.Call) and is_name(each.func, named)]
        if calls and not _is_of_round(script, node, maker, loop):
            yield node.lineno


def _name_of(script: Script, made: ast.AST) -> str:
    """The name that what is made here is given."""
    parent = script.parents.get(made)
    target = parent.targets[0] if isinstance(parent, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) else ""


def _is_of_round(script: Script, node: ast.AST, maker: Function | None, loop: ast.For | ast.While) -> bool:
    """Whether a function that a loop makes may be another one in every round, because of what it is made of."""
    parts = [node, *([maker] if maker is not None else [])]
    for name in free_names(script, parts):
        for binding in script.bindings(name):
            helper = binding.node if binding.how == "define" and isinstance(binding.node, ast.FunctionDef) else None
            if helper is not None and helper not in parts:
                parts.append(helper)
            elif helper is None and (binding.node is loop or loop in script.loops(binding.node)):
                return True
    inside = [each for part in parts for each in ast.walk(part)]
    for each in inside:
        if isinstance(each, ast.Call) and (script.is_model(each) or _makes_part(script, each)):
            return True
        if isinstance(each, ast.FunctionDef) and [*each.args.defaults, *filter(None, each.args.kw_defaults)]:
            return True
    return changed_in_loop(script, loop, parts) is not None


def _makes_part(script: Script, call: ast.Call) -> bool:
    """Whether a call makes a layer, an optimizer, a metric or the like, of Keras or of the script."""
    name, owner = script.called(call), script.local_class(call.func)
    of_keras = name.startswith("keras.") and name.rpartition(".")[2][:1].isupper()
    return of_keras or (owner is not None and script.derives(owner, "keras."))


def called_in_round(script: Script, made: ast.Call) -> bool:
    """Whether what a call makes in a round of a loop is called in that round."""
    parent = script.parents.get(made)
    if isinstance(parent, ast.Call) and parent.func is made:
        return True
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
        name = parent.targets[0].id
        calls = script.repeated_calls(script.loops(made)[0])
        return any(isinstance(each.func, ast.Name) and each.func.id == name for each in calls)
    return False


def _is_traced(script: Script, node: ast.AST) -> bool:
    """Whether an expression is a tf.function that has no signature of its own."""
    function = script.function(node)
    makers: list[ast.expr] = list(function.decorator_list) if isinstance(function, ast.FunctionDef) else []
    values = script.values(node)
    makers += values if len(values) == 1 else []
    for maker in makers:
        name = script.called(maker) if isinstance(maker, ast.Call) else script.dotted(maker)
        if name == "tensorflow.function":
            return not (isinstance(maker, ast.Call) and any(word.arg == "input_signature" for word in maker.keywords))
    return False


def is_number(script: Script, node: ast.AST | None, seen: frozenset[str] = frozenset()) -> bool:
    """Whether an expression is a Python number, beyond doubt."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.BinOp):
        return is_number(script, node.left, seen) and is_number(script, node.right, seen)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and is_number(script, node.operand, seen)
    if isinstance(node, ast.IfExp):
        return is_number(script, node.body, seen) and is_number(script, node.orelse, seen)
    if isinstance(node, ast.Call):
        name = script.called(node)
        if name in ("abs", "max", "min", "pow"):
            return bool(node.args) and all(is_number(script, item, seen) for item in node.args)
        return name in GIVE_NUMBERS or name.startswith("math.")
    if isinstance(node, ast.Name) and node.id not in seen:
        bindings = script.bindings(node)
        inside = seen | {node.id}
        return bool(bindings) and all(_holds_number(script, each, node.id, inside) for each in bindings)
    return isinstance(node, ast.Name)


def _holds_number(script: Script, binding: Binding, name: str, seen: frozenset[str]) -> bool:
    if binding.how in ("assign", "augment"):
        return is_number(script, binding.value, seen)
    if isinstance(binding.node, ast.For) and isinstance(binding.value, ast.Call):
        target, source = binding.node.target, script.called(binding.value)
        if source == "enumerate" and isinstance(target, ast.Tuple):
            return isinstance(target.elts[0], ast.Name) and target.elts[0].id == name
        return source == "range" and isinstance(target, ast.Name)
    return False


def changes(script: Script, node: ast.AST, loop: Loop, depth: int = 3) -> bool:
    """Whether a loop gives an expression another value in each of its rounds."""
    for item in ast.walk(node):
        if isinstance(item, ast.Call) and script.called(item).startswith(("random.", "time.")):
            return True
        for binding in script.bindings(item) if isinstance(item, ast.Name) else ():
            if binding.node is loop:
                return True
            if script.loops(binding.node)[:1] != [loop] or binding.value is None:
                continue
            if binding.how == "augment" and not script.guarded(binding.node, loop):
                return True
            if binding.how == "assign" and depth and changes(script, binding.value, loop, depth - 1):
                return True
    return False


class Recompilation(ExecutionRule):
    """The step is compiled again: for new shapes, or because the model is built anew in a loop.

    XLA compiles for exact shapes: every new length of a batch is a new program. And a model or function that is
    made inside a loop brings nothing of what was compiled for the one before.

    fitscope counts compilations with their cause. It says so when at least three more than needed were made,
    and they take 3 % of the training or more.

    Change: pad to a few fixed lengths; build and compile once, before the loop.
    """

    code = "FS302"
    name = "recompilation"
    fixable = True
    examples = (
        example("recompilation", line="model.fit(x, x[:, :1]", backends=("tensorflow", "jax"), estimable=False),
    )

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at the compilations of every region."""
        causes: tuple[str, ...] = ("new function",)
        if case.run.backend != "tensorflow":
            causes += ("changed shape", "another argument")
        for region in case.regions():
            kinds = {
                (str(each.get("parameters")), str(each.get("layers"))) for each in case.facts("settings", region)
            }
            # Different models need compilations of their own: a search, not a mistake.
            wanted = tuple(cause for cause in causes if cause != "new function" or len(kinds) < 2)
            yield from _again(case, region, wanted, "compiled")

    def lint(self, script: Script) -> Iterable[Hit]:
        """Models that a loop builds or compiles anew, and batches whose shape changes on JAX."""
        yield from _rebuilt(script)
        yield from _compiled_again(script)
        for call in script.calls:
            rounds = script.repeats(call)
            if script.called(call) != "jax.jit" or not script.loops(call) or not call.args:
                continue
            if isinstance(call.args[0], ast.Lambda) and called_in_round(script, call) and (rounds or 99) > FEW_ROUNDS:
                yield Hit(
                    call.lineno,
                    "jax.jit is given a new function in every round, and compiles each of them.",
                    "Call jax.jit once, before the loop.",
                )
        for line in _made_anew(script, "jax.jit"):
            yield Hit(
                line,
                "A new function is made in every round, and jax.jit compiles each of them.",
                "Make it once, before the loop.",
            )
        if script.backend == "jax":
            yield from _padded_by_batch(script)


def _rebuilt(script: Script) -> Iterable[Hit]:
    """Models that a loop builds anew to go on with the weights of the one before."""
    for call in script.calls:
        statement, loops = script.parents.get(call), script.loops(call)
        if not loops or not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        if not script.is_model(call):
            continue
        name = statement.targets[0].id
        done = {
            node.func.attr
            for node in ast.walk(loops[0])
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_name(node.func.value, name)
        }
        handed_on = done >= {"set_weights", "get_weights"} or done >= {"load_weights", "save_weights"}
        if handed_on and done & {"fit", "train_on_batch"}:
            yield Hit(
                call.lineno,
                "The model is built anew in every round and takes over the weights of the one before: each is traced "
                "and compiled again.",
                "Build and compile it once, before the loop.",
            )


def _compiled_again(script: Script) -> Iterable[Hit]:
    """Models from outside a loop that it compiles in each of its rounds, to train for an epoch or a batch."""
    for call in script.model_calls("compile"):
        loops = script.loops(call)
        if not loops or not isinstance(call.func, ast.Attribute) or script.guarded(call, loops[0]):
            continue
        rounds = script.rounds(loops[0])
        model = ast.unparse(call.func.value)
        made = {
            name for node in ast.walk(loops[0]) if isinstance(node, ast.Assign | ast.For) for name in _targets(node)
        }
        if model in made or model.split(".")[0] in made or (rounds is not None and rounds <= FEW_ROUNDS):
            continue
        for each in script.repeated_calls(loops[0]):
            epochs = script.argument(each, "epochs")
            short = script.method(each) == "fit" and (epochs is None or script.literal(epochs) == 1)
            if (short or script.method(each) == "train_on_batch") and ast.unparse(each.func).startswith(f"{model}."):
                yield Hit(
                    call.lineno,
                    "The model is compiled again in every round: its training step is traced anew each time.",
                    "Compile once, before the loop; model.optimizer.learning_rate can be set at any time.",
                )
                break


def _targets(node: ast.Assign | ast.For) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    parts = [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each])]
    return {ast.unparse(part) for part in parts}


def _padded_by_batch(script: Script) -> Iterable[Hit]:
    """Loaders that pad each batch to its own longest row."""
    for loader in script.loaders():
        for call in script.own_calls(loader.function) if loader.kind != "python" else ():
            name = script.called(call)
            sizes: list[ast.expr | None] = []
            if name == "keras.utils.pad_sequences":
                sizes = [script.argument(call, "maxlen", 1)]
            elif name in ("numpy.empty", "numpy.full", "numpy.ones", "numpy.zeros"):
                shape = script.argument(call, "shape", 0)
                sizes = list(shape.elts[1:]) if isinstance(shape, ast.Tuple | ast.List) else []
            if any(size is None or is_longest(script, size) for size in sizes):
                yield Hit(
                    call.lineno,
                    "Every batch is padded to its own longest row: JAX compiles the step again for each length.",
                    "Pad to one length, or to a few (the next multiple of 32).",
                )


def is_longest(script: Script, node: ast.AST, depth: int = 2) -> bool:
    """`max(map(len, rows))`, `max(len(row) for row in rows)`, not rounded to a multiple of something."""
    if isinstance(node, ast.Name) and depth:
        values = script.values(node)
        return len(values) == 1 and is_longest(script, values[0], depth - 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return is_longest(script, node.left, depth) or is_longest(script, node.right, depth)
    if isinstance(node, ast.Call) and script.called(node) == "max" and len(node.args) == 1:
        return any(is_name(item, "len") for item in ast.walk(node.args[0]))
    return False


def first_compiling(case: Case) -> float:
    """Seconds of compiling in regions that compile nothing a second time."""
    return sum(compile_seconds(region) for region in case.regions() if not compiled_again(region))


class CompileDominates(ExecutionRule):
    """Most of this run was compiling: a fact of short runs, not a fault.

    Tracing and compiling happen once. In a run of a few seconds they are most of it; in a longer one they do not
    matter.

    fitscope says so when at least 60 % of the training, and at least three seconds, went to first compilations.

    Change: nothing, if the real run is longer. Judge the rest by a longer run.
    """

    code = "FS308"
    name = "compile-dominates"
    states_a_fact = True
    rank = 80
    fallback = True
    examples = (example("compile-dominates", backends=("tensorflow",), estimable=False),)

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at what first compilations took of the whole."""
        if case.foreign_cores >= FOREIGN_CORES:
            return  # beside other programs even a small model compiles for seconds
        spent = first_compiling(case)
        if case.matters(spent, 0.6) and spent >= MUCH_COMPILING:
            where: Where | None = case.regions()[0].where
            yield Cause(
                says="Most of this run was compiling for the first time: too short to judge the rest by.",
                where=where,
                evidence=(
                    share("of the training is the first compilation", spent / case.seconds),
                    took("in all", spent),
                ),
                saves=(0.0, 0.0),
                remedy="Nothing, if the real run is longer: it happens once.",
                claims=frozenset(f"{id(region)}:compile" for region in case.regions()),
            )


RULES = (
    Retracing(),
    Recompilation(),
    CompileDominates(),
)
