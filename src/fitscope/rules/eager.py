"""The cause that nothing is compiled: steps that run operation by operation."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from fitscope.model import Region, Where
from fitscope.names import Function
from fitscope.rules.case import Case, parts_of, seconds_of, share, took
from fitscope.rules.execution import FEW_LOOKS, ExecutionRule
from fitscope.rules.removing import changed
from fitscope.rules.rule import Cause, Hit, example
from fitscope.source import Script

SWITCHED = "This runs every training step operation by operation, without compiling it."
COMPILERS = ("jax.jit", "jax.pmap", "keras.backend.function", "tensorflow.function", "torch.compile")


class EagerExecution(ExecutionRule):
    """The step runs eagerly: every operation is dispatched from Python.

    `run_eagerly=True` is for debugging. A loop written by hand runs eagerly unless its step is a `tf.function`
    or goes through `jax.jit`.

    fitscope says so when the model was set to run eagerly, or a hand-written loop called it outside any
    compiled function, and the step takes most of the time. On PyTorch eager is the normal way.

    Change: remove `run_eagerly=True`; decorate the step with `@tf.function`, or `jax.jit` it.
    """

    code = "FS303"
    name = "eager-execution"
    fixable = True
    examples = (
        example("eager-execution", 1, line="run_eagerly=True", backends=("tensorflow", "jax"), estimable=False),
        example("eager-execution", 2, line="optimizer.apply_gradients", backends=("tensorflow",), estimable=False),
        example("eager-execution", 3, line="optimizer.stateless_apply", backends=("jax",), estimable=False),
    )

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at how every training was set to run."""
        if case.run.backend == "torch":
            return
        for region in case.regions("fit", "train_on_batch", "loop"):
            step = seconds_of(region, "step")
            if not case.matters(step, 0.2) or case.validates(region):
                continue
            settings = case.settings(region)
            loop = next(iter(case.facts("loop-trains", region)), {})
            saves = self._saves(case, region)
            if settings.get("run_eagerly"):
                where = case.find(r"run_eagerly\s*=\s*True|run_functions_eagerly\(\s*True") or region.where
                says, remedy = "The model runs eagerly, as it was set to.", "Remove run_eagerly=True."
            elif loop.get("eager") and case.facts("gradient-compiled", region):
                where, says = region.where, "The loop updates its weights outside of any compiled function."
                remedy = "Put the update (stateless_apply) into the function that jax.jit compiles."
                saves = case.saves(0.85 * step * _seen_at(region, where))
            elif loop.get("eager") and not any(item.cause == "first" for item in region.compiles):
                decorator = "@tf.function" if case.run.backend == "tensorflow" else "@jax.jit"
                where, says = region.where, "The loop runs its step eagerly: no compiled function is around it."
                remedy = f"Put the step into a function of its own and decorate it with {decorator}."
            else:
                continue
            yield Cause(
                says=says,
                where=where,
                evidence=(
                    share("of the training is spent in the step", step / case.seconds),
                    took("per step", step / max(1, region.steps)),
                ),
                saves=saves,
                remedy=remedy,
                claims=frozenset(
                    f"{id(region)}:{part}" for part in ("step", *(["compile"] * (case.run.backend == "jax")))
                ),
                removal=changed(region, run_eagerly=False) if settings.get("run_eagerly") else None,
            )

    @staticmethod
    def _saves(case: Case, region: Region) -> tuple[float, float]:
        """A part of the step; on JAX, which compiles each kind of operation for itself, also of that."""
        step = seconds_of(region, "step")
        if case.run.backend != "jax":
            return 0.3 * step, 0.92 * step
        compiled = seconds_of(region, "compile")
        return 0.5 * step + 0.4 * compiled, 0.95 * step + 0.8 * compiled

    def lint(self, script: Script) -> Iterable[Hit]:
        """Switches that turn compiling off, and training steps that nobody compiles."""
        if script.backend == "torch":
            return
        for call in script.calls:
            name = script.called(call)
            flag: ast.expr | None = None
            if script.method(call) == "compile":
                flag = script.argument(call, "run_eagerly")
            elif name == "tensorflow.config.run_functions_eagerly":
                others = [each for each in script.calls if script.called(each) == name and each is not call]
                flag = script.argument(call, "run_eagerly", 0) if not others else None
            elif name == "jax.config.update" and call.args and script.literal(call.args[0]) == "jax_disable_jit":
                flag = script.argument(call, "val", 1)
            if isinstance(flag, ast.Constant) and flag.value is True:
                yield Hit(flag.lineno, SWITCHED, "Leave it out: it is for going through the code with a debugger.")
        yield from _uncompiled_steps(script)


