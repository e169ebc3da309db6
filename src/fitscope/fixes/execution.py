"""Edits of how the step is run: compiled, once, and with as little around it as can be."""

from __future__ import annotations

import ast
import re

from fitscope.effects import changes_outside, drawn, graph_obstacle, reached
from fitscope.fixes.callbacks import listed_callbacks
from fitscope.fixes.draft import Draft, Unsure
from fitscope.fixes.kind import Kind, Place, only
from fitscope.fixes.text import Text
from fitscope.model import Edit
from fitscope.names import Function, Loop, listed
from fitscope.rules.compiling import changes, is_number
from fitscope.source import BATCH_HOOKS, Script

STEPS = 32
PER_EPOCH = listed(
    "keras.callbacks.CSVLogger keras.callbacks.EarlyStopping keras.callbacks.History "
    "keras.callbacks.LearningRateScheduler keras.callbacks.ReduceLROnPlateau"
)
"""Keras' callbacks that look at epochs alone."""
SWITCHES = {"tensorflow.config.run_functions_eagerly": 0, "jax.config.update": 1}


class TrainOnBatch(Kind):
    """One training step without setting up a pipeline and an epoch."""

    causes = ("fit-in-loop",)

    def edit(self, place: Place) -> Edit:
        """train_on_batch."""
        script = place.script
        calls = [call for call in place.calls() if call in set(script.model_calls("fit"))]
        call = only(calls[:1], "fit at this place")
        if not isinstance(script.parents.get(call), ast.Expr):
            raise Unsure("what fit returns is used")
        dropped = [
            keyword.arg for keyword in call.keywords if keyword.arg in ("epochs", "verbose", "batch_size", "shuffle")
        ]
        kept = {keyword.arg for keyword in call.keywords} - set(dropped)
        epochs = script.argument(call, "epochs")
        if len(call.args) > 2 or not kept <= {"x", "y", "sample_weight", "class_weight"}:
            raise Unsure("this fit has arguments that train_on_batch does not take")
        if epochs is not None and script.literal(epochs) != 1:
            raise Unsure("it trains for more than one epoch")
        if not script.one_row(script.argument(call, "x", 0)) and not place.project.one_batch_each(
            "fit", place.finding.where
        ):
            raise Unsure("that every fit is a single step cannot be told from the source")
        draft = place.draft()
        draft.rename_method(call, "train_on_batch")
        for name in dropped:
            assert name is not None
            draft.remove_keyword(call, name)
        risk = ""
        draws = script.literal(script.argument(call, "shuffle")) is not False or place.project.backend == "torch"
        if draws and place.others_draw():
            risk = "fit draws an order even for one row, train_on_batch does not: what is drawn later differs"
        return place.edit(draft, "the same single step, without a pipeline and an epoch of its own", risk)


class DropEager(Kind):
    """The step is compiled, as it is by default."""

    causes = ("eager-execution",)

    def edit(self, place: Place) -> Edit:
        """run_eagerly=True is left out."""
        measured = bool(place.finding.evidence)
        found = [
            (text, call)
            for text in place.project.texts()
            for call in text.script.calls
            if _flag(text.script, call, measured=measured)
        ]
        here = [
            (text, call)
            for text, call in found
            if text.path == place.text.path and call.lineno <= place.line <= (call.end_lineno or 0)
        ]
        text, call = only(here or found, "switch that turns compiling off")
        draft = place.draft(text)
        risk = ""
        if not _flag(text.script, call, measured=False):
            risk = "run_eagerly no longer follows what it was set from"
        if text.script.method(call) == "compile":
            draft.remove_keyword(call, "run_eagerly")
        else:
            statement = text.script.parents.get(call)
            if not isinstance(statement, ast.Expr):
                raise Unsure("the switch is part of a larger expression")
            draft.remove_statement(statement)
        for other in place.project.texts():
            for inner in other.script.inner():
                reason = graph_obstacle(other.script, inner.function) or _other_numbers(other.script, inner.function)
                if reason:
                    name = getattr(inner.function, "name", "a lambda")
                    risk = f"{name} (line {inner.function.lineno}) becomes part of a graph, and {reason}"
        return place.edit(draft, "the step is compiled; the losses may differ in the last digits", risk)


