"""Causes in the input that lie in who loads: nobody beside the training thread, or workers that cost too much."""

from __future__ import annotations

import ast
from typing import Any

from fitscope import words
from fitscope.model import Where
from fitscope.names import listed
from fitscope.rules.case import PYTHON_SOURCES, Case, Input, counted, parts_of, seconds_of, share, took
from fitscope.rules.input import InputRule
from fitscope.rules.loading import PythonInPipeline, working_share
from fitscope.rules.rule import Cause, example
from fitscope.source import Script

FEW_WORKERS = 4
STEP_BESIDE = 0.45
"""The part of a step that goes away with worker processes that every epoch starts anew. With 0.25 five of seven pairs
of scripts gained somewhat more than the estimate's upper end."""
START_WORKERS = 0.16
"""Seconds that starting and stopping the workers takes in every epoch."""
LEAST_SENDING = 0.002
"""Seconds that a batch is waited for before it matters how it came."""
ROW_IN_MEMORY, LEAST_FROM_MEMORY = 8e-6, 0.4e-3
"""Seconds that a DataLoader takes to pick a row of tensors and to stack it, however small it is, and that one waits
for a batch of such rows at the least before that matters."""
COPIED = 5e8
"""Bytes of rows that a DataLoader stacks in a second, where they are not in the processor's caches."""
CONVERTS = listed(
    "float int len numpy.array numpy.asarray numpy.float32 numpy.int64 torch.FloatTensor torch.LongTensor "
    "torch.Tensor torch.as_tensor torch.from_numpy torch.tensor"
)
CONVERTING = ("astype", "clone", "copy", "float", "int", "item", "long", "reshape", "to", "unsqueeze", "view")
"""What makes a tensor of a row, and no more: functions, and methods of the row."""
OPENING = "opening the input pipeline"
ENDS = ("closing the input pipeline", "end of the epoch")
FIRST_BATCH = "first batch, to build the model"


