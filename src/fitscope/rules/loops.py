"""The cause in loops of the model: what could be one operation is as many as a tensor has rows or columns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from fitscope.model import Evidence, Line, Region, Where
from fitscope.names import Function
from fitscope.rules.case import Case, parts_of, seconds_of, share, took, with_validation
from fitscope.rules.compiling import compile_seconds, compiled_again
from fitscope.rules.model import ModelRule, step_lines
from fitscope.rules.rule import Cause, Hit, example
from fitscope.source import Inner, Script

FEW_ROUNDS = 8
MANY_OPERATIONS = 0.002
"""Seconds in a step that single operations of an eager backend take if there are dozens of them."""
PASSES, SLOW_RATE = 6, 2e10
"""Operations for each weight and example, forward and backward, and how many a second any processor does."""
LAYER_CALL = 0.0004
"""Seconds that an eager backend takes at most to call a small layer, forward and backward."""
BACKWARD = re.compile(r"\.backward\(|\boptimizer\.(apply|apply_gradients|step)\(|autograd\.grad\(")
"""Lines of an eager step whose time belongs to all that was computed before."""
UNSTACK = ("keras.ops.unstack", "tensorflow.unstack", "torch.unbind")
LOOPS = (ast.For, ast.ListComp, ast.GeneratorExp)
Looping = ast.For | ast.ListComp | ast.GeneratorExp
ONE_BY_ONE = ("jax.lax.map", "keras.backend.map_fn", "keras.ops.map", "tensorflow.map_fn")


class LoopInModel(ModelRule):
    """A layer or a loss goes through the examples one by one.

    `tf.map_fn`, `lax.map` or a Python loop over the rows of a batch turns one operation on the batch into as
    many small ones as it has rows.

    fitscope says so when the user's code asked for a loop while the step was traced (recurrent layers of Keras'
    own are none of it), or, where steps run eagerly, when the step was found on a line in a loop of `call` or of
    a loss, or in what a loop over the examples there calls, and the step takes most of the training. A loop that
    counts through weights or tensors (`self.kernels[k]`) is one, too, if it takes milliseconds and the weights are
    far too few to explain the step; so is one that gives a layer one slice after the other (`self.encoder(x[:, t])`),
    if a round takes little more than calling layers does.
    A Python loop that is traced becomes operations of its own for each round: fitscope says so when tracing was found
    in it, and tracing and compiling take 15 % of the training.

    Change: operations on the whole batch (`keras.ops` take a leading dimension), or `vectorized_map`.
    """

    code = "FS402"
    name = "loop-in-model"
    rank = 40
    examples = (
        example("loop-in-model", number=1, line="rows = tf.map_fn", backends=("tensorflow",), estimable=False),
        example(
            "loop-in-model", number=2, line="total = total + keras.ops.sum", backends=("torch",), estimable=False
        ),
        example("loop-in-model", number=3, line="self.encoder(x[:, t])", backends=("torch",), estimable=False),
        example("loop-in-model", number=4, line="close = close +", backends=("tensorflow",), estimable=False),
        example("loop-in-model", number=5, line="scores = [self.score", backends=("torch",), estimable=False),
    )

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at the steps of every training, and where these show no loop at what was traced for them."""
        found = list(super().diagnose(case))
        yield from found
        for region in case.regions("fit", "train_on_batch", "loop") if not found else ():
            yield from self._written_out(case, region)

    def _written_out(self, case: Case, region: Region) -> Iterable[Cause]:
        """A loop that was traced round by round, so that it made a step of many operations, to be compiled once."""
        traced = [line for part in parts_of(region, "compile") for line in part.lines]
        lines = [line for line in traced if self._written_at(case, line)]
        looks, all_looks = (sum(line.samples for line in each) for each in (lines, traced))
        compiling = compile_seconds(region)
        if looks < 5 or looks < 0.5 * all_looks or not case.matters(compiling, 0.15) or compiled_again(region):
            return
        spent, step = compiling * looks / all_looks, seconds_of(region, "step")
        yield Cause(
            says="The model goes through a tensor in a Python loop: each round was traced and compiled by itself.",
            where=max(lines, key=lambda line: line.samples).where,
            evidence=(
                share("of the training is tracing and compiling", compiling / case.seconds),
                share("of the looks at tracing found it in the loop", looks / all_looks),
            ),
            saves=(0.75 * spent, 0.92 * spent + 0.3 * step),
            remedy="Write it for the whole tensor at once (keras.ops take a leading dimension), or as a loop in the "
            "graph (keras.ops.scan, or a recurrent layer).",
            claims=frozenset({f"{id(region)}:compile", f"{id(region)}:step"}),
        )

    def of_region(self, case: Case, region: Region) -> Iterable[Cause]:
        """Loops that were traced, and lines in loops that eager steps were found on."""
        step = seconds_of(region, "step")
        traced = case.facts("loop-in-model", region)
        lines = [line for line in step_lines(region) if line.samples >= 5 and self._written_at(case, line)]
        taken = _of_forward(case, region, lines)
        what, saves = "the examples", (0.25 * step, 0.92 * step)
        remedy = "Write it for the whole batch at once (keras.ops take a leading dimension), or vectorized_map."
        if traced and case.matters(step, 0.3):
            where, how = traced[0]["where"], "the traced step holds its loop"
            evidence: tuple[Evidence, ...] = ()
        elif taken >= 0.3 and case.matters(step, 0.3):
            where, how = lines[0].where, "the step was found there"
            evidence = (share("of the looks at the forward pass", taken),)
        elif called := self._called(case, region, step):
            lines, where = called
            saves = (0.25 * step, max(0.92, 1 - 0.5 / case.settings(region)["batch_size"]) * step)
            how, taken = "the step was found in what the loop calls", _of_forward(case, region, lines)
            evidence = (share("of the looks at the forward pass", taken),)
        elif counting := self._counting(case, region, step):
            where, how, what = counting[0].where, "the step was found there", "weights or tensors"
            taken = _of_forward(case, region, counting)
            evidence = (share("of the looks at the forward pass", taken),)
            saves = (0.5 * taken * step, min(0.92, 1.5 * taken) * step)
        elif slices := _slices(case, region, step):
            lines, where = slices
            how, what, taken = "the step was found there", "slices of a tensor", _of_forward(case, region, lines)
            evidence = (share("of the looks at the forward pass", taken),)
            saves = (0.5 * taken * step, 0.85 * taken * step)
            remedy = (
                "Give the layer the whole tensor: most take an axis more, and keras.layers.TimeDistributed adds one."
            )
        else:
            return
        yield Cause(
            says=f"The model goes through {what} one by one: {how}.",
            where=where,
            evidence=(
                share("of the training is spent in the step", step / case.seconds),
                took("per step", step / max(1, region.steps)),
                *evidence,
            ),
            saves=with_validation(region, *saves),
            remedy=remedy,
            claims=frozenset({f"{id(region)}:step"}),
        )

    def _called(self, case: Case, region: Region, step: float) -> tuple[list[Line], Where] | None:
        """What a loop over the examples of a batch calls, if it is most of the forward pass."""
        found = _called_in_loops(case, region) if case.matters(step, 0.3) else None
        rows = case.settings(region).get("batch_size") or 0
        return found if found and rows >= FEW_ROUNDS and _of_forward(case, region, found[0]) >= 0.4 else None

    def _counting(self, case: Case, region: Region, step: float) -> list[Line]:
        """Lines in loops that count through weights or tensors, if their number is what makes the step long."""
        found = [line for line in step_lines(region) if line.samples >= 5 and _counts_through(case, line)]
        taken, each = _of_forward(case, region, found), step / max(1, region.steps)
        settings = case.settings(region)
        weights, rows = settings.get("parameters") or 0, settings.get("batch_size")
        if rows is None or taken < 0.25 or taken * each < MANY_OPERATIONS or not case.matters(taken * step, 0.15):
            return []
        return found if each >= 5 * PASSES * weights * rows / SLOW_RATE else []

    def lint(self, script: Script) -> Iterable[Hit]:
        """Loops over the examples or an axis of a tensor inside a layer, a loss or a metric."""
        for inner in script.inner():
            tensors = script.spread(inner.function, inner.tensors)
            for node in script.own(inner.function):
                if isinstance(node, ast.Call) and script.called(node) in ONE_BY_ONE:
                    given = (*node.args[1:], *(word.value for word in node.keywords))
                    if any(script.depends(item, tensors) for item in given):
                        yield Hit(
                            node.lineno,
                            "The model goes through its batch one example at a time.",
                            "Write it for the whole batch: most operations take a leading axis more.",
                        )
                elif isinstance(node, LOOPS) and _goes_over_tensor(script, node, inner, tensors):
                    yield Hit(
                        node.lineno,
                        "The model goes through a tensor in a Python loop: each round becomes operations of its own.",
                        "Write it for the whole tensor, or with a recurrent layer.",
                    )


