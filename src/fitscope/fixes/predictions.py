"""Edits of predictions: all rows of a loop in one call, or each without a pipeline and a loop of its own."""

from __future__ import annotations

import ast
import contextlib
from dataclasses import dataclass, replace
from typing import Any

from fitscope.effects import RANDOM
from fitscope.fixes.draft import Draft, Unsure
from fitscope.fixes.kind import Kind, Place, only
from fitscope.model import Edit, Where
from fitscope.names import listed
from fitscope.source import Script

MANY_ROWS = 1024
KERAS_BATCH = 32
OFTEN = 10
FEW_BATCHES = 8
"""Batches of 32 rows that may as well be one."""
KNOWN = listed("abs bool float int len list max min print round str sum tuple")
"""What a loop over rows may call beside the prediction and NumPy: none of it changes the model or the rows."""
AT_ONCE = listed("list max min sum sorted tuple")
"""What goes through a generator expression to its end, at once."""
LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await)
SHAPED = ("numpy.empty", "numpy.full", "numpy.ones", "numpy.zeros")
NO_ARRAYS = ("numpy.array_split", "numpy.load", "numpy.split")
KNOWN_METHODS = listed(
    "append add extend item argmax max min mean sum round astype squeeze flatten ravel tolist copy numpy"
)


def _predictions(place: Place) -> list[ast.Call]:
    """The predict calls that a finding is about."""
    script = place.script
    known = set(script.model_calls("predict"))
    calls = [call for call in place.calls() if call in known]
    if not calls:
        if set(place.calls()) & set(script.model_calls("evaluate")):
            raise Unsure("test_on_batch adds to the metrics of the training instead of starting anew")
        raise Unsure("the source shows no predict at this place")
    return calls


def _draws(place: Place, otherwise: str) -> str:
    """The risk of another number of random numbers."""
    if place.project.backend == "torch" and place.others_draw():
        return f"on PyTorch predict draws a random number, {otherwise}: later orders differ"
    return ""


@dataclass(frozen=True)
class _Rows:
    """A loop over the rows of an array, with the names that it binds to the row and to its index.

    `for row in rows`, `for i, row in enumerate(rows)`, `for row, label in zip(rows, labels)`, and
    `for i in range(len(rows))`.
    """

    array: ast.expr
    row: str | None
    index: str | None
    target: ast.expr
    source: ast.expr
    zipped: bool = False


