"""Edits of what the training is set to: its number type and how often it validates."""

from __future__ import annotations

import ast
import math

from fitscope.fixes.callbacks import listed_callbacks
from fitscope.fixes.draft import Draft, Unsure
from fitscope.fixes.kind import Kind, Place, only
from fitscope.fixes.loaders import is_data_loader
from fitscope.fixes.text import Text
from fitscope.model import Edit
from fitscope.rules.model import TYPE_SETTERS
from fitscope.source import Script

SELDOM = 5
PATIENCE = 4
FEW_ROWS, MANY_ROWS = 8, 256
"""A batch of a validation that is tiny, and one that is not."""
FEW_TIMES = 8
"""A validation keeps nothing for gradients: so many times the rows take about as much memory."""
KERAS_BATCH = 32
TIMES = (2, 5, 10, 20, 50)
AT_LEAST = 3
"""Validations that are left of those in a loop by hand."""
SAMPLES = (256, 512, 1024, 2048, 4096)
LITTLE = 0.03
"""What a validation may take, as a part of the rest of the training."""
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


class ValidateInLargeBatches(Kind):
    """A validation takes more rows at once: it keeps nothing for gradients."""

    causes = ("dominant-validation",)
    aside = True

    def edit(self, place: Place) -> Edit:
        """The batch size of a DataLoader, or validation_batch_size."""
        text, call = only(place.fit_calls(), "fit at this place")
        script = text.script
        data = script.argument(call, "validation_data")
        values = script.values(data) if isinstance(data, ast.Name) else []
        made = values[0] if len(values) == 1 else data
        draft = place.draft(text)
        most = FEW_ROWS if place.unsafe else KERAS_BATCH  # to validate seldom gains more
        if script.argument(call, "validation_steps") is not None:
            raise Unsure("the validation counts its batches")
        if isinstance(made, ast.Call) and is_data_loader(script, made):
            if {word.arg for word in made.keywords} & {"batch_sampler", "drop_last"} or len(made.args) > 3:
                raise Unsure("what its loader makes of other batches cannot be told from the source")
            size = script.argument(made, "batch_size", 1)
            now = script.literal(size) if size is not None else 1
            if not isinstance(now, int) or now > most or (isinstance(data, ast.Name) and _read(script, data) > 1):
                raise Unsure("the validation takes many rows at once already, or its loader is used elsewhere, too")
            if size is None:
                draft.set_keyword(made, "batch_size", str(MANY_ROWS))
            else:
                draft.replace(size, str(MANY_ROWS))
        else:
            if not isinstance(data, ast.Tuple) or script.argument(call, "validation_batch_size") is not None:
                raise Unsure("what it validates on, or in which batches, is out of sight")
            size = script.argument(call, "batch_size", 2)
            now = script.literal(size) if size is not None else KERAS_BATCH
            if not isinstance(now, int) or now > most:
                raise Unsure("the validation takes many rows at once already")
            draft.set_keyword(call, "validation_batch_size", str(MANY_ROWS))
        own = _own_measures(place)
        risk = f"{own} may be another number for larger batches" if own else ""
        if now == 1 and isinstance(made, ast.Call) and not _alike(script, script.argument(made, "dataset", 0)):
            risk = risk or "rows of different shapes do not fit into one batch"
        if _trained(script, call) * FEW_TIMES < MANY_ROWS:
            risk = risk or f"a batch takes {MANY_ROWS // now} times the memory"
        return place.edit(draft, f"validates {MANY_ROWS} rows at once; the last digits may differ", risk)


def _alike(script: Script, node: ast.expr | None, depth: int = 4) -> bool:
    """Whether the rows of a dataset have one shape, as they are those of tensors."""
    if isinstance(node, ast.Call):
        name = script.called(node)
        whole = script.argument(node, "dataset", 0) if name == "torch.utils.data.random_split" else None
        return name == "torch.utils.data.TensorDataset" or (whole is not None and _alike(script, whole, depth - 1))
    nodes = [binding.node for binding in script.bindings(node)] if isinstance(node, ast.Name) and depth else []
    return bool(nodes) and all(
        isinstance(each, ast.Assign) and _alike(script, each.value, depth - 1) for each in nodes
    )


def _trained(script: Script, fit: ast.Call) -> int:
    """How many rows a batch of a training has, as far as the source shows."""
    data = script.argument(fit, "x", 0)
    values = script.values(data) if data is not None else []
    made = values[0] if len(values) == 1 else data
    loader = made if isinstance(made, ast.Call) and is_data_loader(script, made) else None
    size = script.argument(loader, "batch_size", 1) if loader is not None else script.argument(fit, "batch_size", 2)
    number = script.literal(size) if size is not None else 1 if loader is not None else KERAS_BATCH
    return number if isinstance(number, int) else 1


def _read(script: Script, name: ast.Name) -> int:
    return len([each for each in script.references(name.id) if isinstance(each, ast.Name)])


