"""Causes in the input that lie in the code that loads: Python, its workers, and what it reads from."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from fitscope import words
from fitscope.model import Evidence, Line, Stage, Where
from fitscope.names import Function, Loop, listed
from fitscope.rules.case import PYTHON_SOURCES, Case, Input, counted, parts_of, seconds_of, share, took
from fitscope.rules.input import BATCHES, UNLIKE_ROWS, InputRule, line_of, map_of
from fitscope.rules.rule import Cause, Hit, example
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
CALL = 40e-6
"""What calling a function of a few TensorFlow operations for one example takes beside their work, which remains."""
SOME_WAIT = 0.15
"""Below this share of the training arrays may be computed in a loading function."""
CHEAPER_THAN_KEEPING = 39
"""The rank of tiny calls: to keep their results (`repeated-preprocessing`) would still hand on each of them."""


class PythonInPipeline(InputRule):
    """Python code in the input computes, and holds the interpreter while it does.

    A generator, a `numpy_function`, a `py_function` or a `__getitem__` that computes in Python can use one core
    only, whatever number of threads is asked for, and it takes that core's interpreter away from the training
    loop.

    fitscope says so when the training waits for data, the user's Python function accounts for the wait, and it
    held a processor for most of that time.

    Change: do the work in array operations on whole batches, in TensorFlow operations inside `map`, or once
    and for all before the training.
    """

    code = "FS102"
    name = "python-in-pipeline"
    rank = 60
    fixable = True
    examples = (example("python-in-pipeline", line="x = np.array(json.loads(document)"),)

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A Python function that computes."""
        function = data.function
        if data.generates and not data.generator_waits:
            where = data.slowest.where if data.slowest is not None else None
            says = "The training waits for a Python generator."
        elif function is not None and data.computes:
            line = data.hot_line
            if data.share < SOME_WAIT and data.source in PYTHON_SOURCES and not _is_loop(case, line):
                return None  # whole arrays are computed, as they should be
            where = line.where if line is not None else function.where
            says = f"Python code computes in the input, one core at a time: {function.name}."
        elif data.between is not None and not data.between.doing and case.in_loop(data.between.where):
            where = data.between.where
            says = f"The training waits for your own Python code between two steps: {data.between.function}."
        else:
            return None
        return Cause(
            says=says,
            where=where,
            evidence=(*data.evidence(), *_working(data)),
            saves=case.saves(data.saved(0.03)),
            remedy="Work on whole arrays instead of single values, "
            + ("move the work into TensorFlow operations inside map, " if data.source == "tf.data" else "")
            + "or do it once before the training.",
            claims=data.claims,
            shares=data.shares,
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """A map that enters Python once per example, and loaders that make arrays number by number."""
        for chain, link in script.links("map"):
            function = script.python_of(link)
            alone = not any(each.name in BATCHES for each in chain.before(link))
            batched = any(each.name in BATCHES for each in chain.after(link))
            if function is not None and alone and batched and not script.goes_outside(function):
                yield Hit(
                    link.line,
                    "This map leaves the graph for a Python function once per example, and Python runs one of them "
                    "at a time, whatever num_parallel_calls says.",
                    "Batch first and work on whole batches, in TensorFlow operations where they exist.",
                )
        for loader in script.loaders():
            for node in _scalar_loops(script, loader.function):
                yield Hit(
                    node.lineno,
                    "This builds the input number by number in Python, for every example of every batch.",
                    "Compute whole arrays; give class numbers to sparse_categorical_crossentropy instead of rows of "
                    "zeros and a one.",
                )


def _is_loop(case: Case, line: Line | None) -> bool:
    """Whether a line stands in a loop over examples."""
    return line is not None and case.in_loop(line.where)


def _scalar_loops(script: Script, function: Function) -> Iterable[ast.ListComp | ast.GeneratorExp | ast.For]:
    """Loops of a loader that make a row of zeros and a one, or an image, number by number."""
    for node in script.own(function):
        if (
            isinstance(node, ast.ListComp | ast.GeneratorExp)
            and working_loops(script, node)
            and _is_one_hot(node.elt)
        ):
            yield node
        elif isinstance(node, ast.For):
            around = working_loops(script, node)
            if around and isinstance(around[0], ast.For) and _writes_cells(node, around[0]):
                yield node


def working_loops(script: Script, node: ast.AST) -> list[Loop]:
    """The loops around a node that do not yield: those within a batch, not those over the batches."""
    return [
        loop
        for loop in script.loops(node)
        if loop is not node and not any(isinstance(item, ast.Yield | ast.YieldFrom) for item in ast.walk(loop))
    ]


def _is_one_hot(node: ast.expr) -> bool:
    """`1.0 if value == target else 0.0`, `int(value == target)`."""
    if isinstance(node, ast.IfExp) and isinstance(node.body, ast.Constant) and isinstance(node.orelse, ast.Constant):
        return {node.body.value, node.orelse.value} == {0, 1}
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("int", "float")
        and node.args
    ):
        return isinstance(node.args[0], ast.Compare) and isinstance(node.args[0].ops[0], ast.Eq)
    return False