def _flag(script: Script, call: ast.Call, *, measured: bool) -> bool:
    """Whether a call turns compiling off; `measured`: the model was seen to run so, and a variable may say it."""
    name = script.called(call)
    flag: ast.expr | None = None
    if script.method(call) == "compile":
        flag = script.argument(call, "run_eagerly")
    elif name == "tensorflow.config.run_functions_eagerly" or (
        name == "jax.config.update" and call.args and script.literal(call.args[0]) == "jax_disable_jit"
    ):
        flag = call.args[SWITCHES[name]] if len(call.args) > SWITCHES[name] else None
    variable = measured and isinstance(flag, ast.Name | ast.Attribute | ast.Subscript)
    return variable or (isinstance(flag, ast.Constant) and flag.value is True)


class CompileStep(Kind):
    """A training step written by hand becomes a graph."""

    causes = ("eager-execution",)

    def edit(self, place: Place) -> Edit:
        """@tf.function on it."""
        if place.project.backend not in (None, "tensorflow"):
            raise Unsure("a step in JAX has to be rewritten without side effects before jax.jit can take it")
        found = [
            (text, function)
            for text in place.project.texts()
            for function in text.script.functions
            if isinstance(function, ast.FunctionDef) and _is_step(text.script, function)
        ]
        here = [(text, each) for text, each in found if text.path == place.text.path and each is place.function()]
        chosen = here or in_loop(place, found)
        if not chosen:
            chosen = [only(found, "function of its own that is the training step")]
        text, script = chosen[0][0], chosen[0][0].script
        draft, risks = place.draft(text), []
        for _, function in chosen:
            reason = graph_obstacle(script, function) or changes_outside(script, function) or _unfreezes(place)
            if reason is not None:
                raise Unsure(f"{function.name} cannot become a graph as it is: {reason}")
            for call in script.callers(function):
                if any(is_number(script, item) for item in (*call.args, *(word.value for word in call.keywords))):
                    raise Unsure(f"{function.name} is given Python numbers, and would be traced again for each")
            risks.append(_other_numbers(script, function))
            draft.decorate(function, draft.name("tensorflow.function", function))
        names = " and ".join(function.name for _, function in chosen)
        graphs = "are compiled into graphs" if len(chosen) > 1 else "is compiled into a graph"
        risk = next(filter(None, risks), "")
        return place.edit(draft, f"{names} {graphs}; the losses may differ in the last digits", risk)


def in_loop(place: Place, found: list[tuple[Text, ast.FunctionDef]]) -> list[tuple[Text, ast.FunctionDef]]:
    """Those functions that the loop at the finding's line calls."""
    script = place.script
    loops = [node for node in ast.walk(script.tree) if isinstance(node, ast.For | ast.While)]
    around = [node for node in loops if node.lineno <= place.line <= (node.end_lineno or 0)]
    calls = [each for loop in around[-1:] for each in ast.walk(loop) if isinstance(each, ast.Call)]
    called = [script.function(each.func) for each in calls]
    return [(text, function) for text, function in found if text.path == place.text.path and function in called]


def _unfreezes(place: Place) -> str | None:
    """Why a graph would keep the weights that it began with: others are to be trained later."""
    for text in place.project.texts():
        for node in ast.walk(text.script.tree):
            if not isinstance(node, ast.Assign) or text.script.literal(node.value) is False:
                continue
            if any(isinstance(target, ast.Attribute) and target.attr == "trainable" for target in node.targets):
                return "layers are made trainable, which a graph that exists does not notice"
    return None


def _other_numbers(script: Script, function: Function) -> str:
    """The risk of a function that draws: a graph has a sequence of its own."""
    name = drawn(script, function)
    return f"{name} draws other numbers in a graph" if name is not None else ""


