"""Causes in how the step is run: drowned in what surrounds it."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from fitscope import words
from fitscope.model import Region
from fitscope.names import Loop
from fitscope.rules.case import Case, counted, parts_of, seconds_of, share, took
from fitscope.rules.removing import changed
from fitscope.rules.rule import Cause, Hit, Rule, example
from fitscope.source import Script

FEW_ROUNDS = 5
"""A loop that is known to be no longer than this is not worth a word."""
FEW_BATCHES, DOZENS = 2, 40
FEW_LOOKS = 20
MANY_ROWS = 200
KERAS_BATCH = 32
SMALL_RATE = 1e10
"""Operations per second that one core reaches on the small matrices of tiny steps. Steps of 725 µs on TensorFlow,
which at this rate computed for 174 µs, were 2.3 times as fast with 32 of them at once."""
SHOWS = (
    *("IPython.", "PIL.", "cv2.", "display", "imageio.", "matplotlib.", "print"),
    *(".imshow", ".save", ".set_title", ".show", ".write"),
)


class ExecutionRule(Rule):
    """A cause in how the step is run."""

    family = "execution"


def is_name(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


SINGLE_ROWS = "for one row at a time"


class PredictInLoop(ExecutionRule):
    """`predict` or `evaluate` is called again and again for a few rows.

    Each call makes a dataset, an iterator and a loop; on TensorFlow that takes as long as dozens of
    `predict_on_batch` calls.

    fitscope says so when `predict` or `evaluate` was called at least ten times with one or two batches each, or
    dozens of times with a few batches that take no longer than what surrounds them, and that takes at least 3 % of
    the training.

    Change: collect the rows and predict them in one call, or call `predict_on_batch` (on TensorFlow also
    `model(x, training=False)`).
    """

    code = "FS304"
    name = "predict-in-loop"
    fixable = True
    examples = (
        example("predict-in-loop", line="answers.append(model.predict(", backends=("tensorflow",), estimable=False),
    )

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Sums up all places that call for few rows."""
        found = [region for region in case.regions("predict", "evaluate") if self._is_short(region)]
        around = sum(_around(region) for region in found)
        if not found or not case.matters(around):
            return
        dearest = max(found, key=lambda region: region.wall_seconds)
        calls = sum(region.calls for region in found)
        yield Cause(
            says=f"{dearest.call} is called {calls:,} times for a few rows each, and setting it up is what costs.",
            where=dearest.where,
            evidence=(
                share("of the training goes to what surrounds the steps of these calls", around / case.seconds),
                counted("calls", calls),
                took("around the step of each call", around / calls),
            ),
            saves=case.saves(0.95 * around + 0.9 * sum(self._for_single_rows(case, region) for region in found)),
            remedy="Collect the rows and predict them in one call, or call model.predict_on_batch(x).",
            claims=frozenset(f"{id(region)}:around" for region in found),
        )

    def _is_short(self, region: Region) -> bool:
        """Whether the calls from a place are many, with so few batches each that setting them up is what costs."""
        batches = region.steps / max(1, region.calls)
        if batches <= FEW_BATCHES:
            return region.calls >= 10
        surrounded = _around(region) >= 0.5 * (region.wall_seconds - seconds_of(region, "compile"))
        return region.calls >= DOZENS and batches <= 4 * FEW_BATCHES and surrounded

    def _for_single_rows(self, case: Case, region: Region) -> float:
        """Seconds of the steps of calls whose rows could be given to one call: they, too, are nearly all start."""
        script = case.script_of(region.where.file) if region.where is not None else None
        if script is None or region.where is None:
            return 0.0
        calls = [call for call in script.model_calls("predict", "evaluate") if call.lineno == region.where.line]
        together = calls and all(
            self._spoken_of(script, call) == SINGLE_ROWS and _is_handed_out(script, call) for call in calls
        )
        return seconds_of(region, "step") if together else 0.0

    def _spoken_of(self, script: Script, call: ast.Call) -> str:
        """How the source shows that a call is for a few rows again and again; empty if it does not."""
        owner, loops = script.class_of(call), script.loops(call)
        if script.seldom(call) or (owner is not None and script.derives(owner, "keras.callbacks.")):
            return ""
        trained = set(script.model_calls("train_on_batch")) | _replays(script)
        if loops and any(each in trained for each in script.repeated_calls(loops[0])):
            return "between trainings on single batches"
        single = script.one_row(script.argument(call, "x", 0)) and many_rows(script, call)
        return SINGLE_ROWS if single else ""

    def lint(self, script: Script) -> Iterable[Hit]:
        """Predictions between training steps, and predictions row by row."""
        for call in script.model_calls("predict", "evaluate"):
            says = self._spoken_of(script, call)
            if not says:
                continue
            method = script.method(call)
            other = "predict_on_batch(x)" if method == "predict" else "test_on_batch(x, y)"
            yield Hit(
                call.func.end_lineno or call.lineno,
                f"{method} is called {says}, and each call sets up a pipeline and a loop of its own.",
                f"One call for many rows, or {other} where that cannot be.",
            )