def _writes_cells(inner: ast.For, outer: ast.For) -> bool:
    """`image[i, j] = …` with the variables of both loops: one number at a time."""
    variables = [{item.id for item in ast.walk(loop.target) if isinstance(item, ast.Name)} for loop in (inner, outer)]
    for node in inner.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Tuple):
                used = {item.id for item in target.slice.elts if isinstance(item, ast.Name)}
                sliced = any(isinstance(item, ast.Slice) for item in target.slice.elts)
                if not sliced and all(used & names for names in variables):
                    return True
    return False


def _working(data: Input) -> tuple[Evidence, ...]:
    function = data.function
    return (share("of its time it held a processor", min(1.0, function.working or 0.0)),) if function else ()


class PerExampleWork(InputRule):
    """The input does for each example what could be done for a whole batch.

    Every call has a fixed price: some microseconds for a TensorFlow function, tens of them for Python. Called
    per row that price is paid a thousand times for one batch.

    fitscope says so when the training waits for data and the slow stage, map or generator ran many times for
    each batch, or the hot line of a loading function stands in a loop over examples.

    Change: batch first and map then, with operations that take the whole batch; let a generator yield batches;
    replace a generator over arrays by `from_tensor_slices`.
    """

    code = "FS103"
    name = "per-example-work"
    rank = 55
    fixable = True
    examples = (example("per-example-work", line="data = tf.data.Dataset.from_generator"),)

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A stage that runs many times per batch, or a loop over examples in a loading function."""
        function, slowest, rank, remaining = data.function, data.slowest, self.rank, 0.02
        if data.generator_waits:
            return None
        if data.generates and slowest is not None and (slowest.elements_per_batch or 0) >= 4:
            where, calls, name = slowest.where, slowest.elements_per_batch or 0.0, "the generator"
        elif function is not None and data.computes and data.per_example >= 4:
            written = map_of(data)
            where = line_of(written) or function.where
            calls, name = data.per_example, function.name
        elif function is not None and data.computes and data.source in PYTHON_SOURCES:
            line = data.hot_line
            if line is None or line.share < 0.3 or not case.in_loop(line.where):
                return None
            where, calls, name, rank = line.where, 0.0, line.function, PythonInPipeline.rank + 2
        elif function is None and slowest is not None and _cheap_per_element(data):
            where = line_of(data.written(slowest)) or slowest.where
            calls, name = _calls_per_batch(data, slowest), slowest.name
            rank = CHEAPER_THAN_KEEPING
            each = (slowest.seconds_per_batch or 0.0) / max(1.0, calls)
            remaining = max(remaining, 1 - CALL / each) if each else remaining
        else:
            return None
        often = f" {calls:,.0f} times for each batch" if calls else " example by example"
        return Cause(
            says=f"The input works on single examples: {name} runs{often}.",
            where=where,
            evidence=data.evidence() + ((counted("calls per batch", calls),) if calls else ()),
            saves=case.saves(data.saved(remaining)),
            remedy=(
                "Work on whole batches: call batch(…) before map(…), let a generator yield batches, or give the "
                "arrays to Dataset.from_tensor_slices."
            ),
            claims=data.claims,
            shares=data.shares,
            rank=rank,
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """A generator of rows that are batched only behind it."""
        for chain, link in script.links("from_generator"):
            function = script.generator(script.argument(link.node, "generator", 0))
            first = next((each.name for each in chain.after(link) if each.name in (*BATCHES, *UNLIKE_ROWS)), "")
            if function is not None and first in BATCHES and not script.goes_outside(function):
                yield Hit(
                    link.line,
                    "This generator hands over one row at a time, and each goes through Python and back before it is "
                    "batched.",
                    "from_tensor_slices for arrays in memory, or yield whole batches and leave .batch out.",
                )


def _cheap_per_element(data: Input) -> bool:
    """Whether most of a pipeline's work is many tiny calls before the examples are batched."""
    kinds = ("Map", "ParallelMap", "Filter", "FlatMap", "Window", "Scan", "MapAndBatch", "Interleave")
    tiny = [s for s in data.native if s.name in kinds and _calls_per_batch(data, s) >= 8]
    each = [(s.seconds_per_batch or 0.0) / _calls_per_batch(data, s) for s in tiny]
    work = sum(data.busy(stage) for stage in tiny)
    total = sum(data.busy(stage) for stage in data.native)
    return bool(tiny) and work >= 0.6 * total and max(each) < 100e-6


