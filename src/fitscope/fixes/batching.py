"""Edits that do for a whole batch what a loader does for one example after the other."""

from __future__ import annotations

import ast

from fitscope.fixes.draft import Unsure
from fitscope.fixes.kind import Kind, Place, only
from fitscope.fixes.predictions import is_array
from fitscope.model import Edit
from fitscope.source import Script

STACKS = ("keras.ops.stack", "numpy.array", "numpy.stack")
NEVER_RANDOM = ("Normalization", "Rescaling", "Resizing", "CenterCrop")


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
        draft.replace(whole, result)
        return place.edit(
            draft,
            "the layer works on the whole batch",
            "" if _is_plain(script, call.func) else "random layers draw other numbers for a batch than row by row",
        )


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


def _is_plain(script: Script, layer: ast.expr) -> bool:
    """Whether a layer draws nothing, beyond doubt."""
    made = [value for value in script.values(layer) if isinstance(value, ast.Call)]
    return bool(made) and all(script.called(value).rpartition(".")[2] in NEVER_RANDOM for value in made)


KINDS = (LayerOnBatch(),)
