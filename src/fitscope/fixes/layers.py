"""Edits of what every step computes: recurrent layers, metrics, and how long rows are padded."""

from __future__ import annotations

import ast
import re

from fitscope.fixes.draft import Draft, Unsure
from fitscope.fixes.kind import Kind, Place, only
from fitscope.fixes.text import Text
from fitscope.model import Edit
from fitscope.names import listed
from fitscope.source import Script

CELLS = {"keras.layers.LSTMCell": "LSTM", "keras.layers.GRUCell": "GRU"}
LAYERS = listed("keras.layers.GRU keras.layers.LSTM keras.layers.SimpleRNN keras.layers.RNN")
OF_LOOPS = frozenset(
    listed("go_backwards name return_sequences return_state stateful unroll zero_output_for_mask dtype trainable")
)
"""What an RNN and a layer that is one both take."""
BY_NAME = frozenset(
    listed("ModelCheckpoint BackupAndRestore get_layer load_model load_weights save save_weights summary")
)
"""What shows the names of layers, or writes or reads files that have them."""


class UsualRecurrent(Kind):
    """A recurrent layer has the settings with which it is computed fast."""

    causes = ("unfused-recurrent",)

    def edit(self, place: Place) -> Edit:
        """No unroll, the layer in place of its cell, dropout in place of recurrent_dropout."""
        script, draft = place.script, place.draft()
        found = [call for call in script.calls if script.called(call) in LAYERS]
        here = [call for call in place.calls() if call in found]
        if not here:
            raise Unsure("the source shows no recurrent layer at this place")
        done, risk = [], ""
        says = place.finding.says
        for call in found:
            cell = self._cell(script, call)
            unrolled = script.argument(call, "unroll")
            if cell is not None and ("RNN(" in says or "recurrent_dropout" in says):
                dropped = self._write_layer(draft, script, call, cell)
                risk = risk or self._kept(place)
                done.append(f"{CELLS[script.called(cell)]} in place of its cell")
            elif unrolled is not None and script.literal(unrolled) is True and "unroll" in says:
                draft.remove_keyword(call, "unroll")
                done.append("a loop in place of steps that are written out")
                continue
            elif "recurrent_dropout" in says and script.argument(call, "recurrent_dropout") is not None:
                dropped = self._drop_inputs(draft, call)
                done.append("dropout in place of recurrent_dropout")
            else:
                continue
            if dropped:
                risk = "dropout drops what comes in, not what is handed on: another regularization"
        if not done:
            raise Unsure("the source does not show the setting that costs")
        return place.edit(draft, f"{' and '.join(dict.fromkeys(done))}; the last digits may differ", risk)

    @staticmethod
    def _kept(place: Place) -> str:
        """The risk of another layer where something goes by names of layers."""
        for text in place.project.texts():
            for call in text.script.calls:
                last = text.script.called(call).rpartition(".")[2]
                if last in BY_NAME:
                    return f"the layer has another name, and {last} goes by that"
        return ""

    @staticmethod
    def _cell(script: Script, call: ast.Call) -> ast.Call | None:
        """The cell that an RNN is made of, where it is written inside it."""
        cell = call.args[0] if script.called(call) == "keras.layers.RNN" and len(call.args) == 1 else None
        return cell if isinstance(cell, ast.Call) and script.called(cell) in CELLS else None

    def _write_layer(self, draft: Draft, script: Script, call: ast.Call, cell: ast.Call) -> bool:
        """Writes the layer for an RNN of its cell; says whether the dropout is another one then."""
        given = [keyword.arg for keyword in (*call.keywords, *cell.keywords)]
        if None in given or len(set(given)) < len(given) or "#" in draft.source(call) or "unroll" in given:
            raise Unsure("its arguments cannot be put together for sure")
        if not {keyword.arg for keyword in call.keywords} <= OF_LOOPS or any(
            isinstance(item, ast.Starred) for item in cell.args
        ):
            raise Unsure("it has arguments that the layer does not take")
        dropped = "recurrent_dropout" in given and "dropout" not in given
        words = [
            f"{'dropout' if keyword.arg == 'recurrent_dropout' else keyword.arg}={draft.source(keyword.value)}"
            for keyword in (*cell.keywords, *call.keywords)
            if keyword.arg != "recurrent_dropout" or dropped
        ]
        name = draft.name(f"keras.layers.{CELLS[script.called(cell)]}", call)
        arguments = ", ".join([*(draft.source(item) for item in cell.args), *words])
        draft.replace(call, f"{name}({arguments})")
        return "recurrent_dropout" in given

    @staticmethod
    def _drop_inputs(draft: Draft, call: ast.Call) -> bool:
        keyword = next(each for each in call.keywords if each.arg == "recurrent_dropout")
        if any(each.arg == "dropout" for each in call.keywords):
            draft.remove_keyword(call, "recurrent_dropout")
        else:
            draft.replace(keyword, f"dropout={draft.source(keyword.value)}")
        return True