def _around(region: Region) -> float:
    """Seconds of calls beside their steps and what was compiled for them."""
    return region.wall_seconds - seconds_of(region, "step", "compile")


def _is_handed_out(script: Script, call: ast.Call) -> bool:
    """Whether the row of a call comes from the loop around it, and not from what the call before it led to."""
    loops, row = script.loops(call), script.argument(call, "x", 0)
    if not loops or not isinstance(loops[0], ast.For) or row is None:
        return False
    handed_out = {node.id for node in ast.walk(loops[0].target) if isinstance(node, ast.Name)}
    return any(isinstance(node, ast.Name) and node.id in handed_out for node in ast.walk(row))


def many_rows(script: Script, call: ast.Call, depth: int = 2) -> bool:
    """Whether a call goes through so many rows one by one that it is no look at a few examples."""
    loops = script.loops(call)
    if loops:
        times = script.repeats(call)
        if times is not None:
            return times >= MANY_ROWS or (times > FEW_LOOKS and _trains_beside(script, call))
        open_ended = [loop for loop in loops if script.rounds(loop) is None]
        return len(open_ended) >= 2 or not _shows(script, loops[-1]) or _trains_beside(script, call)
    function = script.function_of(call)
    if function is None or depth == 0:
        return False
    return any(
        many_rows(script, each, depth - 1) or _trains_beside(script, each)
        for each in script.callers(function)
        if not script.seldom(each)
    )


def _shows(script: Script, loop: Loop) -> bool:
    """Whether a loop draws, prints or stores what it does: then it may be a look at a few examples."""
    names = [script.called(node) for node in ast.walk(loop) if isinstance(node, ast.Call)]
    return isinstance(loop, ast.While) or any(name.startswith(SHOWS) or "plot" in name for name in names)


def _replays(script: Script) -> set[ast.Call]:
    """Trainings on what a loop hands out, for which the same round predicts too: one memory of a game at a time."""
    found = set()
    for call in script.model_calls("fit"):
        rows, loops, epochs = script.argument(call, "x", 0), script.loops(call), script.argument(call, "epochs")
        if not isinstance(rows, ast.Name) or not loops or (epochs is not None and script.literal(epochs) != 1):
            continue
        handed_out = any(binding.node is loops[0] for binding in script.bindings(rows))
        predicted = any(
            script.method(each) == "predict" and is_name(script.argument(each, "x", 0), rows.id)
            for each in script.repeated_calls(loops[0])
        )
        if handed_out and predicted:
            found.add(call)
    return found


def _trains_beside(script: Script, call: ast.Call) -> bool:
    """Whether the round that makes a call also trains on single rows or batches, itself or in a function."""
    for loop in script.loops(call)[:1]:
        for each in script.repeated_calls(loop):
            inside = [each, *script.calls_of(script.function(each.func))]
            if any(item in script.small_trainings for item in inside):
                return True
    return False


