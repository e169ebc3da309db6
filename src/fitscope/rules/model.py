"""Causes in the model: what the step itself computes, and in which way."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable

from fitscope import words
from fitscope.model import Evidence, Line, Region
from fitscope.rules.case import Case, counted, parts_of, seconds_of, share, shorter_end, took, with_validation
from fitscope.rules.rule import Cause, Hit, Rule, example
from fitscope.source import INTO_PYTHON, Script

IN_PYTHON = ("keras.ops.convert_to_numpy", "numpy.", "sklearn.metrics.")
SCALAR = ("ceil", "exp", "float32", "float64", "floor", "int32", "int64", "log", "log2", "power", "prod", "sqrt")
"""What NumPy is asked for a single number of, beside a tensor: the square root of a width, a number of elements."""
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


RULES = (PythonInModel(), Float16OnCpu(), Float64Model(), EpochsPastBest())
