"""Causes in the input that lie in the code that loads: Python, single examples, layers outside of any graph."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from fitscope.model import Evidence, Line, Stage
from fitscope.names import Function, Loop
from fitscope.rules.case import PYTHON_SOURCES, Case, Input, counted, share
from fitscope.rules.input import BATCHES, UNLIKE_ROWS, InputRule, line_of, map_of
from fitscope.rules.rule import Cause, Hit, example
from fitscope.source import Script

CALL = 40e-6
"""What calling a function of a few TensorFlow operations for one example takes beside their work, which remains."""
SOME_WAIT = 0.15
"""Below this share of the training arrays may be computed in a loading function."""
CHEAPER_THAN_KEEPING = 39
"""The rank of tiny calls: to keep their results (`repeated-preprocessing`) would still hand on each of them."""
CHEAPER_THAN_WORKERS = 43
"""The rank of work on single values: as work on arrays it takes next to nothing, while workers share all of it."""
OF_ARRAYS = ("PIL.", "cv2.", "keras.", "librosa.", "numpy.", "scipy.", "skimage.", "tensorflow.", "torch.")
"""What works on whole arrays, also in a loop."""
MAKE_DATASETS = ("flatmap", "interleave", "window")
"""Stages whose elements are datasets, or are made of such."""
MANY_WINDOWS = 8
MOSTLY_THERE = 0.6
"""The share of looks at the loading code from which on a line is what it does."""


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
        function, rank = data.function, self.rank
        if data.generates and not data.generator_waits:
            where = data.slowest.where if data.slowest is not None else None
            says = "The training waits for a Python generator."
        elif function is not None and data.computes:
            line = data.hot_line
            if data.share < SOME_WAIT and data.source in PYTHON_SOURCES and not _is_loop(case, line):
                return None  # whole arrays are computed, as they should be
            where = line.where if line is not None else function.where
            rank = CHEAPER_THAN_WORKERS if _is_number_by_number(case, line) else rank
            says = f"Python code computes in the input, one core at a time: {function.name}."
        elif data.between is not None and not data.between.doing and case.in_loop(data.between.where):
            where = data.between.where
            says = f"The training waits for your own Python code between two steps: {data.between.function}."
        else:
            return None
        return Cause(
            says=says,
            where=where,
            evidence=(*data.evidence(), *working_share(data)),
            saves=case.saves(data.saved(0.03)),
            remedy="Work on whole arrays instead of single values, "
            + ("move the work into TensorFlow operations inside map, " if data.source == "tf.data" else "")
            + "or do it once before the training.",
            claims=data.claims,
            shares=data.shares,
            rank=rank,
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


def _is_number_by_number(case: Case, line: Line | None) -> bool:
    """Whether the loading code is mostly found in a loop within a loop, on single values: `out[y, x] = …`."""
    if line is None or line.share < MOSTLY_THERE or line.doing:
        return False
    script, number = case.script_of(line.where.file), line.where.line
    nodes = script.parents if script is not None else ()
    there = [each for each in nodes if isinstance(each, ast.stmt) and each.lineno <= number <= (each.end_lineno or 0)]
    if script is None or not there:
        return False
    statement = max(there, key=lambda node: (node.lineno, node.col_offset))
    loops = [loop for loop in working_loops(script, statement) if isinstance(loop, ast.For)]
    calls = [script.called(node) for node in ast.walk(statement) if isinstance(node, ast.Call)]
    if len(loops) < 2 or any(name.startswith(OF_ARRAYS) for name in calls):
        return False
    counted_by = [_names_in(loop.target) for loop in loops[:2]]
    cells = [_names_in(node.slice) for node in ast.walk(statement) if isinstance(node, ast.Subscript)]
    return any(all(names & cell for names in counted_by) for cell in cells)


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


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


def working_share(data: Input) -> tuple[Evidence, ...]:
    function = data.function
    return (share("of its time it held a processor", min(1.0, function.working or 0.0)),) if function else ()


class PerExampleWork(InputRule):
    """The input does for each example what could be done for a whole batch.

    Every call has a fixed price: some microseconds for a TensorFlow function, tens of them for Python. Called
    per row that price is paid a thousand times for one batch.

    fitscope says so when the training waits for data and the slow stage, map or generator ran many times for
    each batch, when `window` makes a dataset of each example and no stage explains the wait (opening a dataset is no
    stage's time), or when the hot line of a loading function stands in a loop over examples.

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
        windows = _windows_per_batch(data)
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
        elif function is None and slowest is None and windows >= MANY_WINDOWS:
            makers = [stage.get("where") for stage in data.pipeline if stage["kind"] in MAKE_DATASETS]
            where, calls, name, rank = next(filter(None, makers), None), windows, "window", CHEAPER_THAN_KEEPING
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


def _windows_per_batch(data: Input) -> float:
    """How many datasets `window` makes for one batch."""
    made = sum((s.elements_per_batch or 0.0) * (s.batches or data.batches) for s in data.native if s.name == "Window")
    return made / data.batches


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
    EagerLayersInPipeline(),
)
