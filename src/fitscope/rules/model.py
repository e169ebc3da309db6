"""Causes in the model: what the step itself computes, and in which way."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable

from fitscope import words
from fitscope.model import Evidence, Line, Region, Where
from fitscope.rules.case import Case, counted, parts_of, seconds_of, share, shorter_end, took, with_validation
from fitscope.rules.compiling import compile_seconds, compiled_again
from fitscope.rules.rule import Cause, Hit, Rule, example
from fitscope.source import INTO_PYTHON, Inner, Script

IN_PYTHON = ("keras.ops.convert_to_numpy", "numpy.", "sklearn.metrics.")
FEW_ROUNDS = 8
MANY_OPERATIONS = 0.002
"""Seconds in a step that single operations of an eager backend take if there are dozens of them."""
PASSES, SLOW_RATE = 6, 2e10
"""Operations for each weight and example, forward and backward, and how many a second any processor does."""
LAYER_CALL = 0.0004
"""Seconds that an eager backend takes at most to call a small layer, forward and backward."""
BACKWARD = re.compile(r"\.backward\(|\boptimizer\.(apply|apply_gradients|step)\(|autograd\.grad\(")
"""Lines of an eager step whose time belongs to all that was computed before."""
SCALAR = ("ceil", "exp", "float32", "float64", "floor", "int32", "int64", "log", "log2", "power", "prod", "sqrt")
"""What NumPy is asked for a single number of, beside a tensor: the square root of a width, a number of elements."""
ONE_BY_ONE = ("jax.lax.map", "keras.backend.map_fn", "keras.ops.map", "tensorflow.map_fn")
TYPE_SETTERS = (
    *("keras.backend.set_floatx", "keras.config.set_dtype_policy", "keras.config.set_floatx"),
    *("keras.dtype_policies.set_dtype_policy", "keras.mixed_precision.set_dtype_policy"),
    *("keras.mixed_precision.set_global_policy", "keras.mixed_precision.experimental.set_policy"),
)


class ModelRule(Rule):
    """A cause in the model."""

    family = "model"

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at every training whose step matters."""
        for region in case.regions("fit", "train_on_batch", "loop"):
            if case.matters(seconds_of(region, "step"), 0.1) and not case.validates(region):
                yield from self.of_region(case, region)

    def of_region(self, case: Case, region: Region) -> Iterable[Cause]:
        """What one training shows of this cause."""
        raise NotImplementedError

    def _written_at(self, case: Case, line: Line) -> bool:
        """Whether the source shows the cause at a line where the step was found, or in a loop around it."""
        script = case.script_of(line.where.file)
        if script is None:
            return False
        hits = {hit.line for hit in self.lint(script)}
        loops = script.loops_around(line.where.line)
        return line.where.line in hits or bool(hits & loops)


def step_lines(region: Region) -> list[Line]:
    """Lines of the user's code that the step was found in."""
    return [line for part in parts_of(region, "step") for line in part.lines if part.name != "your code in the loop"]