class OneCall(Kind):
    """The rows that a loop predicts one by one, predicted in one call before it."""

    causes = ("predict-in-callback", "predict-in-loop")

    def edit(self, place: Place) -> Edit:
        """`for prediction in model.predict(rows)`."""
        script = place.script
        call = only(_predictions(place), "predict at this place")
        loop, clause = _around(script, call)
        rows = _rows(script, clause.target, clause.iter, call)
        whole = self._whole(script, call, rows)
        _undisturbed(script, loop, call, rows)
        _plain_model(script, call)
        draft = place.draft()
        name = draft.free_name("prediction", "predicted", "row_prediction")
        _take_first(script, draft, call, name)
        arguments = [each for each in call.keywords if each.arg not in ("x", "batch_size")]
        if any(_names(each) & _names(rows.target) for each in arguments):
            raise Unsure("the settings of this predict change from row to row")
        written = [whole, *map(draft.source, arguments)]
        predicted = f"{draft.source(call.func)}({', '.join(written)})"
        if _few_rows(script, rows.array) and isinstance(call.func, ast.Attribute) and place.project.backend != "jax":
            # On JAX the rows of predict_on_batch cannot be written into.
            predicted = f"{draft.source(call.func.value)}.predict_on_batch({whole})"
        self._head(draft, rows, name, predicted, keep_row=_row_is_used(script, loop, call, rows))
        does = "predicts all rows in one call before the loop"
        return place.edit(draft, does, _draws(place, "and it is called less often"))

    @staticmethod
    def _head(draft: Draft, rows: _Rows, name: str, predicted: str, *, keep_row: bool) -> None:
        target, source = draft.source(rows.target), draft.source(rows.source)
        if rows.zipped:
            draft.replace(rows.target, f"{target.strip('()')}, {name}")
            draft.replace(rows.source, f"{source.rstrip()[:-1].rstrip(', ')}, {predicted})")
        elif rows.index is None:
            draft.replace(rows.target, f"{rows.row}, {name}" if keep_row else name)
            array = draft.source(rows.array)
            draft.replace(rows.source, f"zip({array}, {predicted})" if keep_row else predicted)
        elif keep_row:
            draft.replace(rows.target, f"{rows.index}, ({rows.row}, {name})")
            draft.replace(rows.source, f"enumerate(zip({draft.source(rows.array)}, {predicted}))")
        else:
            draft.replace(rows.target, f"{rows.index}, {name}")
            draft.replace(rows.source, f"enumerate({predicted})")

    @staticmethod
    def _whole(script: Script, call: ast.Call, rows: _Rows) -> str:
        """All rows as the model takes them: what the call does to one of them, done to all."""
        if call.args[1:] or any(each.arg not in ("x", "verbose", "batch_size") for each in call.keywords):
            raise Unsure("this predict has arguments that may be meant for one row")
        if not is_array(script, rows.array):
            raise Unsure("that the rows are one array cannot be told from the source")
        given = script.argument(call, "x", 0)
        array = ast.unparse(rows.array)
        if isinstance(given, ast.Subscript) and _same(given.value, rows.array) and rows.index is not None:
            start, stop = getattr(given.slice, "lower", None), getattr(given.slice, "upper", None)
            if _same(start, ast.Name(rows.index)) and _same(stop, ast.parse(f"{rows.index} + 1", mode="eval").body):
                return array
        if isinstance(given, ast.Subscript) and _is_row(given.value, rows):
            axes = given.slice.elts if isinstance(given.slice, ast.Tuple) else [given.slice]
            if script.one_row(given) and all(_is_everything(each) for each in axes[1:]):
                return array
        if isinstance(given, ast.Call) and given.args and script.one_row(given):
            first = given.args[0]
            if script.called(given) == "numpy.expand_dims" and _is_row(first, rows):
                return array
            alone = isinstance(first, ast.List) and len(first.elts) == 1 and _is_row(first.elts[0], rows)
            if alone and script.called(given) in ("numpy.array", "numpy.asarray") and not given.keywords:
                return array
        if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "reshape":
            shape = _shape(given)
            names = {name for each in shape for name in _names(each)}
            one = script.literal(shape[0]) if shape and not given.keywords else None
            if _is_row(given.func.value, rows) and one == 1 and not names & {rows.row, rows.index}:
                return f"{array}.reshape({', '.join([f'len({array})', *map(ast.unparse, shape[1:])])})"
        raise Unsure("how a row is made a batch cannot be told for all of them")


def _around(script: Script, call: ast.Call) -> tuple[ast.AST, Any]:
    """The innermost loop that a call stands in, straight and not under a condition, and its `for`."""
    child: ast.AST = call
    for each in script.ancestors(call):
        if isinstance(each, ast.ListComp | ast.GeneratorExp):
            if (
                len(each.generators) == 1
                and child is each.elt
                and not each.generators[0].ifs
                and _at_once(script, each)
            ):
                return each, each.generators[0]
            break
        if isinstance(each, ast.For):
            if child in each.body and not each.orelse:
                return each, each
            break
        if isinstance(each, ast.stmt) and not isinstance(each, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign):
            break
        if isinstance(each, ast.IfExp | ast.BoolOp | ast.Lambda | ast.SetComp | ast.DictComp):
            break
        child = each
    raise Unsure("it is in no loop that goes straight through rows")


def _at_once(script: Script, made: ast.ListComp | ast.GeneratorExp) -> bool:
    """Whether a comprehension is gone through where it stands, to its end."""
    parent = script.parents.get(made)
    return isinstance(made, ast.ListComp) or (isinstance(parent, ast.Call) and script.called(parent) in AT_ONCE)