def _is_step(script: Script, function: ast.FunctionDef) -> bool:
    """Whether a function computes gradients, applies them (itself or by a helper), and is not compiled."""
    tape = any(script.called(call) == "tensorflow.GradientTape" for call in script.own_calls(function))
    applies = any(script.method(call) in ("apply_gradients", "apply") for call in script.calls_of(function))
    loops = any(isinstance(node, ast.For | ast.While) for node in script.own(function))
    owner = script.class_of(function)
    of_keras = owner is not None and script.derives(owner, "keras.")
    plain = not script.decorators(function) and not script.mentioned(function)
    return tape and applies and not loops and not of_keras and plain


class TensorArgument(Kind):
    """A number that changes is passed as a tensor, which needs no new graph."""

    causes = ("retracing",)

    def edit(self, place: Place) -> Edit:
        """tf.constant around it."""
        script = place.script
        draft = place.draft()
        if any("float64" in text.script.text for text in place.project.texts()):
            raise Unsure("it may compute in float64, which a tensor of float32 does not mix with")
        for call in self._candidates(place):
            loops = script.loops(call)
            function = script.function(call.func)
            if not loops or function is None:
                continue
            for name, item in self._given(script, function, call):
                if _is_numbers_by_name(script, item):
                    self._wrap_values(script, draft, function, name, item)
                    continue
                if not is_number(script, item) or not changes(script, item, loops[0]):
                    continue
                if not _is_float(script, item):
                    raise Unsure(
                        f"{ast.unparse(item)} may be a whole number, which a tensor does not mix with others"
                    )
                reason = _python_use(script, function, name)
                if reason is not None:
                    raise Unsure(reason)
                tf = draft.name("tensorflow", call)
                draft.wrap(item, f"{tf}.constant(", f", {tf}.float32)")
        if not draft.replacements:
            raise Unsure("the source shows no number that changes from call to call")
        return place.edit(draft, "the number is passed as a tensor: one graph serves all values")

    @staticmethod
    def _wrap_values(script: Script, draft: Draft, function: Function, name: str, item: ast.expr) -> None:
        """Makes tensors of the numbers in a dictionary."""
        for node in (each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == name):
            entry = script.parents.get(node)
            inside = script.parents.get(entry) if isinstance(entry, ast.Subscript) else None
            if not isinstance(inside, ast.BinOp):
                raise Unsure(f"{name} is used for more than arithmetic in the function")
        tf = draft.name("tensorflow", item)
        draft.wrap(item, f"{{name: {tf}.constant(value, {tf}.float32) for name, value in ", ".items()}")

    @staticmethod
    def _candidates(place: Place) -> list[ast.Call]:
        here = place.calls()
        function = place.function()
        return here if function is None else [*here, *place.script.callers(function)]

    @staticmethod
    def _given(script: Script, function: Function, call: ast.Call) -> list[tuple[str, ast.expr]]:
        names = script.parameters(function)
        if any(isinstance(item, ast.Starred) for item in call.args):
            return []
        pairs = list(zip(names, call.args, strict=False))
        return pairs + [(word.arg, word.value) for word in call.keywords if word.arg is not None]


def _is_numbers_by_name(script: Script, node: ast.expr) -> bool:
    """Whether a name is set, more than once, to dictionaries of numbers that are surely not whole."""
    values = script.values(node)
    for value in values:
        if isinstance(value, ast.DictComp):
            if not _is_float(script, value.value):
                return False
        elif not isinstance(value, ast.Dict) or not all(_is_float(script, each) for each in value.values):
            return False
    return len(values) > 1