def _own_measures(place: Place) -> str:
    """A loss or a metric that is not one of Keras, and need not be a mean over rows."""
    for text in place.project.texts():
        script = text.script
        for name in ("add_loss", "test_step"):
            if script.references(name) or any(getattr(each, "name", "") == name for each in script.functions):
                return f"what {name} computes"
        for call in script.model_calls("compile"):
            waiting = [script.argument(call, "loss", 1), script.argument(call, "metrics", 3)]
            while waiting:
                item = waiting.pop()
                if isinstance(item, ast.List | ast.Tuple):
                    waiting += item.elts
                elif isinstance(item, ast.Dict):
                    waiting += item.values
                elif isinstance(item, ast.Name) and script.values(item):
                    waiting += [value for value in script.values(item) if not isinstance(value, ast.Name)]
                elif item is not None and not isinstance(item, ast.Constant):
                    made = item.func if isinstance(item, ast.Call) else item
                    if not (script.dotted(made) or "").startswith("keras."):
                        return ast.unparse(made)
    return ""


class ValidateSample(Kind):
    """While it trains, a training is validated on the first of its rows."""

    causes = ("dominant-validation",)
    aside = True

    def edit(self, place: Place) -> Edit:
        """A part of the arrays."""
        text, call = only(place.fit_calls(), "fit at this place")
        script = text.script
        data = script.argument(call, "validation_data")
        if data is None or not place.finding.evidence:
            raise Unsure("how much it validates was not measured")
        rows = self._rows(place)
        draft = place.draft(text)
        if isinstance(data, ast.Tuple) and len(data.elts) == 2:
            parts = [
                item
                for each in data.elts
                for item in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each])
            ]
            if not all(isinstance(item, ast.Name | ast.Attribute | ast.Subscript) for item in parts):
                raise Unsure("what it validates on is computed in place")
            if any(isinstance(value, ast.Dict | ast.List) for item in parts for value in script.values(item)):
                raise Unsure("what it validates on is no array")
            for item in parts:
                draft.replace(item, f"{draft.source(item)}[:{rows}]")
        elif isinstance(data, ast.Name | ast.Attribute) and self._is_pair(script, call, data):
            name = draft.source(data)
            draft.replace(data, f"({name}[0][:{rows}], {name}[1][:{rows}])")
        else:
            raise Unsure("that it validates on arrays cannot be told from the source")
        return place.edit(
            draft,
            f"validates on the first {rows} rows while it trains",
            f"the val_ numbers are those of {rows} rows, and what goes by them may decide otherwise",
        )

    @staticmethod
    def _rows(place: Place) -> int:
        """As many rows as take little of the training, by what all of them took."""
        counts = {item.what: item.value for item in place.finding.evidence}
        part = min(0.99, max(0.01, counts.get("of the training is validation", 0.5)))
        size = place.project.batch_size(place.finding.where)
        epochs = place.project.epochs(place.finding.where) or place.passes() or 1
        rows = counts.get("validation steps", 0.0) / epochs * (size or KERAS_BATCH)
        wanted = rows * LITTLE * (1 - part) / part
        return next((number for number in SAMPLES if number >= wanted), SAMPLES[-1])

    @staticmethod
    def _is_pair(script: Script, call: ast.Call, data: ast.expr) -> bool:
        """Whether a name stands for two arrays: somebody unpacks it, or it is what a function returns as two."""
        name = ast.unparse(data)
        starred = any(isinstance(node, ast.Starred) and ast.unparse(node.value) == name for node in script.parents)
        values = script.values(data)
        pairs = []
        for value in values:
            made = script.function(value.func) if isinstance(value, ast.Call) else None
            given = script.returned(made) if made is not None else [value]
            pairs += [isinstance(each, ast.Tuple) and len(each.elts) == 2 for each in given]
        return (bool(pairs) and all(pairs)) or (starred and not pairs)


class ValidateSeldomByHand(Kind):
    """A loop written by hand validates after more steps."""

    causes = ("dominant-validation",)
    aside = True

    def edit(self, place: Place) -> Edit:
        """The number of steps that a condition counts."""
        script = place.script
        found = [node for node in ast.walk(script.tree) if isinstance(node, ast.If) and self._holds(place, node)]
        tests = {test for node in found for test in ast.walk(node.test) if _counts_rounds(script, test)}
        test = only(list(tests), "condition that says after how many steps it validates")
        number, constant = script.literal(test.right), self._constant(script, test.right)
        share = max((item.value for item in place.finding.evidence if item.unit == "share"), default=0.5)
        part = min(0.99, max(0.01, share))
        assert isinstance(number, int)
        steps = next((item.value for item in place.finding.evidence if item.what == "training steps"), math.inf)
        some = [each for each in TIMES if number * each * AT_LEAST <= steps]
        if not some:
            raise Unsure("it validates a few times only")
        times = next((each for each in some if each >= part / (1 - part) / LITTLE), some[-1])
        draft = place.draft()
        draft.replace(constant, str(number * times))
        return place.edit(
            draft,
            f"validates after every {number * times}th step instead of every {number}th",
            "there are fewer validations, and what goes by them is decided later",
        )

    @staticmethod
    def _holds(place: Place, node: ast.If) -> bool:
        """Whether the validation is below a condition: the finding's line, or a call of the function it stands in."""
        script, inside = place.script, place.function()
        body = [each for part in node.body for each in ast.walk(part)]
        if any(getattr(each, "lineno", 0) == place.line for each in body):
            return True
        calls = script.callers(inside) if inside is not None else []
        return any(call in body for call in calls) and all(
            any(isinstance(each, ast.If) for each in script.ancestors(call)) for call in calls
        )

    @staticmethod
    def _constant(script: Script, node: ast.expr) -> ast.expr:
        """Where the number stands: in the condition, or where a name that only the condition uses gets it."""
        if isinstance(node, ast.Constant):
            return node
        values = script.values(node)
        if isinstance(node, ast.Name) and len(values) == 1 and len(script.references(node.id)) == 1:
            return values[0]
        raise Unsure("the number of steps is used elsewhere, too")


