"""Edits of sliding windows over a series, which tf.data makes one tiny dataset at a time."""

from __future__ import annotations

import ast
import math

from fitscope.fixes.draft import Draft, Unsure
from fitscope.fixes.kind import Kind, Place, only
from fitscope.model import Edit
from fitscope.names import line_of
from fitscope.pipelines import Chain, Link
from fitscope.source import Script

MANY = 100
"""A window of so many rows that all of them at once may not fit into memory."""


class Frames(Kind):
    """All windows of a series are cut at once, instead of one dataset for each of them."""

    causes = ("per-example-work", "repeated-preprocessing")
    aside = True

    def edit(self, place: Place) -> Edit:
        """tf.signal.frame for window and flat_map."""
        script = place.script
        found: dict[ast.Call, tuple[Chain, Link]] = {}
        first, last = script.statement_at(place.line)
        for chain, link in script.links("window"):
            if any(first <= each.line <= last for each in chain.links):
                found.setdefault(link.node, (chain, link))
        chain, window = only(list(found.values()), "window of a series at this place")
        source, flat = self._around(chain, window)
        if any({source, window} & set(other.links) and other is not chain for other in script.chains()):
            raise Unsure("several pipelines use the same series")
        if not self._is_alone(script, source, window):
            raise Unsure("the series is used before its windows are cut")
        size = script.argument(window.node, "size", 0)
        if size is None or not self._flattens(script, flat, size):
            raise Unsure("that the windows become rows of one length cannot be told from the source")
        words = {keyword.arg: keyword.value for keyword in window.node.keywords}
        if (
            set(words) - {"size", "shift", "drop_remainder"}
            or len(window.node.args) > 2
            or script.literal(words.get("drop_remainder")) is not True
        ):
            raise Unsure("windows at the end may be shorter than the others")
        series = source.node.args[0] if len(source.node.args) == 1 and not source.node.keywords else None
        if not isinstance(series, ast.Name | ast.Attribute):
            raise Unsure("the series is not one array")
        draft = place.draft()
        step = script.argument(window.node, "shift", 1)
        frame = draft.name("tensorflow.signal.frame", source.node)
        if isinstance(step, ast.Constant) and step.value is None:
            step = None
        every = draft.source(step) if step is not None else draft.source(size)
        draft.replace(series, f"{frame}({draft.source(series)}, {draft.source(size)}, {every}, axis=0)")
        draft.unchain(window.node)
        draft.unchain(flat.node)
        does = "all windows are cut at once, which takes memory for each of them"
        if self._batch_first(script, draft, chain, flat):
            does += ", and batches are divided instead of single rows"
        times = _number(script, size)
        many = times is None or times > MANY
        risk = f"all windows are in memory at once: {draft.source(size)} times as much as the series" if many else ""
        return place.edit(draft, does, risk)

    @staticmethod
    def _is_alone(script: Script, source: Link, window: Link) -> bool:
        """Whether nobody but the windows gets the dataset of a series."""
        if isinstance(window.node.func, ast.Attribute) and window.node.func.value is source.node:
            return True
        assign = script.parents.get(source.node)
        if not isinstance(assign, ast.Assign) or not isinstance(assign.targets[0], ast.Name):
            return False
        bindings = script.bindings(assign.targets[0])
        again = [each.node for each in bindings if line_of(each.node) > assign.lineno]
        end = getattr(again[0], "end_lineno", 0) if again else math.inf
        uses = [
            each
            for each in script.references(assign.targets[0].id)
            if isinstance(each, ast.Name) and script.bindings(each) is bindings and assign.lineno < each.lineno <= end
        ]
        return len(uses) == len(assign.targets) == 1

    @staticmethod
    def _around(chain: Chain, window: Link) -> tuple[Link, Link]:
        """The source right before a window, and what makes rows of it right behind."""
        before, after = chain.before(window), chain.after(window)
        if not before or before[-1].name != "from_tensor_slices" or not after or after[0].name != "flat_map":
            raise Unsure("the windows do not stand between an array and a flat_map")
        if not (before[-1].sure and window.sure and after[0].sure):
            raise Unsure("the windows stand below a condition")
        return before[-1], after[0]

    @staticmethod
    def _flattens(script: Script, flat: Link, size: ast.expr) -> bool:
        """`flat_map(lambda window: window.batch(size))`."""
        function = script.function(flat.node.args[0]) if flat.node.args else None
        if not isinstance(function, ast.Lambda) or len(flat.node.args) != 1 or flat.node.keywords:
            return False
        body = function.body
        if (
            not isinstance(body, ast.Call)
            or script.method(body) != "batch"
            or not isinstance(body.func, ast.Attribute)
        ):
            return False
        given = script.argument(body, "batch_size", 0)
        own = isinstance(body.func.value, ast.Name) and script.parameters(function) == [body.func.value.id]
        return own and given is not None and ast.dump(given) == ast.dump(size)

    @staticmethod
    def _batch_first(script: Script, draft: Draft, chain: Chain, flat: Link) -> bool:
        """Moves a map that only cuts pieces out of a row behind the batching; says whether it could."""
        after = chain.after(flat)
        if len(after) < 2 or [after[0].name, after[1].name] != ["map", "batch"]:
            return False
        cut, batch = after[0], after[1]
        function = script.function(cut.node.args[0]) if cut.node.args else None
        if not isinstance(function, ast.Lambda) or not (cut.sure and batch.sure) or function is not cut.node.args[0]:
            return False
        pieces = function.body.elts if isinstance(function.body, ast.Tuple) else [function.body]
        if not all(_is_piece(script, piece, script.parameters(function)) for piece in pieces):
            return False
        written, start = draft.method(cut.node), draft.text.end(cut.node) - len(draft.method(cut.node))
        for piece in sorted(pieces, key=draft.text.start, reverse=True):
            assert isinstance(piece, ast.Subscript)
            at = draft.text.start(piece.slice) - start
            written = f"{written[:at]}:, {written[at:]}"
        draft.unchain(cut.node)
        draft.chain(batch.node, written)
        return True


def _number(script: Script, node: ast.expr, depth: int = 3) -> int | None:
    """A whole number that the source shows, where a function is called with it, too."""
    value = script.literal(node)
    if type(value) is int or not depth:
        return value if type(value) is int else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_number(script, side, depth) for side in (node.left, node.right)]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None
    function = script.function_of(node)
    if not isinstance(node, ast.Name) or function is None:
        return None
    given = [
        _number(script, each, depth - 1) if each is not None else None for each in script.given(function, node.id)
    ]
    numbers = [each for each in given if each is not None]
    return max(numbers) if numbers and len(numbers) == len(given) else None


def _is_piece(script: Script, node: ast.expr, names: list[str]) -> bool:
    """`row[:-1]`, `row[-1:, 0]`: a piece of a row by its position alone."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name) or node.value.id not in names:
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    used = {each.id for part in parts for each in ast.walk(part) if isinstance(each, ast.Name)}
    plain = all(isinstance(part, ast.Slice) or isinstance(script.literal(part), int) for part in parts)
    return plain and not used & set(names)


KINDS = (Frames(),)
