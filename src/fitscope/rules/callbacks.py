"""Causes in the callbacks: the step waits for what is done around it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fitscope import words
from fitscope.model import Part, Region, Where
from fitscope.rules.case import Case, counted, parts_of, seconds_of, share, shorter_end
from fitscope.rules.hooks import (
    BATCH_HOOK,
    OFTEN,
    beside_saving,
    claims,
    evidence_of,
    hooks_of,
    how_often,
    is_done_once,
    is_tensorboard,
    line_of,
    predicting,
    predictions,
    shares,
    steady,
    uses_network,
    usual,
    writes,
)
from fitscope.rules.removing import hooks_off
from fitscope.rules.rule import Cause, Hit, Rule, example
from fitscope.source import BATCH_HOOKS, Script

ONE_PASS = 0.15
"""A prediction per epoch that takes less than this share of the training is nobody's fault."""

LONG = {
    "IPython.display.clear_output": "draws in the notebook",
    "gc.collect": "collects garbage",
    "matplotlib.pyplot.draw": "draws a picture",
    "matplotlib.pyplot.pause": "draws a picture",
    "matplotlib.pyplot.savefig": "draws a picture",
    "matplotlib.pyplot.show": "draws a picture",
    "os.system": "runs another program",
    "subprocess.": "runs another program",
    "time.sleep": "sleeps",
}
"""What takes long each time, whatever the model: a single line written to a file does not."""

WRITES_LONG = {
    ".to_csv": "writes a whole table",
    ".to_excel": "writes a whole table",
    "joblib.dump": "writes a file",
    "numpy.save": "writes a file",
    "numpy.savetxt": "writes a file",
    "numpy.savez": "writes a file",
    "numpy.savez_compressed": "writes a file",
    "os.fsync": "waits for the disk",
    "pickle.dump": "writes a file",
    "tensorflow.summary.flush": "waits for the log to be on disk",
    "tensorflow.summary.histogram": "writes a histogram",
    "tensorflow.summary.image": "writes pictures",
    "torch.save": "writes a file",
}
SERVERS = ("http.client.", "httpx.", "requests.", "smtplib.", "socket.create_connection", "urllib.request.urlopen")
REQUESTS = (".delete", ".get", ".post", ".put", ".patch", ".request", ".send", ".sendall")
TRAINING_HOOKS = frozenset(hook for hook in BATCH_HOOKS if "predict" not in hook)
"""Predictions are written batch by batch because that is what they are made for."""
FEW_ROWS = 5