class FitInLoop(ExecutionRule):
    """`fit` is called again and again for a few steps each.

    Each call prepares its input, its callbacks and its iterators anew.

    fitscope says so when `fit` was called at least five times from one line with at most twenty steps each, and
    what surrounds the steps takes 10 % of the training or more.

    Change: one `fit` over all data, with callbacks for what happens in between, or `train_on_batch`.
    """

    code = "FS305"
    name = "fit-in-loop"
    fixable = True
    examples = (example("fit-in-loop", line="model.fit(row[None]", backends=("tensorflow",), estimable=False),)

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at every line that calls fit often."""
        for region in case.regions("fit"):
            around = seconds_of(region, "setup", "epoch", "unexplained", "logs")
            few = region.calls >= 5 and region.steps <= 20 * region.calls
            if not few or not case.matters(around, 0.1):
                continue
            yield Cause(
                says=f"fit is called {region.calls:,} times for a few steps each, and setting it up is what costs.",
                where=region.where,
                evidence=(
                    share("of the training goes to setting up these calls", around / case.seconds),
                    counted("calls", region.calls),
                    counted("steps per call", region.steps / region.calls),
                ),
                saves=case.saves(0.9 * around),
                remedy="Call fit once for all of it, with callbacks for what happens in between, or train_on_batch.",
                claims=frozenset({f"{id(region)}:around"}),
            )

    def lint(self, script: Script) -> Iterable[Hit]:
        """Trainings on one row, or on one batch."""
        replays = _replays(script)
        for call in script.model_calls("fit"):
            epochs, rows = script.argument(call, "epochs"), script.argument(call, "x", 0)
            if script.seldom(call) or (epochs is not None and script.literal(epochs) != 1):
                continue
            if script.one_row(rows) and many_rows(script, call):
                what = "one row"
            elif call in replays or _is_one_batch(script, call, rows):
                what = "one batch"
            else:
                continue
            yield Hit(
                call.func.end_lineno or call.lineno,
                f"fit is called for {what} at a time, and each call sets up a pipeline and an epoch of its own.",
                "train_on_batch(x, y), or one fit over all of them.",
            )


def _is_one_batch(script: Script, call: ast.Call, rows: ast.AST | None) -> bool:
    """`for i in range(0, n, size): fit(x[i:i + size], batch_size=size)`: every fit is a single step."""
    loop = next(iter(script.loops(call)), None)
    values = script.values(rows) if isinstance(rows, ast.Name) else []
    rows = values[-1] if values else rows
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name) or not isinstance(rows, ast.Subscript):
        return False
    index = rows.slice.elts[0] if isinstance(rows.slice, ast.Tuple) and rows.slice.elts else rows.slice
    source = loop.iter
    if not isinstance(source, ast.Call) or script.called(source) != "range" or len(source.args) != 3:
        return False
    if not isinstance(index, ast.Slice) or index.lower is None or not is_name(index.lower, loop.target.id):
        return False
    step, end = ast.dump(source.args[2]), index.upper
    if not isinstance(end, ast.BinOp) or step not in (ast.dump(end.left), ast.dump(end.right)):
        return False
    size, number = script.argument(call, "batch_size"), script.literal(source.args[2])
    return (size is not None and ast.dump(size) == step) or (isinstance(number, int) and number <= KERAS_BATCH)


class StepOverhead(ExecutionRule):
    """The step is so small that starting it takes longer than computing it.

    Every step has a fixed price: Keras' loop, the dispatch, the logs. With a tiny model or a tiny batch that
    price is nearly all of it.

    fitscope says so when the steps of `fit` or `train_on_batch` take less than 3 ms, and the multiplications of the
    model would take less than a quarter of that at 10 GFLOP/s, a rate that one core reaches on small matrices, too.

    Change: `compile(steps_per_execution=32)` runs that many steps per call (not on PyTorch), or a larger batch,
    which changes the optimization, too.
    """

    code = "FS306"
    name = "step-overhead"
    rank = 80
    fallback = True
    fixable = True
    examples = (example("step-overhead", backends=("tensorflow",), estimable=False),)

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Compares what a step takes with what it has to compute."""
        for region in case.regions("fit", "train_on_batch"):
            settings = case.settings(region)
            work, batch = settings.get("multiplications"), settings.get("batch_size")
            step = seconds_of(region, "step")
            if not work or not batch or region.steps < 300 or settings.get("run_eagerly"):
                continue
            each = step / region.steps
            computing = 6 * work * batch / SMALL_RATE
            if settings.get("steps_per_execution", 1) > 1 or each > 3e-3 or computing > 0.25 * each:
                continue
            around = step + seconds_of(region, "logs", "progress") + _keras_own(region)
            if not case.matters(around, 0.4) or settings.get("device", "cpu") != "cpu":
                continue
            torch = case.run.backend == "torch"
            if torch:
                remedy = "A larger batch has fewer steps to start (it changes the optimization, too)."
            elif region.call == "fit":
                remedy = "compile(…, steps_per_execution=32) starts 32 steps at once; or take a larger batch."
            else:
                remedy = (
                    "Give train_on_batch more rows at once (it changes the optimization, too), or let one fit go "
                    "through them with compile(…, steps_per_execution=32)."
                )
            yield Cause(
                says="Starting the step takes longer than computing it: the model and the batch are tiny.",
                where=region.where,
                evidence=(
                    took("per step", each),
                    took("of that for its multiplications, at 10 GFLOP/s", computing),
                    counted("steps", region.steps),
                ),
                saves=(0.3 * around, 0.8 * around) if not torch else (0.1 * around, 0.7 * around),
                remedy=remedy,
                claims=frozenset({f"{id(region)}:step"}),
                removal=None if torch else changed(region, steps_per_execution=32),
            )


