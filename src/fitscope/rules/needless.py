"""Causes in the model: work in every step that the training could do without."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from fitscope import words
from fitscope.model import Evidence, Region, Where
from fitscope.rules.case import Case, counted, seconds_of, share, took, with_end, with_validation
from fitscope.rules.model import ModelRule
from fitscope.rules.rule import Cause, Hit, example
from fitscope.source import Script


def is_eager(case: Case, region: Region) -> bool:
    """Whether steps that could be compiled run eagerly: then that is what costs."""
    return case.run.backend != "torch" and bool(case.settings(region).get("run_eagerly"))


class NeedlessWork(ModelRule):
    """Work in the step that could be left out."""

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at every training that computes."""
        for region in case.regions("fit", "train_on_batch", "loop"):
            if case.matters(seconds_of(region, "step"), 0.1) and region.steps and not is_eager(case, region):
                yield from self.of_region(case, region)


class ExpensiveMetric(NeedlessWork):
    """A metric takes a large part of every step.

    What stands in `compile(metrics=…)` is computed for each batch of the training, though mostly the value at the
    end of an epoch is read. Metrics that compare all pairs of rows, sort, go through many thresholds or classes, or
    run another model can take longer than the training itself.

    fitscope says so when one metric takes a quarter of the steps, or all of them together half. On TensorFlow and
    JAX a metric's part is cut out of the compiled step and run alone when the training is over; where steps run
    eagerly, as on PyTorch, it is timed in the step.

    Change: compute it once per epoch, on the validation data, in a callback's `on_epoch_end`; or make it cheaper:
    fewer thresholds, a sample of the rows, operations on the whole batch.
    """

    code = "FS405"
    name = "expensive-metric"
    rank = 42
    fixable = True
    examples = (
        example("expensive-metric", number=1, line="def ranked", backends=("tensorflow", "jax"), estimable=False),
        example("expensive-metric", number=2, line="metrics.Precision(", backends=("torch",), estimable=False),
    )

    def of_region(self, case: Case, region: Region) -> Iterable[Cause]:
        """Holds what the metrics take against the steps."""
        step = seconds_of(region, "step")
        found = {fact["name"]: fact for fact in case.facts("metric", region)}
        metrics = sorted(found.values(), key=lambda fact: -fact["seconds"])
        spent = [min(fact["seconds"] * region.steps, 0.95 * step) for fact in metrics]
        if not metrics or not (spent[0] >= 0.25 * step or sum(spent) >= 0.5 * step):
            return
        dear = [fact for fact, seconds in zip(metrics, spent, strict=True) if seconds >= 0.1 * step]
        total = min(0.95 * step, sum(seconds for seconds in spent if seconds >= 0.1 * step))
        if not case.matters(total):
            return
        first = metrics[0]
        names = " and ".join(fact["name"] for fact in dear[:4])
        alone = first["how"] == "alone"
        yield Cause(
            says=f"{'The metrics' if len(dear) > 1 else 'The metric'} {names} {'take' if len(dear) > 1 else 'takes'} "
            f"{words.share(total / step)} of every step.",
            where=self._where(case, region, first),
            evidence=(
                took(f"for {first['name']}, {'run alone' if alone else 'timed in the step'}", first["seconds"]),
                took("per step", step / region.steps),
                share("of the training is the steps", step / case.seconds),
            ),
            # Beside the rest of a compiled step a metric may find an idle core, or memory that is no longer at hand.
            saves=with_validation(
                region, *((0.6 * total, min(1.25 * total, 0.92 * step)) if alone else case.saves(total))
            ),
            remedy=self._remedy(first),
            claims=frozenset({f"{id(region)}:step"}),
        )

    def _where(self, case: Case, region: Region, fact: dict[str, Any]) -> Where | None:
        """The function or the constructor of the metric; for one that was given by name the line of `compile`."""
        where: Where | None = fact.get("where")
        if where is None or where == region.where:
            return case.find(r"\.compile\(") or region.where
        return where

    def _remedy(self, fact: dict[str, Any]) -> str:
        cheaper = "Write it for the whole batch" if fact["own"] else "Give it fewer thresholds or classes"
        return (
            "Take it out of compile(metrics=…) and compute it once per epoch from model.predict(x_val), in a "
            f"callback's on_epoch_end. {cheaper}, if it has to stay."
        )


