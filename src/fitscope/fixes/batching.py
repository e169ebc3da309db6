"""Edits that do for a whole batch what a loader does for one example after the other."""

from __future__ import annotations

import ast

from fitscope.fixes.draft import Unsure
from fitscope.fixes.kind import Kind, Place, only
from fitscope.fixes.predictions import is_array
from fitscope.model import Edit
from fitscope.source import Script

STACKS = ("keras.ops.stack", "numpy.array", "numpy.stack")
ROW_BY_ROW = ("Rescaling", "Resizing", "CenterCrop")
"""Layers that draw nothing and take a row alone as well as a batch: Normalization would add an axis to it."""
ARRAYS = ("numpy.array", "numpy.asarray", "numpy.stack")
NUMBERS = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")
NEVER_RANDOM = ("Normalization", *ROW_BY_ROW)


class LayerOnBatch(Kind):
    """A Keras layer that a loader calls for each example is called for the whole batch."""

    causes = ("eager-layers-in-pipeline", "per-example-work")
    aside = True

    def edit(self, place: Place) -> Edit:
        """The layer is given all rows."""
        script = place.script
        found = [
            (node, call)
            for node in script.parents
            if isinstance(node, ast.ListComp)
            and node.lineno <= place.line <= (node.end_lineno or 0)
            and (call := _layer_call(script, node)) is not None
        ]
        loop, call = only(found, "list of what a layer gives for each row at this place")
        clause = loop.generators[0]
        assert isinstance(clause.target, ast.Name)
        row = clause.target.id
        given = call.args[0]
        if not is_array(script, clause.iter):
            raise Unsure("that the rows are one array cannot be told from the source")
        rows = _newaxis_free(script, given, row)
        if rows is None or (loop.elt is not call) is not _has_axis(script, given, row):
            raise Unsure("how a row is made ready for the layer cannot be told for all of them")
        if loop.elt is call and _is_plain(script, call.func, NEVER_RANDOM) != _is_plain(
            script, call.func, ROW_BY_ROW
        ):
            raise Unsure("the layer adds an axis to a row that is not a batch")
        if any(isinstance(each, ast.Name) and each.id == row for word in call.keywords for each in ast.walk(word)):
            raise Unsure("the settings of the layer change from row to row")
        if "#" in script.text[place.text.start(loop) : place.text.end(loop)]:
            raise Unsure("a comment stands in the list")
        draft = place.draft()
        source = draft.source(given)
        start = place.text.start(given)
        for node, written in sorted(rows, key=lambda each: -place.text.start(each[0])):
            first, last = place.text.start(node) - start, place.text.end(node) - start
            source = source[:first] + (draft.source(clause.iter) if written else "") + source[last:]
        words = [source, *(draft.source(word) for word in call.keywords)]
        whole: ast.expr = loop
        result = f"{draft.source(call.func)}({', '.join(words)})"
        parent = script.parents.get(loop)
        alone = isinstance(parent, ast.Call) and parent.args == [loop] and not parent.keywords
        if isinstance(parent, ast.Call) and alone and script.called(parent) in STACKS:
            name = "keras.ops.convert_to_tensor" if "keras" in script.called(parent) else "numpy.asarray"
            whole, result = parent, f"{draft.name(name, parent)}({result})"
        stacked = _stacked_later(script, parent)
        if whole is loop and stacked is None:
            raise Unsure("what the layer gives is not only stacked, but used as a list")
        draft.replace(whole, result)
        if stacked is not None:
            draft.replace(stacked, f"{draft.name('numpy.asarray', stacked)}({ast.unparse(parent.targets[0])})")  # type: ignore[union-attr]
        risk = "layers that draw, or that look at the whole batch, give other numbers for a batch than row by row"
        plain = _is_plain(script, call.func, NEVER_RANDOM)
        return place.edit(draft, "the layer works on the whole batch", "" if plain else risk)