def _keras_own(region: Region) -> float:
    """What Keras itself takes for every step besides running it: slicing arrays, and going through callbacks."""
    arrays = [part for part in parts_of(region, "data") if part.name == "arrays"]
    dispatch = [part for part in parts_of(region, "callback") if part.name.startswith("CallbackList.")]
    return sum(part.seconds for part in (*arrays, *dispatch))


class ShortEpochs(ExecutionRule):
    """An epoch has so few steps that starting and ending it is what costs.

    Keras opens and closes the input, resets metrics and calls the epoch hooks once per epoch: some tens of
    milliseconds on TensorFlow.

    fitscope says so when there are at least ten epochs of at most twenty steps, and the time between them takes
    30 % of the training or more, and more than the steps.

    Change: repeat the data, so that one epoch has many steps: `Dataset.from_tensors((x, y)).repeat(100)`, and
    fewer epochs.
    """

    code = "FS307"
    name = "short-epochs"
    fixable = True
    examples = (
        example(
            "short-epochs",
            line="model.fit(x, x[:, :1], batch_size=64, epochs=80",
            backends=("tensorflow",),
            estimable=False,
        ),
    )

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at what passes between the epochs."""
        for region in case.regions("fit"):
            between = seconds_of(region, "epoch", "logs")
            if not any(part.name == "arrays" for part in parts_of(region, "data")):
                # The end of a slow pipeline blocks for as long as a pass took: that is the input's, not the epoch's.
                between -= sum(part.seconds for part in parts_of(region, "epoch") if part.name.startswith("closing"))
            short = region.epochs >= 10 * region.calls and region.steps <= 20 * region.epochs
            if not short or not case.matters(between, 0.3) or between < seconds_of(region, "step"):
                continue
            yield Cause(
                says=f"An epoch has {words.count(round(region.steps / region.epochs), 'step')}, and "
                "starting and ending it takes longer than the steps.",
                where=region.where,
                evidence=(
                    share("of the training passes between the epochs", between / case.seconds),
                    counted("epochs", region.epochs),
                    took("to start and end an epoch", between / region.epochs),
                ),
                saves=case.saves(0.95 * between + 0.3 * seconds_of(region, "step")),
                remedy="Repeat the data so that an epoch has hundreds of steps, and run fewer epochs.",
                claims=frozenset({f"{id(region)}:epoch"}),
            )


RULES = (
    PredictInLoop(),
    FitInLoop(),
    StepOverhead(),
    ShortEpochs(),
)