class PythonInModel(ModelRule):
    """A layer, a loss or a metric leaves the compiled step for Python or NumPy.

    Where NumPy code runs in a layer (through `numpy_function`, `py_function`, or eagerly), no gradient passes
    through it: the layers before it do not learn. That comes first; the time is the second reason.

    fitscope says so when Python functions that the compiled step calls back take at least 3 % of the training, or
    when lines with NumPy calls were found in the step of an eager backend.

    Change: the same operation from `keras.ops`, which has a gradient and stays in the compiled step.
    """

    code = "FS401"
    name = "python-in-model"
    rank = 30
    examples = (example("python-in-model", line="def smooth(values):", backends=("tensorflow",), estimable=False),)

    def of_region(self, case: Case, region: Region) -> Iterable[Cause]:
        """Functions that are called back, and NumPy lines in eager steps."""
        if region.inside and case.matters(region.inside[0].seconds):
            dearest = region.inside[0]
            spent = min(dearest.seconds, seconds_of(region, "step", "validation"))
            where, name = dearest.where, dearest.name
            evidence: tuple[Evidence, ...] = (
                share("of the training is spent in it", spent / case.seconds),
                counted("calls", dearest.count),
                took("per call", dearest.seconds / max(1, dearest.count)),
            )
        else:
            found = step_lines(region)
            lines = [
                line
                for line in found
                if line.share >= 0.2 and (self._written_at(case, line) or _is_numpy(case, region, line))
            ]
            if not lines or lines[0].samples < 5:
                return
            where, name = lines[0].where, lines[0].function
            beside = [line for line in found if (line.where.file, line.function) == (where.file, name)]
            spent = sum(line.share for line in beside) * seconds_of(region, "step")
            evidence = (share("of the looks at the step found it on that line", lines[0].share),)
        if not case.matters(spent):
            return
        yield Cause(
            says=f"{name} runs Python or NumPy code inside the model: no gradient passes through it, and it is slow.",
            where=where,
            evidence=evidence,
            saves=case.saves(0.85 * spent + shorter_end(region, 0.85 * spent)),
            remedy="Write it with keras.ops: the layers before it learn again, and it stays in the compiled step.",
            claims=frozenset({f"{id(region)}:step"}),
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """Python and NumPy on tensors inside a layer, a loss or a metric."""
        for inner in script.inner():
            tensors = script.spread(inner.function, inner.tensors)
            place = {"call": "a layer", "train_step": "the training step"}.get(inner.kind, f"a {inner.kind}")
            for call in script.own_calls(inner.function):
                name = script.called(call)
                given: list[ast.expr] = [*call.args, *(word.value for word in call.keywords)]
                if name == ".numpy" and isinstance(call.func, ast.Attribute):
                    given, name = [call.func.value], "numpy."
                if name in INTO_PYTHON:
                    what = "A Python function works"
                elif name.startswith(IN_PYTHON) and any(script.depends(item, tensors) for item in given):
                    what = "NumPy works on tensors"
                else:
                    continue
                cut = "no gradient passes through it" if inner.kind in ("call", "loss") else "no graph can hold it"
                yield Hit(
                    call.lineno,
                    f"{what} inside {place} in every step: {cut}, and the step waits for the interpreter.",
                    "Write it with keras.ops.",
                )


def _is_numpy(case: Case, region: Region, line: Line) -> bool:
    """Whether a line that Keras' own step was found on calls NumPy: whatever function has it, the model runs it."""
    script = case.script_of(line.where.file)
    if script is None or region.call == "loop":
        return False
    for call in script.calls:
        function, name = script.function_of(call), script.called(call)
        if not call.lineno <= line.where.line <= (call.end_lineno or call.lineno) or not name.startswith("numpy."):
            continue
        if function is not None and name.removeprefix("numpy.") not in SCALAR:
            given = script.spread(function, script.parameters(function))
            if any(script.depends(item, given) for item in (*call.args, *(word.value for word in call.keywords))):
                return True
    return False


class LoopInModel(ModelRule):
    """A layer or a loss goes through the examples one by one.

    `tf.map_fn`, `lax.map` or a Python loop over the rows of a batch turns one operation on the batch into as
    many small ones as it has rows.

    fitscope says so when the user's code asked for a loop while the step was traced (recurrent layers of Keras'
    own are none of it), or, where steps run eagerly, when the step was found on a line in a loop of `call` or of
    a loss, and the step takes most of the training. A loop that counts through weights or tensors (`self.kernels[k]`)
    is one, too, if it takes milliseconds and the weights are far too few to explain the step; so is one that gives a
    layer one slice after the other (`self.encoder(x[:, t])`), if a round takes little more than calling layers does.
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
                elif isinstance(node, ast.For) and _goes_over_tensor(script, node, inner, tensors):
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


def _goes_over_tensor(script: Script, loop: ast.For, inner: Inner, tensors: frozenset[str]) -> bool:
    """Whether a loop goes through a tensor, or counts along one of its axes."""
    sources = [loop.iter]
    if isinstance(loop.iter, ast.Call):
        name = script.called(loop.iter)
        if name == "range":
            sized = any(_is_size(script, item, tensors) for item in loop.iter.args)
            return sized or (inner.kind in ("loss", "metric") and _takes_rows(script, loop, inner))
        if name in ("keras.ops.unstack", "tensorflow.unstack"):
            return bool(loop.iter.args) and script.depends(loop.iter.args[0], tensors)
        sources = loop.iter.args if name in ("enumerate", "zip") else []
    # What a layer is called with may be a list of tensors; y_true and y_pred are tensors.
    given = [source.id for source in sources if isinstance(source, ast.Name)]
    return inner.kind in ("loss", "metric") and bool(given) and all(name in inner.tensors for name in given)


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
            made = [value for value in script.values(call.func) if isinstance(value, ast.Call)]
            owner = script.local_class(made[0].func) if made else None
            inside = script.methods(owner).get("call") if owner is not None else None
            spans = [(each.lineno, each.end_lineno or 0) for each in (call, inside) if each is not None]
            found = [
                line
                for line in step_lines(region)
                if line.where.file == file and any(first <= line.where.line <= last for first, last in spans)
            ]
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
    if not isinstance(loop.target, ast.Name) or (script.rounds(loop) or 0) < FEW_ROUNDS:
        return False
    for node in ast.walk(loop):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in inner.tensors:
            index = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            if isinstance(index, ast.Name) and index.id == loop.target.id:
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


class Float16OnCpu(ModelRule):
    """The model computes in float16 on a processor that has no hardware for it.

    `mixed_float16` is made for GPUs. A CPU converts every number to float32 and back.

    fitscope says so when the layers compute in float16, the training runs on a CPU, and the step takes at least 10 %
    of the training; on JAX only where most of the work is in dense layers and attention, for XLA loses nothing with
    convolutions.

    Change: `keras.mixed_precision.set_global_policy("float32")` on this machine (or `mixed_bfloat16` where the
    processor supports it).
    """

    code = "FS403"
    name = "float16-on-cpu"
    fixable = True
    examples = (
        example(
            "float16-on-cpu",
            line='set_global_policy("mixed_float16")',
            backends=("tensorflow", "torch"),
            estimable=False,
        ),
    )

    def of_region(self, case: Case, region: Region) -> Iterable[Cause]:
        """A model that computes in float16 on a CPU."""
        settings = case.settings(region)
        step = seconds_of(region, "step")
        on_jax = case.run.backend == "jax"
        slow_here = not on_jax or case.part_of_work(region, PRODUCTS) >= 0.5
        if settings.get("compute_dtype") == "float16" and settings.get("device") == "cpu" and slow_here:
            low, high = (0.2, 0.55) if on_jax else (0.15, 0.75)
            yield Cause(
                says="The model computes in float16 on a CPU, which has no hardware for it.",
                where=case.find(r"float16") or region.where,
                evidence=(share("of the training is spent in the step", step / case.seconds),),
                saves=with_validation(region, low * step, high * step),
                remedy='keras.mixed_precision.set_global_policy("float32") on this machine.',
                claims=frozenset({f"{id(region)}:step"}),
            )

    def lint(self, script: Script) -> Iterable[Hit]:
        """float16 in a script that hides its GPUs."""
        if script.environment.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
            for call in _chosen_types(script, "float16", "mixed_float16"):
                yield Hit(
                    call.lineno,
                    "float16 is chosen, and the script hides its GPUs: processors have no hardware for float16.",
                    "float32, or mixed_bfloat16 on a processor that has it.",
                )


PRODUCTS = ("Dense", "EinsumDense", "GroupQueryAttention", "MultiHeadAttention")
"""Layers that take longer in float16 on JAX: dense networks took 1.65 and 1.75 times as long there on a CPU, a
recurrent one 1.18 times, a convolutional one no longer. On TensorFlow five models took 1.1 to 4.9 times as long."""


def _chosen_types(script: Script, *names: str) -> Iterable[ast.Call]:
    """The calls that choose one of these types for all layers."""
    for call in script.calls:
        if script.called(call) in TYPE_SETTERS and call.args and script.literal(call.args[0]) in names:
            yield call


class Float64Model(ModelRule):
    """The model computes in float64, which takes twice the memory and about twice the time.

    fitscope says so when the trained variables are float64.

    Change: `keras.config.set_floatx("float32")`, and `astype("float32")` on the data.
    """

    code = "FS404"
    name = "float64-model"
    fixable = True
    examples = (
        example("float64-model", line='set_floatx("float64")', backends=("tensorflow", "torch"), estimable=False),
    )

    def of_region(self, case: Case, region: Region) -> Iterable[Cause]:
        """A model whose variables are float64."""
        settings = case.settings(region)
        step = seconds_of(region, "step")
        if settings.get("variable_dtype") == "float64":
            work, batch = case.work(region), settings.get("batch_size")
            computes = work and batch and region.steps and work * batch / 5e9 >= 0.2 * step / region.steps
            yield Cause(
                says="The model computes in float64.",
                where=case.find(r"float64") or region.where,
                evidence=(share("of the training is spent in the step", step / case.seconds),),
                # Ten models on TensorFlow and PyTorch took 1.5 to 2.8 times as long, another one 3.6 times.
                saves=with_validation(region, (0.33 if computes else 0.1) * step, 0.72 * step),
                remedy='keras.config.set_floatx("float32"), and give the data as float32.',
                claims=frozenset({f"{id(region)}:step"}),
            )

    def lint(self, script: Script) -> Iterable[Hit]:
        """float64 chosen for all layers."""
        for call in _chosen_types(script, "float64"):
            yield Hit(
                call.lineno,
                "The whole model computes in float64: twice the bytes of float32 in every operation.",
                "float32, unless the result needs the digits.",
            )


class EpochsPastBest(ModelRule):
    """The training went on long after the validation score stopped improving.

    fitscope says so when, by the recorded history, at least ten epochs and at least half of all epochs came
    after the best `val_loss`, and no EarlyStopping was there, or only one that is more patient than the training is
    long. It says nothing of accuracy.

    Change: `EarlyStopping(patience=5, restore_best_weights=True)`.
    """

    code = "FS410"
    name = "epochs-past-best"
    fixable = True
    examples = (example("epochs-past-best", line="model.fit(x[:64], y[:64]", estimable=False),)

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at the history of every fit."""
        for region in case.regions("fit"):
            for fact in case.facts("history", region):
                recorded = fact["scores"].get("val_loss") or []
                scores = [score for score in recorded if math.isfinite(score)]
                callbacks = case.settings(region).get("callbacks", ())
                stopping = [each.get("patience") or 0 for each in callbacks if each["name"] == "EarlyStopping"]
                if not scores or min(stopping, default=len(recorded)) < len(recorded) or region.calls != 1:
                    continue
                best = scores.index(min(scores))
                after = len(scores) - 1 - best
                once = seconds_of(region, "setup", "compile")
                wasted = (region.wall_seconds - once) * max(0, after - 5) / len(scores)
                if after < max(10, len(scores) / 2) or not case.matters(wasted):
                    continue
                yield Cause(
                    says=f"{words.count(after, 'epoch')} came after the best val_loss, in epoch {best + 1}.",
                    where=region.where,
                    evidence=(counted("epochs after the best", after), took("spent on them", wasted)),
                    saves=case.saves(wasted, spread=1.1),
                    remedy=(
                        f"Less patience than {min(stopping)} epochs: patience=5 for EarlyStopping."
                        if stopping
                        else "EarlyStopping(patience=5, restore_best_weights=True) in callbacks=[…]."
                    ),
                    claims=frozenset({f"{id(region)}:epochs"}),
                )


RULES = (PythonInModel(), LoopInModel(), Float16OnCpu(), Float64Model(), EpochsPastBest())