def _stacked_later(script: Script, statement: ast.AST | None) -> ast.Call | None:
    """`np.stack([np.asarray(row) for row in rows])`, where nothing else is done with a name that a list is given."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(target, ast.Name) or len(script.bindings(target)) != 1:
        return None
    uses = [each for each in script.references(target.id) if isinstance(each, ast.Name)]
    clause = script.parents.get(uses[0]) if len(uses) == 1 else None
    rows = script.parents.get(clause) if isinstance(clause, ast.comprehension) else None
    call = script.parents.get(rows) if isinstance(rows, ast.ListComp) and len(rows.generators) == 1 else None
    if not isinstance(clause, ast.comprehension) or not isinstance(rows, ast.ListComp) or clause.ifs:
        return None
    each = rows.elt
    if isinstance(each, ast.Call) and script.called(each) in ("numpy.array", "numpy.asarray") and len(each.args) == 1:
        each = each.args[0]
    same = isinstance(each, ast.Name) and ast.unparse(clause.target) == each.id
    stacks = isinstance(call, ast.Call) and call.args == [rows] and not call.keywords
    return call if isinstance(call, ast.Call) and same and stacks and script.called(call) in STACKS[1:] else None


def _layer_call(script: Script, loop: ast.ListComp) -> ast.Call | None:
    """The call of a layer that a list has the results of: `[layer(row) for …]`, `[layer(row[None])[0] for …]`."""
    if len(loop.generators) != 1 or loop.generators[0].ifs or not isinstance(loop.generators[0].target, ast.Name):
        return None
    call = loop.elt
    if isinstance(call, ast.Subscript) and script.literal(call.slice) == 0:
        call = call.value
    if not isinstance(call, ast.Call) or len(call.args) != 1 or any(word.arg is None for word in call.keywords):
        return None
    layer = isinstance(call.func, ast.Name | ast.Attribute) and script.dotted(call.func) is None
    return call if layer and (script.is_layer(call.func) or script.is_model(call.func)) else None


def _newaxis_free(script: Script, node: ast.expr, row: str) -> list[tuple[ast.expr, bool]] | None:
    """What to write anew in arithmetic on the numbers of a row, so that it is about all rows; None if it is more."""
    if isinstance(node, ast.Name):
        return [(node, True)] if node.id == row else None
    if isinstance(node, ast.Subscript):
        alone = isinstance(node.value, ast.Name) and node.value.id == row and _is_new_axis(script, node.slice)
        return [(node, True)] if alone else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(script.literal(other), int | float):
                return _newaxis_free(script, one, row)
        return None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
        named = any(isinstance(each, ast.Name) and each.id == row for item in node.args for each in ast.walk(item))
        return None if named else _newaxis_free(script, node.func.value, row)
    return None


def _is_new_axis(script: Script, index: ast.expr) -> bool:
    first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
    rest = index.elts[1:] if isinstance(index, ast.Tuple) else []
    new = (isinstance(first, ast.Constant) and first.value is None) or script.dotted(first) == "numpy.newaxis"
    return new and all(isinstance(each, ast.Constant) and each.value is ... for each in rest)


def _has_axis(script: Script, node: ast.expr, row: str) -> bool:
    return any(
        isinstance(each, ast.Subscript) and isinstance(each.value, ast.Name) and each.value.id == row
        for each in ast.walk(node)
    )


def _is_plain(script: Script, layer: ast.expr, known: tuple[str, ...]) -> bool:
    """Whether a layer is one of these, beyond doubt."""
    made = script.values(layer)
    names = [script.called(value) if isinstance(value, ast.Call) else "" for value in made]
    return bool(made) and all(name in {f"keras.layers.{each}" for each in known} for name in names)


class OneHot(Kind):
    """A row of zeros and a one is made at once, not number by number."""

    causes = ("python-in-pipeline", "per-example-work")
    aside = True

    def edit(self, place: Place) -> Edit:
        """A comparison of all numbers at once; where the arrays do not say what numbers they hold, numpy.where."""
        script = place.script
        found = [
            node
            for node in script.parents
            if isinstance(node, ast.ListComp)
            and node.lineno <= place.line <= (node.end_lineno or 0)
            and isinstance(node.elt, ast.IfExp)
            and len(node.generators) == 1
        ]
        loop = only(found, "list of zeros and a one at this place")
        clause, choice = loop.generators[0], loop.elt
        test = choice.test
        numbers = [script.literal(side) for side in (choice.body, choice.orelse)]
        equal = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)
        if (
            not equal
            or not all(isinstance(side, ast.Constant) for side in (choice.body, choice.orelse))
            or clause.ifs
        ):
            raise Unsure("the list is more than a comparison with each number")
        if not all(type(number) in (int, float) for number in numbers):
            raise Unsure("the list is more than a comparison with each number")
        sides = [test.left, *test.comparators]
        names = [side for side in sides if isinstance(side, ast.Name) and side.id == ast.unparse(clause.target)]
        others = [side for side in sides if side not in names]
        count = _counted(script, clause.iter)
        simple = len(names) == 1 and isinstance(others[0], ast.Name | ast.Attribute | ast.Subscript)
        if count is None or not simple or script.depends(others[0], [names[0].id]):
            raise Unsure("what the numbers are compared with, or how many they are, cannot be told from the source")
        arrays = _arrays_of(script, loop)
        if not arrays:
            raise Unsure("the list may be used as a list")
        draft = place.draft()
        arange = draft.name("numpy.arange", loop)
        target, one, zero = (draft.source(each) for each in (others[0], choice.body, choice.orelse))
        written = f"{arange}({count}) == {target}"
        if numbers != [1, 0] or not all(_says_numbers(script, array) for array in arrays):
            written = f"{draft.name('numpy.where', loop)}({written}, {one}, {zero})"
        draft.replace(loop, written)
        return place.edit(draft, "the row of zeros and a one is made at once")


def _counted(script: Script, source: ast.expr, depth: int = 3) -> str | None:
    """How long what an expression goes through is, where it is a range, or a list of one, that nobody changes."""
    if isinstance(source, ast.Call) and len(source.args) == 1 and not source.keywords and depth:
        if script.called(source) == "range":
            return ast.unparse(source.args[0])
        return _counted(script, source.args[0], depth - 1) if script.called(source) in ("list", "tuple") else None
    if isinstance(source, ast.Name) and depth:
        bindings, values = script.bindings(source), script.values(source)
        uses = [script.parents.get(each) for each in script.references(source.id)]
        changed = any(isinstance(use, ast.Attribute | ast.Subscript | ast.Call) for use in uses)
        counted = len(bindings) == len(values) == 1 and not changed and _counted(script, values[0], depth - 1)
        return f"len({source.id})" if counted else None
    return None


def _arrays_of(script: Script, node: ast.expr) -> list[ast.Call]:
    """The arrays that a list goes into, itself or as a row of a list that is put together; none if it is more."""
    parent = script.parents.get(node)
    if isinstance(parent, ast.ListComp) and parent.elt is node:
        return _arrays_of(script, parent)
    if not isinstance(parent, ast.Call) or parent.args[:1] != [node]:
        return []
    if script.called(parent) in ARRAYS:
        return [parent]
    owner = parent.func.value if isinstance(parent.func, ast.Attribute) else None
    if script.method(parent) != "append" or not isinstance(owner, ast.Name):
        return []
    values = script.values(owner)
    if not values or not all(isinstance(value, ast.List) and not value.elts for value in values):
        return []
    arrays: list[ast.Call] = []
    for each in script.references(owner.id):
        use = script.parents.get(each)
        if isinstance(use, ast.Call) and script.called(use) in ARRAYS:
            arrays.append(use)
        elif not (isinstance(use, ast.Attribute) and use.attr == "append") and not (
            isinstance(use, ast.Call) and script.called(use) == "len"
        ):
            return []
    return arrays


def _says_numbers(script: Script, array: ast.Call) -> bool:
    """Whether an array is told which numbers to hold, so that yes and no become 1 and 0 in it."""
    kind = script.argument(array, "dtype", None if script.called(array) == "numpy.stack" else 1)
    after = script.parents.get(array)
    call = script.parents.get(after) if isinstance(after, ast.Attribute) and after.attr == "astype" else None
    if kind is None and isinstance(call, ast.Call) and call.func is after:
        kind = script.argument(call, "dtype", 0)
    if kind is None:
        return False
    name = script.literal(kind) if isinstance(kind, ast.Constant) else script.dotted(kind)
    return isinstance(name, str) and name.removeprefix("numpy.") in NUMBERS


KINDS = (LayerOnBatch(), OneHot())