def _of_forward(case: Case, region: Region, lines: list[Line]) -> float:
    """The part of the looks at the forward pass that found these lines; a backward pass goes as the forward went."""
    others = [line for line in step_lines(region) if line not in lines]
    backward = sum(line.share for line in others if BACKWARD.search(case.line(line.where)))
    return min(1.0, sum(line.share for line in lines) / max(0.25, 1.0 - backward))


def _goes_over_tensor(script: Script, loop: Looping, inner: Inner, tensors: frozenset[str]) -> bool:
    """Whether a loop goes through a tensor, or counts along one of its axes."""
    source, _ = _head(script, loop)
    taken = _unstacked(script, source)
    if taken or not isinstance(loop, ast.For):
        return any(script.depends(each, tensors) for each in taken)
    sources = [source]
    if isinstance(source, ast.Call):
        name = script.called(source)
        if name == "range":
            sized = any(_is_size(script, item, tensors) for item in source.args)
            return sized or (inner.kind in ("loss", "metric") and _takes_rows(script, loop, inner))
        sources = source.args if name in ("enumerate", "zip") else []
    # What a layer is called with may be a list of tensors; y_true and y_pred are tensors.
    given = [source.id for source in sources if isinstance(source, ast.Name)]
    return inner.kind in ("loss", "metric") and bool(given) and all(name in inner.tensors for name in given)