FAST = {"activation": "tanh", "recurrent_activation": "sigmoid"}
"""What cuDNN's kernels for recurrent layers compute."""
LONG_COMPILE = 2.0
"""Seconds of tracing and compiling from which on a sequence that is written out is what takes them."""
LEFT_OF_COMPILE = 0.25
"""What is left of them at most with a loop in the graph."""
ROLLED = {"tensorflow": 1.6, "jax": 0.5, "torch": 1.0}
"""How long a step takes with a loop in the graph, against one that is written out, as measured on a CPU."""
ON_CPU = {
    ("tensorflow", "LSTM", "recurrent_dropout"): (0.3, 0.55),
    ("tensorflow", "GRU", "recurrent_dropout"): (0.1, 0.3),
    ("jax", "LSTM", "recurrent_dropout"): (0.1, 0.4),
    ("jax", "GRU", "recurrent_dropout"): (0.05, 0.25),
    ("torch", "LSTM", "recurrent_dropout"): (0.4, 0.65),
    ("torch", "GRU", "recurrent_dropout"): (0.4, 0.65),
    ("torch", "GRU", "reset_after"): (0.25, 0.5),
    ("torch", "LSTM", "cell"): (0.25, 0.5),
}
"""The part of a layer's time on a CPU that goes with a setting, as measured with 30 and 40 steps in time. What is not
here costs nothing there: on TensorFlow and JAX a cell in a general loop is as fast as the layer."""
IN_ONE_CALL = {"LSTM": (0.5, 0.73), "GRU": (0.3, 0.6)}
"""The part of a layer's time that PyTorch's own layer saves on a CPU: its kernel goes through the sequence in one
call, Keras' loop in Python. Measured with 24 to 200 steps in time and 32 to 512 units: an LSTM was 1.9 to 7.3 times
as fast, a GRU 1.3 to 4.8 times."""
LONG_SEQUENCE = 16
"""Steps in time from which on that is worth a word."""
MOST_UNITS = {"jax": 64}
"""Larger layers multiply for so long that masks do not matter."""