def _is_float(script: Script, node: ast.AST | None, depth: int = 4) -> bool:
    """Whether a number is surely no whole number."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div) or _is_float(script, node.left) or _is_float(script, node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_float(script, node.operand)
    if isinstance(node, ast.IfExp):
        return _is_float(script, node.body) and _is_float(script, node.orelse)
    if isinstance(node, ast.Call):
        name = script.called(node)
        if name == "round":
            return len(node.args) == 2 and _is_float(script, node.args[0])
        if name in ("abs", "max", "min"):
            return bool(node.args) and all(_is_float(script, item) for item in node.args)
        return name in ("float", "math.cos", "math.exp", "math.log", "math.sin", "math.sqrt", "random.random")
    if isinstance(node, ast.Name) and depth:
        values = script.bindings(node)
        return bool(values) and all(_is_float(script, each.value, depth - 1) for each in values)
    return False


def _python_use(script: Script, function: Function, name: str) -> str | None:
    """Why a parameter has to stay a Python number: it is used for more than arithmetic on tensors."""
    for node in script.own(function):
        if not isinstance(node, ast.Name) or node.id != name:
            continue
        parent = script.parents.get(node)
        known = isinstance(parent, ast.Call) and script.called(parent).startswith(("tensorflow.", "keras.ops."))
        if not isinstance(parent, ast.BinOp | ast.UnaryOp) and not known:
            return f"{name} is used for more than arithmetic in the function"
    return None


class OneGraph(Kind):
    """A graph that was made for one shape is made for all of them."""

    causes = ("retracing",)

    def edit(self, place: Place) -> Edit:
        """reduce_retracing=True."""
        said = re.match(r"(\w+) was traced .*changed shape", place.finding.says)
        if said is None:
            raise Unsure("it is not traced for another shape")
        found = [
            (text, decorator)
            for text in place.project.texts()
            for function in text.script.functions
            if not isinstance(function, ast.Lambda) and function.name == said[1]
            for decorator, name in zip(function.decorator_list, text.script.decorators(function), strict=True)
            if name == "tensorflow.function"
        ]
        text, decorator = only(found, f"function {said[1]} that is decorated with @tf.function")
        if any(_reads_shape(each.script) for each in place.project.texts()):
            raise Unsure("something reads the shape of a tensor, which one graph for all shapes does not know")
        draft = place.draft(text)
        if not isinstance(decorator, ast.Call):
            draft.replace(decorator, f"{draft.source(decorator)}(reduce_retracing=True)")
        elif text.script.called(decorator) != "tensorflow.function":
            raise Unsure("its decorator is made by another function")
        elif any(
            word.arg in ("input_signature", "jit_compile", "reduce_retracing", None) for word in decorator.keywords
        ):
            raise Unsure("its decorator says already what it is traced for, or XLA needs every shape")
        else:
            draft.set_keyword(decorator, "reduce_retracing", "True")
        return place.edit(draft, "one graph serves all shapes; the losses may differ in the last digits")


def _reads_shape(script: Script) -> bool:
    """Whether a compiled step or a layer of the script asks a tensor for its shape, or for its length."""
    compiled = [each for each in script.functions if "tensorflow.function" in script.decorators(each)]
    for function in (*compiled, *(inner.function for inner in script.inner())):
        for each in reached(script, function):
            for node in script.own(each):
                if isinstance(node, ast.Call) and script.called(node) == "len":
                    return True
                shape = isinstance(node, ast.Attribute) and node.attr in ("shape", "get_shape")
                if shape and script.dotted(node) not in ("tensorflow.shape", "keras.ops.shape"):
                    return True
    return False


class BuildOnce(Kind):
    """A model that a loop builds or compiles anew, to train it on, is built and compiled once."""

    causes = ("recompilation",)

    def edit(self, place: Place) -> Edit:
        """The statements stand before the loop."""
        if "changed shape" in place.finding.says:
            raise Unsure("the source does not show where batches get their sizes: pad them to one, or to a few")
        script = place.script
        fits = set(script.model_calls("fit", "train_on_batch"))
        inside = [call for call in fits if any(_covers(loop, place.line) for loop in script.loops(call))]
        fit = only(inside, "training in a loop at this place")
        loop = script.loops(fit)[0]
        if not isinstance(loop, ast.For | ast.While):
            raise Unsure("the loop is an expression")
        name = receiver(fit)
        found = [each for each in loop.body if _builds(script, each, name)]
        made = any(isinstance(each, ast.Assign) for each in found)
        calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
        done = {script.method(call) for call in calls if receiver(call) == name}
        if not found:
            raise Unsure("the source does not show where the loop builds or compiles the model")
        if made and not (done >= {"set_weights", "get_weights"} or done >= {"load_weights", "save_weights"}):
            raise Unsure("every round may be meant to begin with new weights")
        for call in calls:
            if script.called(call).rpartition(".")[2] in ("clear_session", "set_random_seed", "set_seed"):
                raise Unsure(f"every round calls {script.called(call)}")
        draft = place.draft()
        for each in found:
            if changes_inside(script, each, loop, name):
                raise Unsure("what the model is built of changes from round to round")
            draft.hoist(each, loop)
        return place.edit(
            draft,
            "the model is built and compiled once, before the loop",
            "the optimizer goes on from round to round (its moments, too) instead of starting anew",
        )


def _covers(loop: Loop, line: int) -> bool:
    return loop.lineno <= line <= (loop.end_lineno or loop.lineno)


def _builds(script: Script, statement: ast.stmt, name: str) -> bool:
    """`model = build()` or `model.compile(…)`."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return ast.unparse(statement.targets[0]) == name and script.is_model(statement.value)
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Call) and script.method(value) == "compile" and receiver(value) == name


