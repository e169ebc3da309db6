"""Edits of trainings so short that starting them is what costs."""

from __future__ import annotations

import ast

from fitscope.fixes.draft import Unsure
from fitscope.fixes.execution import receiver
from fitscope.fixes.kind import Kind, Place, only
from fitscope.fixes.rounds import may_draw
from fitscope.model import Edit
from fitscope.source import Script

KERAS_BATCH = 32


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
        return place.edit(draft, "the same steps in one epoch", _missed(place, words.get("verbose")))


def _missed(place: Place, verbose: ast.expr | None) -> str:
    """Who would miss the records of the epochs, or may draw other numbers; empty if nobody does."""
    for text in place.project.texts():
        if text.script.references("history"):
            return "the history has one record instead of one for each step"
        if any(may_draw(text.script, call) for call in text.script.calls):
            return "layers that draw random numbers draw others for the same rows"
    if place.script.literal(verbose) != 0:
        return "one line is printed instead of one for each step"
    return ""


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


KINDS = (RepeatedEpoch(), FitInSteps())