class CallbackRule(Rule):
    """A cause in a callback."""

    family = "callbacks"

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at every callback of every training."""
        for region in case.regions("fit", "evaluate", "predict"):
            saving = beside_saving(region)
            for part in hooks_of(region):
                if case.matters(steady(part)) and part not in saving and not is_done_once(region, part):
                    found = self.of_part(case, region, part)
                    if found is not None:
                        yield replace(_behind_loading(case, region, part, found), removal=hooks_off(region, part))

    def of_part(self, case: Case, region: Region, part: Part) -> Cause | None:
        """What one hook of one callback shows of this cause."""
        raise NotImplementedError


def _behind_loading(case: Case, region: Region, part: Part, cause: Cause) -> Cause:
    """A batch hook during which the next batches are loaded gives back no more than loading leaves."""
    low, high = cause.saves
    slack = min((data.slack for data in case.inputs if data.region is region), default=low)
    if slack >= low or part.phase != "callback" or not BATCH_HOOK.search(part.name):
        return cause
    says = "The input is prepared meanwhile and takes as long: this gains little before that is faster."
    return replace(cause, saves=(slack, high), remedy=f"{cause.remedy} {says}")


class BlockingCallback(CallbackRule):
    """A batch hook works while the training waits for it.

    What a callback does in `on_train_batch_end` happens between two steps: nothing trains meanwhile.

    fitscope says so when a batch hook of the user's takes at least 3 % of the training, and names the line. Hooks
    that call `predict`, talk to a network or write logs have names of their own.

    Change: do it every so many batches (`fitscope.Every(callback, batches=10)`), or once per epoch; let work that
    needs no answer run beside the training (`fitscope.Background(callback)`, with `process=True` for work that
    computes in Python).
    """

    code = "FS201"
    name = "blocking-callback"
    fixable = True
    examples = (example("blocking-callback", line="time.sleep(0.01)"),)

    def of_part(self, case: Case, region: Region, part: Part) -> Cause | None:
        """A batch hook that is none of the narrower causes."""
        if not BATCH_HOOK.search(part.name) or part.name.startswith("CallbackList."):
            return None
        if predicting(part) >= 0.5 * steady(part) or is_tensorboard(part):
            return None
        if uses_network(case, part) or writes(case, part):
            return None
        line = line_of(part)
        return Cause(
            says=f"The training stands still while {part.name} works, {how_often(part)}.",
            where=line.where if line is not None else part.where,
            evidence=evidence_of(case, part),
            saves=usual(case, region, part),
            remedy=(
                "Do it less often: fitscope.Every(callback, batches=10). If the training does not need its result, "
                "do it beside the training: fitscope.Background(callback), with process=True for Python work."
            ),
            claims=claims(region, part),
            shares=shares(region, part),
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """What takes long wherever it is done, done in every batch."""
        for call in script.batch_hook_calls():
            name = script.called(call)
            what = next((says for start, says in LONG.items() if name.startswith(start)), None)
            if what is not None:
                yield Hit(
                    call.lineno,
                    f"The training stands still while this hook {what}, in every batch.",
                    "Do it once per epoch, or every so many batches.",
                )


class PredictInCallback(CallbackRule):
    """A callback calls `predict` or `evaluate` on the model that is being trained.

    Each call sets up a pipeline, a progress bar and a loop of its own: a fixed price of tens of milliseconds on
    TensorFlow, whatever the number of rows. Called per sample or per batch, that price is the training's.

    fitscope says so when a `predict`, `evaluate` or one of their kin below a callback takes at least 3 % of
    the training.

    Change: one call for all rows instead of one per row; `model.predict_on_batch(x)` where it is called often; a
    metric in `compile` where the number is all that is wanted (`fitscope.metrics` has precision, recall, F1, the area
    under the curve and the confusion matrix as scikit-learn counts them).
    """

    code = "FS202"
    name = "predict-in-callback"
    fixable = True
    examples = (
        example("predict-in-callback", line="self.scores = [self.model.predict(row[None]", backends=("tensorflow",)),
    )

    def of_part(self, case: Case, region: Region, part: Part) -> Cause | None:
        """A hook with a prediction inside."""
        spent = predicting(part)
        if not case.matters(spent) or spent < 0.4 * steady(part):
            return None
        dearest = max(predictions(part), key=lambda inner: inner.seconds)
        number = part.count or 1
        if not BATCH_HOOK.search(part.name) and not case.matters(spent, ONE_PASS):
            return None
        return Cause(
            says=f"{part.name} calls {dearest.name} on the model, and the training waits for it.",
            where=dearest.where or part.where,
            evidence=(
                share(f"of the training is spent in {dearest.name} below it", spent / case.seconds),
                counted("calls of the hook", number),
            ),
            saves=case.saves(0.96 * spent + (shorter_end(region, spent) if BATCH_HOOK.search(part.name) else 0.0)),
            remedy=(
                "Predict all rows in one call, take predict_on_batch where it is called often, or let a metric in "
                "compile(metrics=…) accumulate the number: see fitscope.metrics."
            ),
            claims=claims(region, part),
            shares=shares(region, part),
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """A prediction in every batch, or for every row at the end of an epoch."""
        predictions = set(script.model_calls("predict", "evaluate"))
        for call in script.batch_hook_calls():
            if call in predictions:
                yield Hit(
                    call.func.end_lineno or call.lineno,
                    f"A batch hook calls {script.method(call)}, and each call sets up a loop of its own.",
                    "A metric in compile(metrics=…), or once per epoch; predict_on_batch where it must be often.",
                )
        for callback in script.callbacks():
            for name, hook in callback.hooks.items():
                for call in script.calls_of(hook) if name not in BATCH_HOOKS else ():
                    loops = script.loops(call)
                    if call in predictions and loops and script.one_row(script.argument(call, "x", 0)):
                        rounds = script.rounds(loops[0])
                        if rounds is None or rounds >= FEW_ROWS:
                            yield Hit(
                                call.func.end_lineno or call.lineno,
                                f"This hook calls {script.method(call)} once per row: a call has a fixed price, "
                                "whatever the number of rows.",
                                "One call for all rows.",
                            )


class PerBatchLogging(CallbackRule):
    """Something is logged after every batch, or in too much detail.

    TensorBoard with `update_freq="batch"`, histograms and images of the weights, prints, CSV rows and saved
    arrays per batch cost more than the step when steps are short.

    fitscope says so when Keras' TensorBoard callback takes at least 3 % of the training and logs per batch or
    writes histograms, or when a batch hook of the user's spends its time writing.

    Change: `update_freq="epoch"` or every 100 batches, `histogram_freq=0`; collect in memory and write once per
    epoch, or beside the training (`fitscope.Background(callback)`).
    """

    code = "FS203"
    name = "per-batch-logging"
    fixable = True
    examples = (example("per-batch-logging", line='np.save("record.npy", x)'),)

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at Keras' TensorBoard as a whole, and at every batch hook."""
        for region in case.regions("fit"):
            parts = [part for part in parts_of(region, "callback") if is_tensorboard(part)]
            spent = sum(part.seconds for part in parts)
            if parts and case.matters(spent):
                yield from self._tensorboard(case, region, parts, spent)
        yield from super().diagnose(case)

    def _tensorboard(self, case: Case, region: Region, parts: list[Part], spent: float) -> Iterable[Cause]:
        callbacks = case.settings(region).get("callbacks", ())
        setting: dict[str, Any] = next((each for each in callbacks if each["name"] == "TensorBoard"), {})
        often = setting.get("update_freq", "epoch")
        detail = [f"update_freq={often!r}"] if often != "epoch" else []
        if setting.get("histogram_freq"):
            detail.append(f"histogram_freq={setting['histogram_freq']}")
        if setting.get("write_images"):
            detail.append("write_images=True")
        if not detail:
            return
        yield Cause(
            says=f"TensorBoard writes more than the training can carry: {', '.join(detail)}.",
            where=region.where,
            evidence=(share("of the training is spent in TensorBoard's hooks", spent / case.seconds),),
            saves=case.saves(0.9 * spent),
            remedy='TensorBoard(update_freq="epoch", histogram_freq=0): histograms only when you look at them.',
            claims=claims(region, *parts),
        )

    def of_part(self, case: Case, region: Region, part: Part) -> Cause | None:
        """A batch hook that writes."""
        if is_tensorboard(part) or not BATCH_HOOK.search(part.name):
            return None
        if uses_network(case, part) or predicting(part) >= 0.5 * steady(part) or not writes(case, part):
            return None
        line = line_of(part)
        return Cause(
            says=f"{part.name} writes after every batch.",
            where=line.where if line is not None else part.where,
            evidence=evidence_of(case, part),
            saves=usual(case, region, part),
            remedy=(
                "Collect in memory and write once per epoch, or every so many batches: fitscope.Every(callback, "
                "batches=10); or write beside the training: fitscope.Background(callback)."
            ),
            claims=claims(region, part),
            shares=shares(region, part),
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """TensorBoard set to write in every batch, and hooks that wait for the disk there."""
        for call in script.calls:
            if script.called(call) == "keras.callbacks.TensorBoard":
                often = script.literal(script.argument(call, "update_freq"))
                if often == "batch" or (type(often) is int and 0 < often <= OFTEN):
                    each = "in every batch" if often in ("batch", 1) else f"every {often} batches"
                    yield Hit(
                        call.lineno,
                        f"TensorBoard writes {each}: where steps are short, that takes longer than they do.",
                        'update_freq="epoch", or every few hundred batches.',
                    )
        for call in script.batch_hook_calls(TRAINING_HOOKS):
            what = "waits for a database" if _commits(script, call) else WRITES_LONG.get(script.called(call))
            if what is not None and not _into_memory(script, call):
                yield Hit(
                    call.lineno,
                    f"This hook {what} in every batch.",
                    "Collect in memory and write once per epoch, or every so many batches.",
                )


def _into_memory(script: Script, call: ast.Call) -> bool:
    """Whether what a call writes goes to a buffer in place of a file."""
    made = [value for given in call.args for value in (given, *script.values(given)) if isinstance(value, ast.Call)]
    return any(script.called(value) == "io.BytesIO" for value in made)


def _commits(script: Script, call: ast.Call) -> bool:
    """Whether a call writes to a database what was changed in it: sqlite3 waits for the disk then."""
    if script.method(call) != "commit" or not isinstance(call.func, ast.Attribute):
        return False
    made = [value for value in script.values(call.func.value) if isinstance(value, ast.Call)]
    opened = [script.argument(value, "database", 0) for value in made if script.called(value) == "sqlite3.connect"]
    return any(script.literal(name) != ":memory:" for name in opened)


class NetworkInCallback(CallbackRule):
    """A callback talks to a server while the training waits.

    A request takes milliseconds at best; after every batch that is the time of many steps.

    fitscope says so when a hook takes at least 3 % of the training (one that is called once per epoch 50 ms each time
    or 10 % of the training) and most looks found it in network code.

    Change: collect the records and send many in one request, once per epoch or beside the training: with
    `fitscope.Background(callback)` a callback that has `on_train_batches_end(batches, logs)` gets all that wait at
    once. One request per record from one background thread gains nothing when requests are slower than steps.
    """

    code = "FS204"
    name = "network-in-callback"
    fixable = True
    examples = (example("network-in-callback", line="urllib.request.urlopen(address, data"),)

    def of_part(self, case: Case, region: Region, part: Part) -> Cause | None:
        """A hook found in network code."""
        if not uses_network(case, part) or predicting(part) >= 0.5 * steady(part) or _is_brief(case, part):
            return None
        line = line_of(part)
        return Cause(
            says=f"{part.name} talks to a server while the training waits.",
            where=line.where if line is not None else part.where,
            evidence=evidence_of(case, part),
            saves=usual(case, region, part),
            remedy=(
                "Send many records in one request: once per epoch, or beside the training by fitscope.Background("
                "callback) around a callback with on_train_batches_end(batches, logs)."
            ),
            claims=claims(region, part),
            shares=shares(region, part),
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """A request in every batch."""
        for call in script.batch_hook_calls():
            name = script.called(call)
            through_session = name in REQUESTS and script.waits(call)
            if name.startswith(SERVERS) or through_session:
                yield Hit(
                    call.lineno,
                    "This hook talks to a server in every batch, and the training waits for the answer.",
                    "Send many records in one request, once per epoch or from a thread of its own.",
                )


SLOW_HOOK = 0.05
"""Seconds in an epoch that a callback may take beside a training of short epochs."""


def _is_brief(case: Case, part: Part) -> bool:
    """Whether the hook of an epoch is dear only because the epochs are short."""
    brief = steady(part) < SLOW_HOOK * part.count and not case.matters(steady(part), 0.1)
    return brief and not BATCH_HOOK.search(part.name)


class SlowEpochCallback(CallbackRule):
    """A callback takes long at the beginning or the end of each epoch.

    fitscope says so when an epoch hook of the user's takes at least 3 % of the training, and 50 ms each time or 10 %
    of the training, not just in one epoch of several, and names the line. A hook that calls `predict` has a name of
    its own.

    Change: do it every few epochs, do less of it, or do it beside the training (`fitscope.Background(callback)`, with
    `snapshot=True` if it needs the model).
    """

    code = "FS206"
    name = "slow-epoch-callback"
    fixable = True
    examples = (example("slow-epoch-callback", line="time.sleep(0.3)"),)

    def of_part(self, case: Case, region: Region, part: Part) -> Cause | None:
        """An epoch hook that is none of the narrower causes."""
        if BATCH_HOOK.search(part.name) or is_tensorboard(part) or part.name.startswith("History."):
            return None
        if "_epoch_" not in part.name or predicting(part) >= 0.4 * steady(part) or uses_network(case, part):
            return None
        if _is_brief(case, part):
            return None
        line = line_of(part)
        return Cause(
            says=f"The training stands still while {part.name} works.",
            where=line.where if line is not None else part.where,
            evidence=evidence_of(case, part),
            saves=usual(case, region, part),
            remedy="Do it every few epochs, do less of it, or beside the training: fitscope.Background(callback).",
            claims=claims(region, part),
            shares=shares(region, part),
        )


class ForcedSync(CallbackRule):
    """One callback makes Keras wait for every step, so that loading and computing no longer overlap.

    On JAX the step is computed while Python goes on. A batch-end hook that is not marked `async_safe`, even an
    empty one, makes Keras wait for the result of every step before it loads the next batch.

    fitscope says so on JAX (and on devices) when such a callback is there, and both the wait for data and the
    wait for the step are large enough that they could hide each other.

    Change: do the work once per epoch, or beside the training, which keeps Keras asynchronous and the calls in order
    (`fitscope.Background(callback)`), or for some of the batches (`fitscope.Every(callback, batches=10)`).
    `async_safe = True` on the callback avoids the wait, too, but then Keras calls it late, in several threads and out
    of order, and on JAX a hook that sets `model.stop_training` breaks the model.
    """

    code = "FS207"
    name = "forced-sync"
    fixable = True
    examples = (example("forced-sync", backends=("jax",)),)

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks for a wait for data and a wait for the step that take turns."""
        for region in case.regions("fit"):
            device = str(case.settings(region).get("device", "cpu"))
            if not region.forced_sync or (case.run.backend != "jax" and device == "cpu"):
                continue
            waited = sum(part.seconds for part in region.parts if part.name == "waiting for the device")
            loaded = seconds_of(region, "data")
            hidden = min(waited, loaded)
            if not case.matters(hidden, 0.05):
                continue
            names = ", ".join(region.forced_sync)
            yield Cause(
                says=f"{names} makes Keras wait for every step, so that loading and computing take turns.",
                where=_hook_place(region) or region.where,
                evidence=(
                    share("of the training waits for the step", waited / case.seconds),
                    share("of the training waits for data", loaded / case.seconds),
                ),
                saves=case.saves(0.85 * hidden),
                remedy=(
                    "Move the work to on_epoch_end, or wrap the callback: fitscope.Background(callback) keeps Keras "
                    "asynchronous and the calls in order. (With async_safe = True Keras calls the hook late, in "
                    "several threads and out of order; one that sets stop_training then breaks the model on JAX.)"
                ),
                claims=frozenset({f"{id(region)}:overlap"}),
                removal=hooks_off(region, *_batch_ends(region), asynchronous=True),
            )


def _batch_ends(region: Region) -> list[Part]:
    """The hooks that Keras waits for."""
    return [part for part in parts_of(region, "callback") if part.name.endswith(".on_train_batch_end")]


def _hook_place(region: Region) -> Where | None:
    name = region.forced_sync[0]
    hooks = [part for part in parts_of(region, "callback") if part.name.startswith(f"{name}.") and part.where]
    return next((part.where for part in hooks if BATCH_HOOK.search(part.name)), None)


class ProgressBar(CallbackRule):
    """Drawing the progress bar takes a noticeable part of the training.

    With steps of a millisecond or less, and more so in a notebook or over a slow connection, `verbose=1` costs
    more than it tells.

    fitscope says so when the bar takes at least 10 % of the training.

    Change: `verbose=2` (one line per epoch).
    """

    code = "FS208"
    name = "progress-bar"
    fixable = True
    examples = ()

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at what the bar took."""
        for region in case.regions("fit", "evaluate", "predict"):
            parts = parts_of(region, "progress")
            spent = sum(part.seconds for part in parts)
            if parts and case.matters(spent, 0.1):
                yield Cause(
                    says=f"Drawing the progress bar takes {words.share(spent / case.seconds)} of the training.",
                    where=region.where,
                    evidence=(share("of the training is spent drawing", spent / case.seconds),),
                    saves=case.saves(0.9 * spent, spread=1.1),
                    remedy=f"{region.call}(…, verbose=2) prints one line per epoch.",
                    claims=claims(region, *parts),
                    removal=hooks_off(region, *parts),
                )


RULES = (
    BlockingCallback(),
    PredictInCallback(),
    PerBatchLogging(),
    NetworkInCallback(),
    SlowEpochCallback(),
    ForcedSync(),
    ProgressBar(),
)