class SingleWorkerLoader(InputRule):
    """One batch is loaded at a time, in or beside the training thread, and loading takes longer than the step.

    A `PyDataset` with `workers=1`, a generator, or a `DataLoader` with `num_workers=0` loads a batch, trains on
    it, and only then loads the next (or loads one ahead at most).

    fitscope says so when the training waits for data and the loading function spends its time waiting for a
    disk or a network (threads help), or when it is a torch `DataLoader` without workers (processes help, if
    there are cores to run them).

    Change: `PyDataset(workers=4)`, `DataLoader(num_workers=…, persistent_workers=True)`; turn a generator into
    a `PyDataset`, whose items can be loaded side by side. `fitscope.Loader(dataset)` finds the number of workers by
    itself, and whether threads or processes serve better.
    """

    code = "FS107"
    name = "single-worker-loader"
    rank = 45
    fixable = True
    examples = (example("single-worker-loader", line="def __getitem__(self, index):"),)

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A loading function that waits, or a DataLoader without workers."""
        function = data.function
        by_python = data.source in PYTHON_SOURCES or data.generator_waits
        if function is None or not by_python or function.parallelism > 1 or data.workers > 1:
            return None
        if data.computes:
            idle = case.cores - 1
            if data.source != "DataLoader" or idle < 1:
                return None
            remaining = 1 / (1 + min(idle, FEW_WORKERS)) if case.cores > 2 else 0.6
            remedy = (
                f"Load in processes beside the training: DataLoader(num_workers={min(idle + 1, FEW_WORKERS)}, …)."
            )
        else:
            remaining = max(0.02, 1 / FEW_WORKERS - _step_share(data))
            remedy = {
                "DataLoader": f"Load several batches at once: DataLoader(num_workers={FEW_WORKERS}, …).",
                "PyDataset": (
                    f"Load several batches at once: super().__init__(workers={FEW_WORKERS}), "
                    "or fitscope.Loader(dataset)."
                ),
                "tf.data": (
                    "Let several generators read at once: tf.data.Dataset.range(4).interleave(lambda part: "
                    "from_generator(…, args=(part,)), num_parallel_calls=4)."
                ),
            }.get(data.source, "Make a PyDataset of the generator, with workers=4: its items load side by side.")
        why = "computes" if data.computes else "waits"
        saved = data.saved(remaining, busy_after=True) - START_WORKERS * max(1, data.region.epochs)
        if not case.matters(saved):
            return None
        return Cause(
            says=f"Batches are loaded one at a time: {function.name} {why} while the training stands still.",
            where=function.where,
            evidence=(*data.evidence(), *working_share(data)),
            saves=case.saves(saved),
            remedy=remedy,
            claims=data.claims,
            shares=data.shares,
        )


def _step_share(data: Input) -> float:
    """The time that a step leaves for loading, as a part of what loading a batch takes."""
    function = data.function
    if function is None or not function.seconds_per_batch:
        return 0.0
    return seconds_of(data.region, "step", "callback", "logs") / data.batches / function.seconds_per_batch


class CounterproductiveWorkers(InputRule):
    """More workers load the data, and that costs more than it gives.

    Threads take turns at the interpreter: Python code that computes is slower in two threads than in one.
    Processes have to be started, and every batch has to be sent from one to the other.

    fitscope says so when the training waits for data that several threads load, and together they used about as
    much of the processors as one thread could; when every epoch starts worker processes anew, and that with their
    end takes longer than the wait for all other batches; or, on TensorFlow, when batches of a PyDataset are waited
    for at least twice as long as Keras took to make the first ones in its own process.

    Change: `workers=1`, and array operations instead of loops; processes only where an experiment shows a gain, and
    then with `persistent_workers=True`.
    """

    code = "FS108"
    name = "counterproductive-workers"
    rank = 25
    fixable = True
    examples = (example("counterproductive-workers", line="def __getitem__(self, index):", estimable=False),)

    def inputs(self, case: Case) -> list[Input]:
        """Also those that nobody waits for, if they have worker processes to start and to end."""
        known = {id(each.region) for each in case.inputs}
        others = [Input(case, region) for region in case.account.regions if id(region) not in known]
        return [*case.inputs, *(each for each in others if each.workers)]

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """Processes that are started again and again, or threads that take turns at the interpreter."""
        if data.workers and data.source in ("DataLoader", "PyDataset"):
            return self._started_anew(case, data) or self._sent(case, data) or self._sent_from_memory(case, data)
        function = data.function
        if function is None or function.parallelism < 2 or data.source != "PyDataset":
            return None
        worked = data.busy(function) * (function.working or 0.0)
        at_once = worked / max(1e-9, data.training_wait + seconds_of(data.region, "step"))
        if not data.computes or not 0.5 <= at_once <= 1.3:
            return None
        return Cause(
            says=f"{function.parallelism} threads load the data but take turns: the code holds the interpreter.",
            where=function.where,
            evidence=(*data.evidence(), counted("processors that they used together", at_once)),
            # One thread was 1.2 to 1.55 times as fast in six pairs of runs that did little but wait.
            saves=(0.12 * data.wait, 0.35 * data.wait),
            remedy="Take workers=1 and replace the loop by array operations.",
            claims=data.claims,
            shares=data.shares,
            rank=PythonInPipeline.rank + 1,  # what the code computes costs more than that threads take turns at it
        )

    def _sent(self, case: Case, data: Input) -> Cause | None:
        """Batches that take longer to come from worker processes than to make here."""
        region = data.region
        peeked = min(case.facts("peeked", region), key=lambda fact: fact["nanoseconds"], default=None)
        if peeked is None:
            return None
        alone: float = peeked["nanoseconds"] / 1e9
        steps, wait = max(1, region.steps), data.usual_wait
        if wait < 2 * alone or wait < LEAST_SENDING or not case.matters(data.training_wait, 0.1):
            return None
        step = seconds_of(region, "step")
        left = max(0.0, alone - step / steps) * steps
        around = sum(part.seconds for part in parts_of(region, "epoch") if part.name in (OPENING, *ENDS))
        # Nothing is sent from process to process any more, and no process takes the processors from the step.
        saved = data.training_wait - left + 0.5 * around + 0.25 * step
        return Cause(
            says=f"{words.count(data.workers, 'worker process')} take longer to send a batch than one takes to make.",
            where=peeked.get("where") or region.where,
            evidence=(
                share("of the training waits for data", data.share),
                took("waited for a batch", wait),
                took("to make one in the training's own process", alone),
            ),
            saves=case.saves(saved),
            remedy="Leave out use_multiprocessing=True, and take workers=1 or 2.",
            claims=data.claims,
            shares=data.shares,
        )

    def _sent_from_memory(self, case: Case, data: Input) -> Cause | None:
        """Rows of a DataLoader's workers that lie in memory as the model gets them."""
        region = data.region
        workers = next((fact for fact in case.facts("workers", region) if fact.get("row_bytes")), None)
        if workers is None or not workers["rows"] or not workers["stacked"] or not _hands_out(case, workers):
            return None
        taking = (ROW_IN_MEMORY + workers["row_bytes"] / COPIED) * workers["rows"]
        wait = data.usual_wait
        if wait < 2 * taking or wait < LEAST_FROM_MEMORY or not case.matters(data.training_wait, 0.1):
            return None
        around = sum(part.seconds for part in parts_of(region, "epoch") if part.name in (OPENING, *ENDS))
        saved = data.training_wait - taking * region.steps + 0.9 * around + 0.25 * seconds_of(region, "step")
        return Cause(
            says=f"{words.count(data.workers, 'worker process')} send rows that are in memory: that takes longer "
            "than taking them there.",
            where=region.where,
            evidence=(
                share("of the training waits for data", data.share),
                took("waited for a batch", wait),
                counted(f"rows of {workers['dataset']} in it, taken in microseconds each", workers["rows"]),
            ),
            saves=case.saves(saved),
            remedy="DataLoader(…, num_workers=0): in the training's own process rows in memory cost next to nothing.",
            claims=data.claims,
            shares=data.shares,
        )

    def _started_anew(self, case: Case, data: Input) -> Cause | None:
        """Worker processes that every epoch starts, and waits for longer than for all its other batches."""
        firsts, region = data.region.first_waits, data.region
        opened = [
            part for part in parts_of(region, "epoch") if part.name == OPENING and part.count > firsts.count / 2
        ]
        opening = sum(part.seconds for part in opened)
        starting = data.beginning + opening
        ending = sum(part.seconds for part in parts_of(region, "epoch") if part.name in ENDS)
        most = starting + ending >= 0.5 * (data.training_wait + opening + ending)
        kept = any(fact.get("persistent") for fact in case.facts("workers", region))
        seen = firsts.count >= 3 or (firsts.count == 2 and ending >= 0.5 * starting)
        if kept or not seen or starting < 0.2 * data.training_wait or not most:
            return None
        if not case.matters(starting + ending, 0.1):
            return None
        inside = [part for part in parts_of(region, "validation") if part.name in [f"epoch: {end}" for end in ENDS]]
        inside += [part for part in parts_of(region, "setup") if part.name == FIRST_BATCH]
        anew = starting + ending + sum(part.seconds for part in inside)
        # Without workers nothing is sent from process to process, and none takes the processors from the step.
        others = 0.7 * (data.training_wait - data.beginning) + STEP_BESIDE * seconds_of(region, "step")
        return Cause(
            says=f"Every epoch starts {words.count(data.workers, 'worker process')} anew: starting and ending them "
            "takes longer than loading.",
            where=region.where,
            evidence=(
                took("to start an epoch and wait for its first batch", (opening + firsts.seconds) / firsts.count),
                took("waited for any other batch", data.usual_wait),
                took("to end an epoch", ending / firsts.count),
                counted("epochs that started workers", firsts.count),
            ),
            saves=case.saves(0.95 * anew + 0.9 * data.validation_wait + others),
            remedy=(
                "num_workers=0 for data that is in memory; DataLoader(…, persistent_workers=True) keeps the workers "
                "where loading is worth them."
            ),
            claims=data.claims,
            shares=data.shares,
        )