def _calls_per_batch(data: Input, stage: Stage) -> float:
    """How often a stage works for one batch: where tf.data makes one stage of a map and a batch, once per example."""
    elements = stage.elements_per_batch or 0.0
    written = data.written(stage) if stage.name == "MapAndBatch" else {}
    before = data.pipeline[: data.pipeline.index(written)] if written in data.pipeline else []
    for each in reversed(before):
        read = [s.elements_per_batch for s in data.native if s.where is not None and s.where == each.get("where")]
        if read and read[0]:
            return max(elements, read[0])
    return elements


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
            evidence=(*data.evidence(), *_working(data)),
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


IN_A_GRAPH = {"tensorflow": 0.15, "torch": 0.5}
"""What is left of eager layers in a graph, by pairs of runs on three backends."""


class EagerLayersInPipeline(InputRule):
    """Keras layers run one by one, outside any graph, in the loading code.

    A preprocessing layer called in `__getitem__` or in a generator runs eagerly: each of its operations is
    dispatched from Python, for every image.

    fitscope says so when the training waits for data and most looks at the loading code found it inside a Keras
    layer.

    Change: call the layers on whole batches inside `Dataset.map`, where they become a graph, or make them part of
    the model.
    """

    code = "FS112"
    name = "eager-layers-in-pipeline"
    rank = 10
    fixable = True
    examples = (example("eager-layers-in-pipeline", line="batch = [augment(image, training=True)"),)

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """Loading code that was found inside Keras layers."""
        inside = data.doing("Keras layer")
        line = data.hot_line
        if data.function is None or inside < 0.4 or line is None:
            return None
        return Cause(
            says="Keras layers run eagerly in the loading code, operation by operation.",
            where=line.where,
            evidence=(*data.evidence(), share("of the looks at the loading code found it inside a layer", inside)),
            saves=case.saves(data.saved(IN_A_GRAPH.get(case.run.backend or "", 0.25))),
            remedy="Call the layers on whole batches inside Dataset.map(…), or make them part of the model.",
            claims=data.claims,
            shares=data.shares,
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """A layer that a loader calls for each example."""
        for loader in script.loaders():
            for call in script.own_calls(loader.function):
                if not isinstance(call.func, ast.Name | ast.Attribute) or script.dotted(call.func) is not None:
                    continue
                if (loader.kind == "python" or working_loops(script, call)) and script.is_layer(call.func):
                    yield Hit(
                        call.func.end_lineno or call.lineno,
                        "A Keras layer is called for each example outside of any graph: every call goes through it "
                        "operation by operation.",
                        "Call it on whole batches inside Dataset.map, or make it part of the model.",
                    )


RULES = (
    PythonInPipeline(),
    PerExampleWork(),
    SingleWorkerLoader(),
    CounterproductiveWorkers(),
    EagerLayersInPipeline(),
)