def changes_inside(script: Script, statement: ast.stmt, loop: Loop, name: str) -> bool:
    """Whether a statement uses a name, other than the model's, that the loop gives a value."""
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id != name]
    bindings = [each for node in names for each in script.bindings(node)]
    return any(each.node is loop or loop in script.loops(each.node) for each in bindings)


class SeveralSteps(Kind):
    """Many steps are started at once."""

    causes = ("step-overhead",)

    def edit(self, place: Place) -> Edit:
        """steps_per_execution."""
        if place.project.backend == "torch":
            raise Unsure("Keras runs one step at a time on PyTorch")
        where = place.finding.where
        if any(call.lineno == getattr(where, "line", 0) for call in place.text.script.model_calls("train_on_batch")):
            raise Unsure("train_on_batch takes one step per call, whatever compile is told")
        compiled = [(text, call) for text in place.project.texts() for call in text.script.model_calls("compile")]
        trained = {receiver(fit) for _, fit in place.fit_calls()}
        same = [
            (text, call) for text, call in compiled if text.path == place.text.path and {receiver(call)} == trained
        ]
        text, call = only(same or compiled, "call of compile")
        number = self._number(place)
        draft = place.draft(text)
        draft.set_keyword(call, "steps_per_execution", str(number))
        risk = ""
        for other, fit in place.fit_calls():
            for item in listed_callbacks(other.script, other.script.argument(fit, "callbacks")):
                if not _epochs_only(other.script, item):
                    risk = f"batch hooks of {ast.unparse(item)} are called once for {number} batches"
        return place.edit(draft, f"{number} steps are started at once", risk)

    @staticmethod
    def _number(place: Place) -> int:
        run, where = place.project.run, place.finding.where
        for root, called in run.called.items() if run is not None else ():
            if run is not None and run.nodes[root].where == where and called.epochs:
                return max(2, min(STEPS, called.steps // called.epochs))
        return STEPS


def receiver(call: ast.Call) -> str:
    """What a method is called on, as it is written."""
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _epochs_only(script: Script, item: ast.expr) -> bool:
    """Whether a callback has no batch hooks, beyond doubt."""
    values = [item, *script.values(item)]
    for call in [value for value in values if isinstance(value, ast.Call)]:
        name = script.called(call)
        if name in PER_EPOCH:
            return True
        if name == "keras.callbacks.ModelCheckpoint":
            return script.argument(call, "save_freq") is None
        made = script.local_class(call.func)
        if made is not None and script.derives(made, "keras.callbacks."):
            bases = {script.dotted(base) for base in made.bases}
            return bases == {"keras.callbacks.Callback"} and not BATCH_HOOKS & set(script.methods(made))
    return False


KINDS = (TrainOnBatch(), DropEager(), CompileStep(), OneGraph(), TensorArgument(), BuildOnce(), SeveralSteps())