def _seen_at(region: Region, where: Where | None) -> float:
    """The share of the looks at the steps of a loop that found it at a line."""
    lines = [line for part in parts_of(region, "step") for line in part.lines]
    return sum(line.share for line in lines if line.where == where)


def _uncompiled_steps(script: Script) -> Iterable[Hit]:
    """Training steps of a loop written by hand that nobody compiles."""
    for node in script.parents:
        if not isinstance(node, ast.With) or not any(_is_tape(script, item.context_expr) for item in node.items):
            continue
        function, owner = script.function_of(node), script.class_of(node)
        if owner is not None and script.derives(owner, "keras."):
            continue
        if any(isinstance(item, ast.For | ast.While) for item in ast.walk(node)):
            # An episode of a game or the like: it cannot be made a graph by a decorator.
            continue
        calls = script.own_calls(function if function is not None else script.tree)
        if not any(_updates(script, call) for call in calls) or not _runs_often(script, node):
            continue
        whole = isinstance(function, ast.FunctionDef) and not script.loops(node)
        yield Hit(
            function.lineno if whole and function is not None else node.lineno,
            "This training step runs operation by operation: neither it nor what calls it is a tf.function.",
            "Put the step into a function of its own and decorate it with @tf.function.",
        )
    for function in script.functions:
        if not isinstance(function, ast.FunctionDef) or not is_jax_step(script, function):
            continue
        if any(_runs_often(script, call) for call in script.callers(function)):
            yield Hit(
                function.lineno,
                "This training step runs operation by operation: neither it nor what calls it is compiled.",
                "Decorate it with @jax.jit.",
            )


def is_jax_step(script: Script, function: ast.FunctionDef) -> bool:
    """Whether a function computes gradients and gives back what they make of the weights, and is not compiled."""
    calls = list(script.own_calls(function))
    derives = any(derivative(script, call) is not None for call in calls)
    applies = any(
        script.method(call) in ("stateless_apply", "update") and not isinstance(script.parents.get(call), ast.Expr)
        for call in calls
    )
    plain = not script.decorators(function) and not script.mentioned(function)
    loops = any(isinstance(node, ast.For | ast.While) for node in script.own(function))
    return derives and applies and plain and not loops and script.class_of(function) is None


def derivative(script: Script, call: ast.Call) -> Function | None:
    """The function whose gradient a call computes: `jax.value_and_grad(loss)(…)`, or by a name for that."""
    made = [call.func, *script.values(call.func)]
    for each in made:
        if isinstance(each, ast.Call) and script.called(each) in ("jax.grad", "jax.value_and_grad") and each.args:
            return script.function(each.args[0])
    return None


def _updates(script: Script, call: ast.Call) -> bool:
    """Whether a call lets an optimizer change the weights."""
    if not isinstance(call.func, ast.Attribute):
        return False
    return call.func.attr == "apply_gradients" or (
        call.func.attr == "apply" and "opt" in ast.unparse(call.func.value)
    )


def _is_tape(script: Script, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and script.called(node) == "tensorflow.GradientTape"


def _is_compiled(script: Script, function: Function | None) -> bool:
    """Whether a function is compiled, or handed to somebody who may compile it."""
    if function is None:
        return False
    decorated = any(name in COMPILERS or not name for name in script.decorators(function))
    return decorated or script.mentioned(function) or _is_compiled(script, script.function_of(function))


def _runs_often(script: Script, node: ast.AST, depth: int = 3) -> bool:
    """Whether a place is repeated by a loop in plain Python, here or around the call of its function."""
    function = script.function_of(node)
    callers = script.callers(function) if function is not None else []
    if _is_compiled(script, function) or any(_is_compiled(script, script.function_of(call)) for call in callers):
        return False
    rounds = script.repeats(node)
    if script.loops(node) and (rounds is None or rounds > FEW_LOOKS):
        return True
    return depth > 0 and any(_runs_often(script, call, depth - 1) for call in callers)


RULES = (EagerExecution(),)