class WithoutMetric(Kind):
    """A metric that takes long is not computed in every step."""

    causes = ("expensive-metric",)

    def edit(self, place: Place) -> Edit:
        """It is taken out of compile."""
        said = re.match(r"The metrics? (.+?) takes? ", place.finding.says)
        names = said[1].split(" and ") if said is not None else []
        text, call, given = only(self._compiled(place), "call of compile that lists its metrics")
        script = text.script
        gone = [item for item in given.elts if self._is_meant(place, text, item, names)]
        if not gone:
            raise Unsure("the source does not show where the metric is given to compile")
        for name in (*names, *(str(script.literal(item)) for item in gone)):
            if self._is_read(place, name):
                raise Unsure(f"something goes by {name}, or prints it")
        for other in place.project.texts():
            for each in other.script.model_calls("evaluate", "test_on_batch", "train_on_batch"):
                if not isinstance(other.script.parents.get(each), ast.Expr):
                    raise Unsure(
                        f"what {other.script.method(each)} returns is used, and has one number for each metric"
                    )
        draft = place.draft(text)
        if len(gone) == len(given.elts):
            draft.remove_keyword(call, "metrics")
        else:
            draft.remove_items(given, gone)
        shown = " and ".join(names) or ast.unparse(gone[0])
        does = f"{shown} {'are' if len(names) > 1 else 'is'} not computed in every step"
        return place.edit(draft, does, "the history does not have it any more: compute it once, after the training")

    @staticmethod
    def _compiled(place: Place) -> list[tuple[Text, ast.Call, ast.List]]:
        found = []
        for text in place.project.texts():
            for call in text.script.model_calls("compile"):
                given = text.script.argument(call, "metrics")
                if isinstance(given, ast.List) and given.elts:
                    found.append((text, call, given))
        return found

    @staticmethod
    def _is_meant(place: Place, text: Text, item: ast.expr, names: list[str]) -> bool:
        """Whether an entry of the list is one of the metrics of the finding."""
        script = text.script
        made = next(iter(script.values(item)), item) if isinstance(item, ast.Name) else item
        here = text.path == place.text.path and item.lineno <= place.line <= (item.end_lineno or 0)
        if isinstance(made, ast.Call):
            name = script.literal(script.argument(made, "name"))
            owner = script.local_class(made.func)
            defined = script.function(made.func) or owner
            snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", script.called(made).rpartition(".")[2]).lower()
            return here or name in names or (name is None and snake in names) or _holds(place, text, defined)
        function = script.function(item)
        return (
            script.literal(item) in names or getattr(function, "name", None) in names or _holds(place, text, function)
        )

    @staticmethod
    def _is_read(place: Place, name: str) -> bool:
        """Whether a text of the project names what a history would hold."""
        for text in place.project.texts():
            for node in ast.walk(text.script.tree):
                if not isinstance(node, ast.Constant) or node.value not in (name, f"val_{name}"):
                    continue
                parent = text.script.parents.get(node)
                named = isinstance(parent, ast.keyword) and parent.arg == "name"
                if not named and not isinstance(parent, ast.List | ast.arguments):
                    return True
        return False


def _holds(place: Place, text: Text, node: ast.AST | None) -> bool:
    """Whether the finding's line stands in a function or a class."""
    if node is None or text.path != place.text.path:
        return False
    return node.lineno <= place.line <= (node.end_lineno or 0)  # type: ignore[attr-defined, no-any-return]


class ShorterRows(Kind):
    """Rows are padded to a length that holds nearly all of them whole."""

    causes = ("overlong-sequence",)

    def edit(self, place: Place) -> Edit:
        """The one number that says how long they are."""
        said = re.match(r"Pad to less: maxlen=(\d+)", place.finding.remedy)
        length = next((item.value for item in place.finding.evidence if item.what == "positions in each row"), None)
        if said is None or length is None:
            raise Unsure("a few rows are long, and would be cut")
        found = [
            (text, node)
            for text in place.project.texts()
            for node in ast.walk(text.script.tree)
            if isinstance(node, ast.Constant) and type(node.value) is int and node.value == length
        ]
        text, node = only(found, f"place that says {length:g}")
        parent = text.script.parents.get(node)
        names = [ast.unparse(item) for item in parent.targets] if isinstance(parent, ast.Assign) else []
        name = parent.arg or "" if isinstance(parent, ast.keyword) else " ".join(names)
        if not re.search(r"len|size|seq|steps|window|words|tokens|pad", name, re.I):
            raise Unsure(f"that {length:g} is the length of the rows cannot be told from the source")
        draft = place.draft(text)
        draft.replace(node, said[1])
        return place.edit(
            draft,
            f"rows are padded to {said[1]}",
            "the longest rows are cut, and where padding is not masked it counts for less",
        )


KINDS = (UsualRecurrent(), WithoutMetric(), ShorterRows())