def _head(script: Script, loop: Looping) -> tuple[ast.expr, ast.expr]:
    """What a loop or a comprehension goes through, also where that has a name, and what it names each."""
    head = loop if isinstance(loop, ast.For) else loop.generators[0]
    values = script.values(head.iter) if isinstance(head.iter, ast.Name) else []
    source = values[0] if len(values) == 1 else head.iter
    named = isinstance(source, ast.Call) and script.called(source) in ("enumerate", "range", "zip", *UNSTACK)
    return source if named else head.iter, head.target


def _unstacked(script: Script, source: ast.expr, *, first: bool = False) -> list[ast.expr]:
    """The tensors that a loop's source takes apart, into more than a few; `first`: along their first axis."""
    found = []
    for node in ast.walk(source):
        if not isinstance(node, ast.Call) or script.called(node) not in UNSTACK or not node.args:
            continue
        torch = script.called(node) == "torch.unbind"
        axis = script.argument(node, "dim", 1) if torch else script.argument(node, "axis", 2)
        number = None if torch else script.literal(script.argument(node, "num", 1))
        if isinstance(number, int) and number < FEW_ROUNDS:
            continue
        if not first or axis is None or script.literal(axis) == 0:
            # `unstack(each) for each in inputs`: it is the inputs that are taken apart.
            bindings = script.bindings(node.args[0]) if isinstance(node.args[0], ast.Name) else []
            found += [each.value for each in bindings if each.how == "loop" and each.value] or [node.args[0]]
    return found