def _counts_rounds(script: Script, node: ast.AST) -> bool:
    """`step % 12`, with a number that the source shows."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
        return False
    number = script.literal(node.right)
    return type(number) is int and number > 0 and not isinstance(node.left, ast.Constant)


class StopEarly(Kind):
    """The training ends when its validation has not improved for some epochs, with the best weights."""

    causes = ("epochs-past-best",)

    def edit(self, place: Place) -> Edit:
        """EarlyStopping, or less patience of the one that is there."""
        text, call = only(place.fit_calls(), "fit at this place")
        script = text.script
        if script.argument(call, "validation_data") is None and script.argument(call, "validation_split") is None:
            raise Unsure("it is not validated")
        patience = self._patience(place)
        draft = place.draft(text)
        risk = "the training ends earlier, with the weights that were best so far"
        stopping = [each for each in script.calls if script.called(each) == "keras.callbacks.EarlyStopping"]
        if stopping:
            given = only(stopping, "EarlyStopping")
            if script.literal(script.argument(given, "monitor", 0)) not in (None, "val_loss"):
                raise Unsure("it watches another number than val_loss")
            now = script.argument(given, "patience", 2)
            if now is None:
                draft.set_keyword(given, "patience", str(patience))
            else:
                draft.replace(self._constant(script, now), str(patience))
            kept = script.argument(given, "restore_best_weights")
            if script.literal(kept) is not True:
                draft.set_keyword(given, "restore_best_weights", "True")
            return place.edit(draft, f"it stops after {patience} epochs without improvement", risk)
        new = f"{draft.name('keras.callbacks.EarlyStopping', call)}(patience={patience}, restore_best_weights=True)"
        listed_ones = script.argument(call, "callbacks")
        if listed_ones is None:
            draft.set_keyword(call, "callbacks", f"[{new}]")
        else:
            draft.replace(listed_ones, self._with(script, draft, listed_ones, new))
        return place.edit(draft, f"it stops after {patience} epochs without a better val_loss", risk)

    @staticmethod
    def _patience(place: Place) -> int:
        """Longer than the longest wait for an improvement before the best epoch, in the recorded run."""
        run = place.project.run
        longest = 0
        for fact in run.facts if run is not None else ():
            scores = fact["scores"].get("val_loss") or [] if fact["fact"] == "history" else []
            best, since = math.inf, 0
            for score in scores:
                since += 1
                if score < best:
                    best, longest, since = score, max(longest, since), 0
        return max(PATIENCE, longest + 1)

    @staticmethod
    def _constant(script: Script, node: ast.expr) -> ast.expr:
        """Where the number of epochs stands: here, or as the default of a setting of that name."""
        if isinstance(node, ast.Constant):
            return node
        name = node.attr if isinstance(node, ast.Attribute) else ""
        found = [
            keyword.value
            for call in script.calls
            if script.method(call) == "add_argument"
            and call.args
            and script.literal(call.args[0]) == f"--{name.replace('_', '-')}"
            for keyword in call.keywords
            if keyword.arg == "default" and isinstance(keyword.value, ast.Constant)
        ]
        values = script.values(node)
        found += [value for value in values if isinstance(value, ast.Constant)] if len(values) == 1 else []
        where: ast.expr = only(found, "place that says how patient it is")
        return where

    @staticmethod
    def _with(script: Script, draft: Draft, given: ast.expr, new: str) -> str:
        if isinstance(given, ast.List) and "#" not in draft.source(given):
            return f"[{', '.join([*(draft.source(item) for item in given.elts), new])}]"
        if isinstance(given, ast.Name | ast.Attribute) and len(script.values(given)) == 1:
            value = script.values(given)[0]
            if isinstance(value, ast.List | ast.ListComp):
                return f"[*{draft.source(given)}, {new}]"
        raise Unsure("the list of callbacks is made out of sight")


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


KINDS = (
    Float32(),
    ValidateOnce(),
    ValidateInLargeBatches(),
    ValidateSeldom(),
    ValidateSample(),
    ValidateSeldomByHand(),
    StopEarly(),
)