def _rows(script: Script, target: ast.expr, source: ast.expr, call: ast.Call) -> _Rows:
    """What a loop goes through, of which a call in it predicts a row."""
    called = script.called(source) if isinstance(source, ast.Call) else ""
    if isinstance(target, ast.Name) and not called:
        return _Rows(source, target.id, None, target, source)
    if isinstance(source, ast.Call) and not source.keywords:
        names = [each.id for each in getattr(target, "elts", [target]) if isinstance(each, ast.Name)]
        if called == "enumerate" and len(source.args) == 1 and len(names) == 2:
            return _Rows(source.args[0], names[1], names[0], target, source)
        if called == "zip" and len(names) == len(source.args) and isinstance(target, ast.Tuple):
            used = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
            for name, array in zip(names, source.args, strict=True):
                if name in used:
                    return _Rows(array, name, None, target, source, zipped=True)
        if called == "range" and len(source.args) == 1 and isinstance(target, ast.Name):
            counted = _counted(source.args[0])
            if counted is not None:
                return _Rows(counted, None, target.id, target, source)
    raise Unsure("it is in no loop that goes straight through rows")


def _counted(node: ast.expr) -> ast.expr | None:
    """The array whose rows an expression counts: `len(rows)`, `rows.shape[0]`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and node.args:
        return node.args[0]
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        first = isinstance(node.slice, ast.Constant) and node.slice.value == 0
        return node.value.value if first else None
    return None


def _undisturbed(script: Script, loop: ast.AST, call: ast.Call, rows: _Rows) -> None:
    """Raises Unsure if a round of the loop may change what is predicted in it or later, or leave the loop."""
    assert isinstance(call.func, ast.Attribute)
    kept = _names(rows.array) | _names(call.func.value) | {rows.row, rows.index}
    if any(isinstance(node, ast.Call) for node in ast.walk(rows.array)):
        raise Unsure("what it goes through is made by a call, which may give something else the next time")
    for node in ast.walk(loop):
        if isinstance(node, LEAVES):
            raise Unsure("the loop may be left before its last row")
        stored = isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
        if stored and not _inside(node, rows.target):
            base = _base(node)
            alias = base is not node and base is not None and any(map(_names, script.values(base)))
            if base is None or base.id in kept or alias:
                raise Unsure("the loop may change its rows or its model")
        if isinstance(node, ast.Call) and node is not call and not _inside(node, call):
            name, method = script.called(node), script.method(node)
            harmless = name in KNOWN or name.startswith("numpy.") or method in KNOWN_METHODS
            if name.startswith(RANDOM) or not (harmless or _inside(node, rows.source)):
                raise Unsure("the loop calls something that may change the model")
            if any(keyword.arg == "out" for keyword in node.keywords):
                raise Unsure("the loop may change its rows or its model")


def _plain_model(script: Script, call: ast.Call) -> None:
    """Raises Unsure if the models of a file may give several outputs, or take one row only."""
    parent = script.parents.get(call)
    if isinstance(parent, ast.Assign) and not isinstance(parent.targets[0], ast.Name):
        raise Unsure("the model may have several outputs")
    for each in script.calls:
        outputs = script.argument(each, "outputs", 1) if script.called(each) == "keras.Model" else None
        values = [outputs, *(script.values(outputs) if outputs is not None else ())]
        if any(isinstance(value, ast.List | ast.Tuple | ast.Dict) for value in values):
            raise Unsure("the model may have several outputs")
        if {"stateful", "batch_shape", "batch_input_shape"} & {keyword.arg for keyword in each.keywords}:
            raise Unsure("the model may take one row at a time only")
    for inner in script.inner():
        if any(isinstance(value, ast.List | ast.Tuple | ast.Dict) for value in script.returned(inner.function)):
            raise Unsure("the model may have several outputs")


def _row_is_used(script: Script, loop: ast.AST, call: ast.Call, rows: _Rows) -> bool:
    """Whether anything but the prediction needs the row, in the loop or behind it."""
    if rows.row is None:
        return False
    function = script.function_of(loop)
    loads = [each for each in script.references(rows.row) if isinstance(each, ast.Name) and not _inside(each, call)]
    behind = isinstance(loop, ast.For)
    return any(_inside(each, loop) or (behind and script.function_of(each) is function) for each in loads)


def _names(node: ast.AST) -> set[str | None]:
    """The names in an expression; the objects of attributes count, not the attributes."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _base(node: ast.AST) -> ast.Name | None:
    """The name that an attribute or an element belongs to in the end."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _inside(node: ast.AST, outer: ast.AST) -> bool:
    return any(each is node for each in ast.walk(outer))


def _take_first(script: Script, draft: Draft, call: ast.Call, name: str) -> None:
    """Writes the prediction of one row where that of a batch of one was: `[0, 1]` becomes `[1]`, `[0]` nothing."""
    parent = script.parents.get(call)
    if isinstance(parent, ast.Subscript) and parent.value is call:
        index = parent.slice
        if script.literal(index) == 0:
            draft.replace(parent, name)
            return
        if isinstance(index, ast.Tuple) and index.elts and script.literal(index.elts[0]) == 0:
            draft.replace(parent, f"{name}[{', '.join(draft.source(each) for each in index.elts[1:])}]")
            return
    draft.replace(call, f"{name}[None]")


def _shape(reshape: ast.Call) -> list[ast.expr]:
    """The shape that an array is given."""
    one = reshape.args[0] if len(reshape.args) == 1 else None
    return one.elts if isinstance(one, ast.Tuple) else reshape.args


def _is_row(node: ast.AST, rows: _Rows) -> bool:
    if rows.row is not None:
        return isinstance(node, ast.Name) and node.id == rows.row
    if not isinstance(node, ast.Subscript) or not _same(node.value, rows.array):
        return False
    return isinstance(node.slice, ast.Name) and node.slice.id == rows.index


def _is_everything(index: ast.expr) -> bool:
    """`:` or `...`."""
    if isinstance(index, ast.Slice):
        return index.lower is index.upper is index.step is None
    return isinstance(index, ast.Constant) and index.value is ...


def is_array(script: Script, node: ast.expr, depth: int = 4) -> bool:
    """Whether the file shows that an expression is an array, by how it is made or by what is done with its name."""
    if isinstance(node, ast.BinOp):
        return is_array(script, node.left, depth) or is_array(script, node.right, depth)
    if isinstance(node, ast.Subscript):  # only an array takes an array for an index
        return is_array(script, node.value, depth) or is_array(script, node.slice, depth)
    if isinstance(node, ast.Call):
        name = script.called(node)
        objects = any(_names(keyword.value) == {"object"} for keyword in node.keywords)
        made = name.startswith(("numpy.", *RANDOM)) and name not in NO_ARRAYS and not objects
        return made or script.method(node) in ("astype", "reshape") or _is_drawn(script, node)
    same = [each for each in script.references(_last(node)) if _means(script, each) == _means(script, node)]
    uses = [script.parents.get(each) for each in same]
    if any(isinstance(use, ast.Attribute) and use.attr in ("shape", "astype", "reshape") for use in uses):
        return True
    values: list[Any] = script.values(node) if depth else []
    function = script.function_of(node)
    if not values and depth and isinstance(node, ast.Name) and function is not None:
        values = script.given(function, node.id)
    return bool(values) and all(value is not None and is_array(script, value, depth - 1) for value in values)


def _is_drawn(script: Script, call: ast.Call) -> bool:
    """Whether a call draws from a generator of NumPy: `rng.normal(size=…)`."""
    made = script.values(call.func.value) if isinstance(call.func, ast.Attribute) else []
    return bool(made) and all(
        isinstance(value, ast.Call) and script.called(value).endswith((".default_rng", ".RandomState"))
        for value in made
    )


def _last(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _means(script: Script, node: ast.AST) -> object:
    """What a name is bound by, or the class that an attribute belongs to: the same for what means the same."""
    if isinstance(node, ast.Name):
        return [id(each.node) for each in script.bindings(node)]
    return script.class_of(node)


def _same(left: ast.AST | None, right: ast.AST | None) -> bool:
    return left is not None and right is not None and ast.unparse(left) == ast.unparse(right)


class OnBatch(Kind):
    """A prediction for a few rows without setting up a pipeline and a loop."""

    causes = ("predict-in-callback", "predict-in-loop")

    def edit(self, place: Place) -> Edit:
        """predict_on_batch."""
        calls = _predictions(place)
        draft = place.draft()
        for call in calls:
            self._change(place, draft, call, place.finding.where)
        self._others(place, draft, calls)
        risk = _draws(place, "and predict_on_batch does not")
        return place.edit(draft, "predicts the rows as one batch, without a pipeline and a loop of its own", risk)

    def _others(self, place: Place, draft: Draft, changed: list[ast.Call]) -> None:
        """Other predictions of the file that the run saw called often, for one batch each: one finding is for all."""
        for call in place.script.model_calls("predict"):
            where = replace(place.finding.where, line=call.lineno) if place.finding.where is not None else None
            often = place.project.calls("predict", where) >= OFTEN
            if call not in changed and often and place.project.one_batch_each("predict", where):
                with contextlib.suppress(Unsure):
                    self._change(place, draft, call, where)

    @staticmethod
    def _change(place: Place, draft: Draft, call: ast.Call, where: Where | None) -> None:
        script = place.script
        rows = script.argument(call, "x", 0)
        dropped = [keyword.arg for keyword in call.keywords if keyword.arg != "x"]
        if rows is None or len(call.args) > 1 or not set(dropped) <= {"verbose", "batch_size"}:
            raise Unsure("this predict has arguments that predict_on_batch does not take")
        few = place.project.one_batch_each("predict", where) or (
            "batch_size" not in dropped and place.project.few_batches_each("predict", where, FEW_BATCHES)
        )
        if not _few_rows(script, rows) and not few:
            raise Unsure("how many rows it predicts cannot be told from the source, and one batch may be too large")
        if place.project.backend == "jax" and _written_into(script, call):
            raise Unsure("on JAX the result of predict_on_batch cannot be written into")
        draft.rename_method(call, "predict_on_batch")
        for name in dropped:
            assert name is not None
            draft.remove_keyword(call, name)


def _written_into(script: Script, call: ast.Call) -> bool:
    """Whether the array that a call gives, or a part of it, is changed in place."""
    node: ast.AST = call
    while isinstance(parent := script.parents.get(node), ast.Subscript):
        node = parent
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return False
    name, function = parent.targets[0].id, script.function_of(call)
    return any(
        isinstance(each, ast.Subscript)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == name
        for each in script.own(function if function is not None else script.tree)
    )


def _few_rows(script: Script, rows: ast.expr) -> bool:
    """Whether an expression has so few rows that they make one batch."""
    if script.one_row(rows):
        return True
    if isinstance(rows, ast.Call) and script.called(rows) in SHAPED:
        shape = script.argument(rows, "shape", 0)
        number = script.literal(shape.elts[0]) if isinstance(shape, ast.Tuple) and shape.elts else None
        return isinstance(number, int) and 0 < number <= KERAS_BATCH
    if isinstance(rows, ast.Name):
        values = script.values(rows)
        return len(values) == 1 and _few_rows(script, values[0])
    if isinstance(rows, ast.Subscript):
        index = rows.slice.elts[0] if isinstance(rows.slice, ast.Tuple) and rows.slice.elts else rows.slice
        if isinstance(index, ast.Slice) and index.step is None:
            low = script.literal(index.lower) if index.lower is not None else 0
            high = script.literal(index.upper)
            return isinstance(low, int) and isinstance(high, int) and 0 <= low < high and high - low <= MANY_ROWS
    return False


KINDS = (OneCall(), OnBatch())