def _goes_over_examples(script: Script, loop: Looping, inner: Inner) -> bool:
    """Whether it is the first axis of what the model was given that a loop goes through."""
    source, _ = _head(script, loop)
    taken = _unstacked(script, source, first=True)
    if isinstance(source, ast.Call) and script.called(source) == "range" and source.args:
        size = source.args[0 if len(source.args) == 1 else 1]
        values = script.values(size)
        size = values[0] if len(values) == 1 else size
        if isinstance(size, ast.Subscript) and script.literal(size.slice) == 0:
            taken = [each for each in ast.walk(size.value) if isinstance(each, ast.Name) and each.id in inner.tensors]
    return inner.kind != "train_step" and any(_as_given(script, each, inner) for each in taken)


def _as_given(script: Script, node: ast.expr, inner: Inner) -> bool:
    """Whether this is a parameter of the model, or a part of one, that nothing has turned or folded before."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return (
        isinstance(node, ast.Name)
        and node.id in inner.tensors
        and all(each.how == "parameter" for each in script.bindings(node))
    )


def _called_in_loops(case: Case, region: Region) -> tuple[list[Line], Where] | None:
    """The lines of all that a loop over the examples calls in the model, and where that loop stands."""
    found = [line for line in step_lines(region) if line.samples]
    for file in dict.fromkeys(line.where.file for line in found):
        script = case.script_of(file)
        if script is None:
            continue
        for loop in _loops_over_examples(script):
            spans = [(each.lineno, each.end_lineno or 0) for each in (loop, *_called_in(script, loop))]
            here = [line for line in found if line.where.file == file and _is_in(line, spans)]
            if sum(line.samples for line in here) >= 5:
                return here, Where(file, loop.lineno)
    return None


def _loops_over_examples(script: Script) -> Iterable[Looping]:
    """The loops of the model that go through a batch."""
    for inner in script.inner():
        tensors = script.spread(inner.function, inner.tensors)
        loops = [node for node in script.own(inner.function) if isinstance(node, LOOPS)]
        over_tensors = [loop for loop in loops if _goes_over_tensor(script, loop, inner, tensors)]
        yield from (loop for loop in over_tensors if _goes_over_examples(script, loop, inner))


def _called_in(script: Script, loop: ast.AST) -> list[Function]:
    """The functions of the script that a loop calls, those that these call, and the `call` of layers."""
    called: list[Function] = []
    waiting = [loop]
    while waiting:
        calls = [node for node in ast.walk(waiting.pop(0)) if isinstance(node, ast.Call)]
        for function in (script.function(call.func) or _called_layer(script, call) for call in calls):
            if function is not None and function not in called:
                called.append(function)
                waiting.append(function)
    return called


def _called_layer(script: Script, call: ast.Call) -> Function | None:
    """The `call` of the script's own layer that is called."""
    made = [value for value in script.values(call.func) if isinstance(value, ast.Call)]
    owner = script.local_class(made[0].func) if made else None
    return script.methods(owner).get("call") if owner is not None else None


def _is_in(line: Line, spans: Iterable[tuple[int, int]]) -> bool:
    return any(first <= line.where.line <= last for first, last in spans)


def _counts_through(case: Case, line: Line) -> bool:
    """Whether a line stands in a loop `for k in range(…)` of the model that takes `self.kernels[k]` or `x[:, k]`."""
    script = case.script_of(line.where.file)
    if script is None:
        return False
    for inner in script.inner():
        for node in script.own(inner.function):
            if not isinstance(node, ast.For) or not node.lineno <= line.where.line <= (node.end_lineno or 0):
                continue
            if not _is_count(script, node) or _calls_layers(script, node):
                continue
            taken = [item.slice for item in ast.walk(node) if isinstance(item, ast.Subscript)]
            used = {item.id for index in taken for item in ast.walk(index) if isinstance(item, ast.Name)}
            if isinstance(node.target, ast.Name) and node.target.id in used:
                return True
    return False


