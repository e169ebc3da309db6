"""Edits of what the training is set to: its number type and how often it validates."""

from __future__ import annotations

import ast

from fitscope.fixes.callbacks import listed_callbacks
from fitscope.fixes.draft import Unsure
from fitscope.fixes.kind import Kind, Place, only
from fitscope.fixes.text import Text
from fitscope.model import Edit
from fitscope.rules.model import TYPE_SETTERS
from fitscope.source import Script

SELDOM = 5
MONITORS = ("EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau", "BackgroundCheckpoint")


class Float32(Kind):
    """The model computes in float32."""

    causes = ("float16-on-cpu", "float64-model")

    def edit(self, place: Place) -> Edit:
        """Another policy."""
        wanted = "float16" if place.finding.name == "float16-on-cpu" else "float64"
        found = [
            (text, call)
            for text in place.project.texts()
            for call in text.script.calls
            if text.script.called(call) in TYPE_SETTERS
            and len(call.args) == 1
            and wanted in str(text.script.literal(call.args[0]))
        ]
        here = [(text, call) for text, call in found if text.path == place.text.path and call in place.calls()]
        if found or not place.finding.evidence:
            text, call = only(here or found, f"call that sets {wanted}")
            node: ast.AST = call.args[0]
        else:  # a variable is given to it, and it was seen to be that
            text, node = only(_constants(place, wanted), f"place that says {wanted}")
        draft = place.draft(text)
        written = draft.source(node)
        quote = written[0] if written[:1] in ("'", '"') else '"'
        draft.replace(node, f"{quote}float32{quote}")
        return place.edit(
            draft, "the model computes in float32", f"its numbers have the precision of float32, not {wanted}"
        )


def _constants(place: Place, wanted: str) -> list[tuple[Text, ast.Constant]]:
    """The strings of a project that set something to a number type; others that name it count, too, as a doubt."""
    found = [
        (text, node)
        for text in place.project.texts()
        for node in ast.walk(text.script.tree)
        if isinstance(node, ast.Constant) and node.value in (wanted, f"mixed_{wanted}")
    ]
    for text, node in found:
        parent = text.script.parents.get(node)
        default = isinstance(parent, ast.keyword) and parent.arg == "default"
        if not default and not isinstance(parent, ast.Assign | ast.AnnAssign | ast.Dict):
            raise Unsure(f"what {wanted} is set by cannot be told from the source")
    return found


class ValidateOnce(Kind):
    """A validation goes through its data once."""

    causes = ("dominant-validation",)

    def edit(self, place: Place) -> Edit:
        """validation_steps divided as steps_per_epoch is."""
        text, call = only(place.fit_calls(), "fit at this place")
        script = text.script
        steps, others = script.argument(call, "validation_steps"), script.argument(call, "steps_per_epoch")
        if steps is None or others is None:
            raise Unsure("validation_steps and steps_per_epoch are not both given")
        value = script.values(others)[0] if len(script.values(others)) == 1 else others
        if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.FloorDiv | ast.Div):
            raise Unsure("steps_per_epoch is not a number of examples divided by a batch size")
        counts = isinstance(steps, ast.Call) and script.called(steps) == "len" and len(steps.args) == 1
        sized = isinstance(steps, ast.Attribute) and steps.attr == "samples"
        shaped = (
            isinstance(steps, ast.Subscript)
            and isinstance(steps.value, ast.Attribute)
            and steps.value.attr == "shape"
        )
        if not (counts or sized or shaped):
            raise Unsure("validation_steps is not a number of examples")
        draft = place.draft(text)
        draft.replace(steps, f"{draft.source(steps)} // {draft.source(value.right)}")
        return place.edit(
            draft, "each validation goes through its data once", "the val_ numbers are means over fewer batches"
        )


class ValidateSeldom(Kind):
    """The training is validated every few epochs."""

    causes = ("dominant-validation",)

    def edit(self, place: Place) -> Edit:
        """validation_freq."""
        text, call = only(place.fit_calls(), "fit at this place")
        script = text.script
        if script.argument(call, "validation_freq") is not None:
            raise Unsure("how often it validates is set already")
        epochs = script.literal(script.argument(call, "epochs")) or place.project.epochs(place.finding.where)
        if not isinstance(epochs, int) or epochs < 2:
            raise Unsure("how many epochs it trains cannot be told from the source")
        every = SELDOM if epochs >= 2 * SELDOM else epochs
        for item in listed_callbacks(script, script.argument(call, "callbacks")):
            values = [item, *script.values(item)]
            names = [script.called(value).rpartition(".")[2] for value in values if isinstance(value, ast.Call)]
            if not names or any(name in MONITORS for name in names) or any(map(_names_validation, values)):
                raise Unsure(f"{ast.unparse(item)} may look at the validation after every epoch")
        if any(_reads_validation(other.script) for other in place.project.texts()):
            raise Unsure("a callback reads val_ numbers after every epoch")
        draft = place.draft(text)
        draft.set_keyword(call, "validation_freq", str(every))
        does = f"validates every {every} epochs" if every < epochs else "validates once, after the last epoch"
        return place.edit(draft, does, "the history has val_ numbers for these epochs only")


def _reads_validation(script: Script) -> bool:
    """Whether a callback of the script names a val_ number."""
    own = [each for each in script.classes if script.derives(each, "keras.callbacks.")]
    functions = [node for node in ast.walk(script.tree) if isinstance(node, ast.Lambda)]
    return any(_names_validation(each) for each in (*own, *functions))


def _names_validation(code: ast.AST) -> bool:
    constants = [node.value for node in ast.walk(code) if isinstance(node, ast.Constant)]
    return any(isinstance(value, str) and value.startswith("val_") for value in constants)


KINDS = (Float32(), ValidateOnce(), ValidateSeldom())