class UnfusedRecurrent(NeedlessWork):
    """A recurrent layer has settings that cost it its fast way of being computed.

    On a GPU one kernel of cuDNN computes a whole LSTM or GRU, if its settings are the usual ones: `tanh` and
    `sigmoid`, no `recurrent_dropout`, `unroll=False`, `use_bias=True`, `reset_after=True`, and the layer itself, not
    `RNN(LSTMCell(…))`. Otherwise each step in time is several kernels. On a CPU there is no such kernel, and most of
    these settings cost nothing. Some do: `recurrent_dropout` multiplies by masks in each step in time (an LSTM of
    32 units took 1.8 times as long on TensorFlow, 1.5 times on JAX, 2.8 times on PyTorch); on PyTorch
    `RNN(LSTMCell(…))` and `reset_after=False` take 1.8 times as long; and `unroll=True` makes a graph as long as the
    sequence, which takes long to trace and compile. On PyTorch the layer itself has no kernel there, either: Keras
    goes through the sequence in Python, and `torch.nn.LSTM` is 1.9 to 7 times as fast.

    fitscope says so on a GPU when the steps take a third of the training; on a CPU for the settings that cost
    something there, when the steps take a third of the training and most of the model's multiplications are along the
    sequence, and for `unroll=True` when compiling takes at least three seconds and a third of the training; for a
    layer with the usual settings on PyTorch, when the steps take half of the training and at least half of the
    model's work is in such layers.

    Change: `LSTM(units)` with the usual settings; `dropout=` in place of `recurrent_dropout=`, which drops what comes
    in and is another regularization. On PyTorch `TorchModuleWrapper(torch.nn.LSTM(features, units,
    batch_first=True))`, which has no mask and begins with other weights.
    """

    code = "FS406"
    name = "unfused-recurrent"
    rank = 44
    fixable = True
    examples = (
        example("unfused-recurrent", number=1, line="layers.LSTM(32, unroll", backends=("jax",), estimable=False),
        example(
            "unfused-recurrent",
            number=2,
            line="layers.LSTM(32, rec",
            backends=("tensorflow",),
            estimable=False,
        ),
    )

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at the recurrent layers of every training."""
        for region in case.regions("fit", "train_on_batch", "loop"):
            layers = case.facts("recurrent", region)
            if layers and region.steps and not is_eager(case, region):
                on_cpu = case.settings(region).get("device", "cpu") == "cpu"
                yield from self._on_cpu(case, region, layers) if on_cpu else self._on_gpu(case, region, layers)

    def _on_gpu(self, case: Case, region: Region, layers: list[dict[str, Any]]) -> Iterable[Cause]:
        step = seconds_of(region, "step")
        slow = [layer for layer in layers if lost_by(layer)]
        if not slow or not case.matters(step, 0.3):
            return
        layer = slow[0]
        yield Cause(
            says=f"{layer['layer']} is computed without cuDNN's kernel, because of {' and '.join(lost_by(layer))}.",
            where=layer.get("where") or region.where,
            evidence=(
                share("of the training is the steps", step / case.seconds),
                took("per step", step / region.steps),
                counted("recurrent layers without the fast kernel", len(slow)),
            ),
            saves=(0.0, 0.75 * step),
            remedy=f"{usual(layer)}, with the settings that cuDNN has.",
            claims=frozenset({f"{id(region)}:step"}),
        )

    def _on_cpu(self, case: Case, region: Region, layers: list[dict[str, Any]]) -> Iterable[Cause]:
        compiling = seconds_of(region, "compile")
        step = seconds_of(region, "step")
        unrolled = [layer for layer in layers if layer["unroll"] and (layer["steps"] is None or layer["steps"] >= 8)]
        backend = case.run.backend or ""
        saved = compiling * (1 - LEFT_OF_COMPILE) + step * (1 - ROLLED.get(backend, 1.0))
        if unrolled and compiling >= LONG_COMPILE and case.matters(compiling, 0.33) and case.matters(saved, 0.1):
            layer = max(unrolled, key=lambda each: each["steps"] or 0)
            number = f"{layer['steps']} " if layer["steps"] else ""
            yield Cause(
                says=f"unroll=True writes the {number}steps of the sequence out one by one: tracing and compiling "
                f"that takes {words.seconds(compiling)}.",
                where=layer.get("where") or region.where,
                evidence=(
                    share("of the training is tracing and compiling", compiling / case.seconds),
                    *([counted("steps in time that are written out", layer["steps"])] if layer["steps"] else []),
                    took("per step of the training", step / region.steps),
                ),
                saves=case.saves(saved),
                remedy="unroll=False: a loop in the graph, compiled once for all steps in time.",
                claims=frozenset({f"{id(region)}:compile"}),
            )
        dear = [(each, *price) for each in layers if (price := price_on_cpu(backend, each)) is not None]
        part = next((fact["share"] for fact in case.facts("sequences", region)), None)
        part = 1.0 if part is None else part
        if dear and case.matters(step, 0.3) and part >= 0.5:
            layer, because, low, high = max(dear, key=lambda each: each[-1])
            dropped = bool(layer["recurrent_dropout"])
            instead = ", and dropout= in place of recurrent_dropout= (another regularization)" if dropped else ""
            yield Cause(
                says=f"{layer['layer']} is computed the long way, because of {because}.",
                where=layer.get("where") or region.where,
                evidence=(
                    share("of the training is the steps", step / case.seconds),
                    took("per step", step / region.steps),
                    counted("recurrent layers with that setting", len(dear)),
                    *([counted("steps in time", layer["steps"])] if layer["steps"] else []),
                ),
                saves=with_validation(region, low * part * step, high * part * step),
                remedy=f"{usual(layer)} with the usual settings{instead}.",
                claims=frozenset({f"{id(region)}:step"}),
            )
        elif backend == "torch":
            yield from self._in_python(case, region, layers)

    def _in_python(self, case: Case, region: Region, layers: list[dict[str, Any]]) -> Iterable[Cause]:
        """Layers with the usual settings on PyTorch, through whose sequence Keras goes step by step."""
        step, part = seconds_of(region, "step"), case.part_of_work(region, IN_ONE_CALL)
        fused = [layer for layer in layers if layer["layer"] in IN_ONE_CALL]
        plain = [each for each in fused if not lost_by(each) and (each["steps"] or LONG_SEQUENCE) >= LONG_SEQUENCE]
        if not plain or len(plain) < len(fused) or part < 0.5 or not case.matters(step, 0.5):
            return
        layer = plain[0]
        kind = layer["layer"]
        low, high = min(IN_ONE_CALL[each["layer"]] for each in plain)
        yield Cause(
            says=f"{kind} goes through its sequence step by step in Python: Keras has no kernel for it on PyTorch.",
            where=layer.get("where") or region.where,
            evidence=(
                share("of the training is the steps", step / case.seconds),
                share("of the model's work is in such layers", part),
                took("per step", step / region.steps),
                counted("recurrent layers", len(plain)),
            ),
            saves=with_validation(region, low * part * step, high * part * step),
            remedy=f"layers.TorchModuleWrapper(torch.nn.{kind}(features, {layer['units']}, batch_first=True)) goes "
            "through it in one call, and gives a pair: the whole sequence (its last step is [:, -1]) and its state. "
            "It has no mask, and begins with other weights.",
            claims=frozenset({f"{id(region)}:step"}),
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """A cell in a general loop where a layer would do."""
        for call in script.calls:
            if script.called(call) != "keras.layers.RNN" or not call.args:
                continue
            cell = call.args[0]
            made = next(iter(script.values(cell)), cell) if isinstance(cell, ast.Name) else cell
            name = script.called(made) if isinstance(made, ast.Call) else ""
            if name in ("keras.layers.LSTMCell", "keras.layers.GRUCell"):
                layer = name.rpartition(".")[2].removesuffix("Cell")
                yield Hit(
                    call.lineno,
                    f"RNN({layer}Cell(…)) is computed step by step in time; {layer}(…) has a fast kernel on a GPU.",
                    f"layers.{layer}(…) with the cell's arguments.",
                )


def lost_by(layer: dict[str, Any]) -> list[str]:
    """The settings of a recurrent layer that cuDNN does not have."""
    if layer["layer"] == "RNN" and layer["cell"] in ("LSTMCell", "GRUCell"):
        return [f"RNN({layer['cell']}(…))"]
    if layer["layer"] not in ("LSTM", "GRU"):
        return []
    found = [f'{name}="{layer[name]}"' for name, usual in FAST.items() if layer[name] not in (None, usual)]
    found += ["unroll=True"] if layer["unroll"] else []
    found += [f"recurrent_dropout={layer['recurrent_dropout']}"] if layer["recurrent_dropout"] else []
    found += ["use_bias=False"] if layer["use_bias"] is False else []
    found += ["reset_after=False"] if layer["layer"] == "GRU" and layer["reset_after"] is False else []
    return found


def price_on_cpu(backend: str, layer: dict[str, Any]) -> tuple[str, float, float] | None:
    """The setting of a recurrent layer that costs most on a CPU, and the part of its time that goes with it."""
    kind = layer["cell"].removesuffix("Cell")
    if layer["units"] is not None and layer["units"] > MOST_UNITS.get(backend, layer["units"]):
        return None
    settings = {
        "recurrent_dropout": (layer["recurrent_dropout"], f"recurrent_dropout={layer['recurrent_dropout']}"),
        "cell": (layer["layer"] == "RNN", f"RNN({layer['cell']}(…))"),
        "reset_after": (layer["reset_after"] is False, "reset_after=False"),
    }
    for name, (is_set, words_for_it) in settings.items():
        found = ON_CPU.get((backend, kind, name))
        if is_set and found is not None:
            return words_for_it, *found
    return None


def usual(layer: dict[str, Any]) -> str:
    """How the layer is written with the usual settings."""
    kind = layer["layer"] if layer["layer"] != "RNN" else layer["cell"].removesuffix("Cell")
    return f"layers.{kind}({layer['units']})"


class DenseEmbeddingUpdate(NeedlessWork):
    """The optimizer goes through all rows of a large embedding in every step, though a batch uses a few of them.

    A batch reads some hundred rows of the table. Adam and its kin keep averages for every row and change all of
    them in every step, so a step takes as long as the vocabulary is large, whatever the batch.

    fitscope says so when a batch can use at most a quarter of an embedding's rows, the optimizer is one whose price
    was measured (Adam, AdamW, RMSprop, Adafactor, Ftrl, Lion), and what its update takes for a table of that size is
    at least a fifth of the measured steps: in units of an addition in memory, which is timed on this machine when
    the training is over. It says so on CPUs only.

    Change: a smaller vocabulary (the words that occur often, or ids hashed by `ids % 20_000`), which helps in
    proportion on every backend; on TensorFlow also `keras.optimizers.SGD` without momentum, which changes the rows of
    the batch alone. On JAX and PyTorch SGD goes through the table, too, in a half to a seventh of Adam's time.
    """

    code = "FS407"
    name = "dense-embedding-update"
    rank = 43
    examples = (
        example(
            "dense-embedding-update", number=1, line="layers.Embedding(", backends=("tensorflow",), estimable=False
        ),
        example("dense-embedding-update", number=2, line="layers.Embedding(", backends=("jax",), estimable=False),
    )

    def of_region(self, case: Case, region: Region) -> Iterable[Cause]:
        """Holds what the update of all rows takes against the steps."""
        step = seconds_of(region, "step")
        if case.settings(region).get("device", "cpu") != "cpu":
            return
        rate = next((fact["seconds_per_byte"] for fact in case.facts("memory", region)), None)
        tables = [fact for fact in case.facts("embedding", region) if self._few_rows(fact)]
        passes = PASSES.get(case.run.backend or "", {}).get(tables[0]["optimizer"] or "") if tables else None
        if rate is None or passes is None:
            return
        size = sum(fact["bytes"] for fact in tables)
        low, high = (factor * passes * size * rate * region.steps for factor in (0.5, 2.0))
        if low < 0.2 * step or not case.matters(low):
            return
        largest = max(tables, key=lambda fact: fact["bytes"])
        reads = largest["reads"]
        yield Cause(
            says=f"{largest['optimizer']} changes all {largest['rows']:,} rows of {largest['name']} in every step"
            + (f", of which a batch uses at most {reads:,}." if reads else "."),
            where=largest.get("where") or region.where,
            evidence=(
                counted("rows of the table", largest["rows"]),
                *([counted("rows that a batch can use", reads)] if reads else []),
                Evidence("of weights in all rows", size, "bytes"),
                took("per step", step / region.steps),
                share("of the training is the steps", step / case.seconds),
            ),
            saves=with_end(region, min(low, 0.7 * step), min(high, 0.95 * step)),
            remedy=self._remedy(case.run.backend or ""),
            claims=frozenset({f"{id(region)}:step"}),
        )

    def _few_rows(self, fact: dict[str, Any]) -> bool:
        """Whether a batch uses a small part of the rows; where its shape is unknown, a table of some size."""
        reads = fact["reads"]
        return bool(reads <= 0.25 * fact["rows"] if reads else fact["rows"] >= 50_000)

    def _remedy(self, backend: str) -> str:
        smaller = "A smaller vocabulary, or ids hashed into fewer rows (ids % 20_000)"
        if backend == "tensorflow":
            return f"{smaller}; or keras.optimizers.SGD(…) without momentum, which changes the batch's rows alone."
        return f"{smaller}. keras.optimizers.SGD(…) goes through the table faster than Adam."


PASSES = {
    "tensorflow": {"Adafactor": 14, "Adam": 14, "AdamW": 16, "Ftrl": 14, "Lion": 8, "RMSprop": 8},
    "jax": {"Adagrad": 11, "Adam": 12, "AdamW": 12, "RMSprop": 11},
    "torch": {"Adafactor": 40, "Adagrad": 45, "Adam": 45, "AdamW": 40, "Ftrl": 70, "Lion": 20, "RMSprop": 35},
}
"""How long a backend's update takes for a byte of the table, in units of one addition in memory, right to a factor of
two: measured with tables of 13 and 64 MB on two cores. What is not here was not measured, or is cheap (SGD)."""


class OverlongSequence(NeedlessWork):
    """Sequences are padded far beyond their content, and the model computes the padding.

    `pad_sequences(maxlen=500)` makes rows of 500 of texts that mostly have 60 words. Recurrent layers, convolutions
    and attention take as long for a row of padding as for a row of words; masking changes the result, not the time.

    fitscope says so when of the rows that it looked at (some hundred, of the arrays or of the first batches) 95 %
    have at most two thirds of the length and the mean is below 40 %, or the mean is below 20 %, in a model most of
    whose multiplications are along the sequence.

    Change: `maxlen` near the length that 95 % of the rows have, or batches of rows of similar length, each padded
    to its own longest (`bucket_by_sequence_length`).
    """

    code = "FS409"
    name = "overlong-sequence"
    rank = 46
    fixable = True
    examples = (example("overlong-sequence", line="pad_sequences(", backends=("tensorflow", "jax"), estimable=False),)

    def of_region(self, case: Case, region: Region) -> Iterable[Cause]:
        """Holds the content of the rows against their length."""
        model = next(iter(case.facts("sequences", region)), None)
        looked = {fact["length"]: fact for fact in case.facts("padding", region)}
        if model is None or not looked:
            return
        fact = max(looked.values(), key=lambda each: (each["rows"], each["length"]))
        length, mean, p95 = fact["length"], fact["mean"], fact["p95"]
        known = bool(model["lengths"])
        if (known and length not in model["lengths"]) or not (model["embeds"] or fact["features"]):
            return
        trims = p95 <= 0.67 * length and mean <= 0.4 * length
        if not trims and mean > 0.2 * length:
            return
        part = model["share"] if known else 0.8
        kept = min(length, -(-p95 // 8) * 8 if trims else 1.3 * mean)
        step = seconds_of(region, "step")
        spent = step * part * (1 - kept / length)
        if part < 0.4 or not case.matters(spent, 0.1):
            return
        yield Cause(
            says=f"Sequences are padded to {length}, and on average {mean:g} of that is content.",
            where=case.find(r"pad_sequences\(|padded_batch\(|output_sequence_length\s*=|max_?len(gth)?\s*=")
            or region.where,
            evidence=(
                share("of the positions is padding", 1 - mean / length),
                counted("positions that 95 % of the rows fill at most", p95),
                counted("positions in each row", length),
                counted("rows looked at", fact["rows"]),
                share("of the training is the steps", step / case.seconds),
            ),
            saves=case.saves(with_validation(region, spent, spent)[1]),
            remedy=(
                f"Pad to less: maxlen={kept} holds 95 % of the rows whole; "
                if trims
                else "Most rows are short and a few are long: "
            )
            + "or put rows of similar length into one batch and pad it to its longest (bucket_by_sequence_length).",
            claims=frozenset({f"{id(region)}:step"}),
        )


RULES = (ExpensiveMetric(), UnfusedRecurrent(), DenseEmbeddingUpdate(), OverlongSequence())