def _slices(case: Case, region: Region, step: float) -> tuple[list[Line], Where] | None:
    """The lines of a layer that a loop of the model gives slice after slice, and where, if its calls cost most."""
    for file in dict.fromkeys(line.where.file for line in step_lines(region)):
        script = case.script_of(file)
        if script is None:
            continue
        for call, rounds in _calls_with_slices(script):
            inside = _called_layer(script, call)
            spans = [(each.lineno, each.end_lineno or 0) for each in (call, inside) if each is not None]
            found = [line for line in step_lines(region) if line.where.file == file and _is_in(line, spans)]
            calls = script.own_calls(inside) if inside is not None else ()
            layers = 1 + sum(script.is_layer(each.func) for each in calls)
            taken = _of_forward(case, region, found)
            each = taken * step / max(1, region.steps) / rounds
            enough = sum(line.samples for line in found) >= 5 and taken >= 0.4
            if enough and each <= layers * LAYER_CALL and case.matters(taken * step, 0.15):
                return found, Where(file, call.lineno)
    return None


def _calls_with_slices(script: Script) -> Iterable[tuple[ast.Call, int]]:
    """Calls of one and the same layer for `x[:, t]` in a loop over `t` of the model, and the rounds of that loop."""
    for inner in script.inner():
        for loop in script.own(inner.function):
            if not isinstance(loop, ast.For | ast.ListComp):
                continue
            target = loop.target if isinstance(loop, ast.For) else loop.generators[0].target
            rounds = script.rounds(loop)
            if not isinstance(target, ast.Name) or rounds is None or rounds < FEW_ROUNDS:
                continue
            nodes = list(ast.walk(loop))
            kept = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
            for call in nodes:
                if not isinstance(call, ast.Call) or not call.args or not script.is_layer(call.func):
                    continue
                names = {node.id for each in call.args for node in ast.walk(each) if isinstance(node, ast.Name)}
                if isinstance(call.args[0], ast.Subscript) and names & kept == {target.id}:
                    yield call, rounds


def _is_count(script: Script, loop: ast.For) -> bool:
    counts = isinstance(loop.iter, ast.Call) and script.called(loop.iter) == "range"
    return counts and (script.rounds(loop) or FEW_ROUNDS) >= FEW_ROUNDS


def _calls_layers(script: Script, loop: ast.For) -> bool:
    """`self.blocks[k](x)`: one layer after the other is how models are made."""
    calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
    return any(isinstance(call.func, ast.Subscript) or script.is_layer(call.func) for call in calls)


def _takes_rows(script: Script, loop: ast.For, inner: Inner) -> bool:
    """`y_pred[row]` with the variable of a loop of more than a few rounds: one example at a time."""
    _, target = _head(script, loop)
    if not isinstance(target, ast.Name) or (script.rounds(loop) or 0) < FEW_ROUNDS:
        return False
    for node in ast.walk(loop):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in inner.tensors:
            index = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            if isinstance(index, ast.Name) and index.id == target.id:
                return True
    return False


def _is_size(script: Script, node: ast.AST, tensors: frozenset[str], depth: int = 2) -> bool:
    """Whether an expression is the size of a tensor along an axis: `x.shape[1]`, `tf.shape(x)[0]`."""
    if isinstance(node, ast.Name) and depth:
        values = script.values(node)
        return len(values) == 1 and _is_size(script, values[0], tensors, depth - 1)
    if not isinstance(node, ast.Subscript):
        return False
    shape: ast.expr = node.value
    values = script.values(shape)
    shape = values[0] if len(values) == 1 else shape
    if isinstance(shape, ast.Attribute) and shape.attr == "shape":
        return script.depends(shape.value, tensors)
    return (
        isinstance(shape, ast.Call)
        and script.called(shape) in ("keras.backend.shape", "keras.ops.shape", "tensorflow.shape")
        and any(script.depends(item, tensors) for item in shape.args)
    )


RULES = (LoopInModel(),)