def _hands_out(case: Case, workers: dict[str, Any]) -> bool:
    """Whether a Dataset whose arrays are in memory does no more than to take rows of them."""
    if workers["dataset"] == "TensorDataset":
        return True
    where: Where | None = workers.get("where")
    script = case.script_of(where.file) if where is not None else None
    if script is None or where is None:
        return False
    method = next((each for each in script.functions if each.lineno == where.line), None)
    owner = script.class_of(method) if method is not None else None
    if method is None or owner is None:
        return False
    nodes = list(script.own(method))
    works = ast.For | ast.While | ast.With | ast.comprehension | ast.BinOp
    if any(isinstance(node, works) for node in nodes):
        return False
    return all(_is_converting(script, call, workers["without"]) for call in script.own_calls(method))


def _is_converting(script: Script, call: ast.Call, without: list[str]) -> bool:
    """`torch.tensor(row)`, `self.x[index].astype("float32")`; and `self.transform(row)` if that is None."""
    if script.called(call) in CONVERTS:
        return True
    func = call.func
    if not isinstance(func, ast.Attribute):
        return False
    if isinstance(func.value, ast.Name) and func.value.id == "self":
        return func.attr in without
    return func.attr in CONVERTING and isinstance(func.value, ast.Subscript | ast.Call)


RULES = (SingleWorkerLoader(), CounterproductiveWorkers())
