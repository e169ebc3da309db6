"""Causes in the input: the training waits for its next batch."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from fitscope import words
from fitscope.model import Evidence, Where
from fitscope.pipelines import Chain, Link
from fitscope.rules.case import PYTHON_SOURCES, Case, Input, counted, seconds_of, share, took
from fitscope.rules.rule import Cause, Example, Hit, Rule
from fitscope.source import Script
from fitscope.syntax import Function, Loop

PARALLEL_CALLS = 16
FEW_WORKERS = 4
START_WORKERS = 0.16
"""Seconds that starting and stopping the workers takes in every epoch."""
READERS = ("TFRecord", "TextLine", "FixedLengthRecord", "Interleave", "ParallelInterleave")


BATCHES = ("batch", "padded_batch", "ragged_batch")
UNLIKE_ROWS = ("cache", "flat_map", "interleave", "snapshot", "unbatch")
"""Methods behind which a generator's elements are no longer what it yielded."""


class InputRule(Rule):
    """A cause that makes the training wait for data."""

    family = "input"

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at every input that keeps the training waiting."""
        for each in case.inputs:
            found = self.of_input(case, each)
            if found is not None:
                yield found

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """What one input shows of this cause."""
        raise NotImplementedError


def map_of(data: Input) -> dict[str, Any]:
    """The map, as it was written, whose Python function keeps the training waiting."""
    maps = [stage for stage in data.pipeline if stage["kind"] == "map" and stage.get("python")]
    return maps[-1] if maps else {}


def line_of(written: dict[str, Any]) -> Where | None:
    """The line of the script that added a stage to its pipeline."""
    where: Where | None = written.get("made") or written.get("where")
    return where


class SequentialMap(InputRule):
    """A `map` of the input pipeline runs for one element at a time.

    TensorFlow runs pure maps in parallel by itself. It never does so for a map with `numpy_function`,
    `py_function` or random operations: there the elements wait for one another unless `num_parallel_calls` says
    otherwise.

    fitscope says so when the training waits for data, the map is the slowest stage, it was written without
    `num_parallel_calls`, and its time is spent waiting (for a disk or a network), or there are idle cores to
    share it. Python code that computes holds the interpreter and gains nothing from more threads: that is
    `python-in-pipeline`.

    Change: `map(f, num_parallel_calls=16)` for a function that waits, with a private pool of as many threads
    (`AUTOTUNE` goes up to the number of cores only); `num_parallel_calls=tf.data.AUTOTUNE` for one that computes
    in TensorFlow operations. The order of the elements stays the same. `fitscope.tune(dataset)` does so by itself.
    """

    code = "FS101"
    name = "sequential-map"
    rank = 30
    fixable = True
    examples = (
        Example(
            slow="""
import time
import keras, numpy as np, tensorflow as tf

def fetch(row):
    time.sleep(0.002)
    return row

def load(row):
    row = tf.ensure_shape(tf.numpy_function(fetch, [row], tf.float32), (8,))
    return row, row[:1]

rows = np.random.default_rng(0).random((640, 8)).astype("float32")
data = tf.data.Dataset.from_tensor_slices(rows).map(load).batch(32)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=2, verbose=0)
""",
            fast="""
import time
import keras, numpy as np, tensorflow as tf

def fetch(row):
    time.sleep(0.002)
    return row

def load(row):
    row = tf.ensure_shape(tf.numpy_function(fetch, [row], tf.float32), (8,))
    return row, row[:1]

rows = np.random.default_rng(0).random((640, 8)).astype("float32")
data = tf.data.Dataset.from_tensor_slices(rows).map(load, num_parallel_calls=16).batch(32).prefetch(2)
options = tf.data.Options()
options.threading.private_threadpool_size = 16
data = data.with_options(options)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=2, verbose=0)
""",
            line="data = tf.data.Dataset.from_tensor_slices(rows).map(load)",
        ),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A map that waits, or that idle cores could share."""
        function = data.function
        if function is not None and not data.computes:
            written = map_of(data)
            if not written or written.get("parallel") is not None:
                return None
            remaining, calls = 2 / PARALLEL_CALLS, str(PARALLEL_CALLS)
            where, stage = line_of(written), function
            why = "and its time is spent waiting"
        else:
            slowest = data.slowest
            written = data.written(slowest)
            alone = written.get("kind") == "map" and written.get("parallel") is None and written.get("random")
            idle = case.cores - case.account.use.process_cpu if case.account.use is not None else 0.0
            if slowest is None or not alone or function is not None or idle < 0.5:
                return None
            remaining, calls = 1 / (1 + idle), "tf.data.AUTOTUNE"
            where, stage = line_of(written), slowest
            why = f"and {idle:.1f} cores are idle"
        saved = data.saved(remaining)
        if not case.matters(saved):
            return None
        return Cause(
            says=f"The training waits for a map that handles one element at a time, {why}.",
            where=where,
            evidence=(*data.evidence(), counted("calls at once", stage.parallelism)),
            saves=case.saves(saved),
            remedy=(
                f"Let several calls run at once: map(…, num_parallel_calls={calls})"
                + (
                    f", with options.threading.private_threadpool_size = {PARALLEL_CALLS} on the dataset."
                    if calls.isdigit()
                    else "."
                )
            ),
            claims=data.claims,
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """A map written for one element at a time that waits, or that TensorFlow cannot run in parallel by itself."""
        for _, link in script.links("map"):
            if not script.is_sequential(link):
                continue
            function = script.python_of(link)
            if script.goes_outside(function):
                yield Hit(
                    link.line,
                    "This map handles one element at a time: TensorFlow never runs a map with Python code in "
                    "parallel by itself.",
                    f"map(…, num_parallel_calls={PARALLEL_CALLS}), with options.threading.private_threadpool_size = "
                    f"{PARALLEL_CALLS} on the dataset.",
                )
            elif function is None and script.is_random(link) and script.decodes(link):
                yield Hit(
                    link.line,
                    "This map decodes one element at a time: TensorFlow never runs a map with random operations in "
                    "parallel by itself.",
                    "map(…, num_parallel_calls=tf.data.AUTOTUNE).",
                )


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
    examples = (
        Example(
            slow="""
import json
import keras, numpy as np

rows = np.random.default_rng(0).random((32, 600)).astype("float32")
document = json.dumps(rows.tolist())

def batches():
    while True:
        x = np.array(json.loads(document), "float32")
        yield x, x[:, :1]

model = keras.Sequential([keras.Input((600,)), keras.layers.Dense(400, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(batches(), steps_per_epoch=100, epochs=3, verbose=0)
""",
            fast="""
import json
import keras, numpy as np

rows = np.random.default_rng(0).random((32, 600)).astype("float32")
document = json.dumps(rows.tolist())
x = np.array(json.loads(document), "float32")

def batches():
    while True:
        yield x, x[:, :1]

model = keras.Sequential([keras.Input((600,)), keras.layers.Dense(400, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(batches(), steps_per_epoch=100, epochs=3, verbose=0)
""",
            line="x = np.array(json.loads(document)",
        ),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A Python function that computes."""
        function = data.function
        if data.generates:
            where = data.slowest.where if data.slowest is not None else None
            says = "The training waits for a Python generator."
        elif function is not None and data.computes:
            line = data.hot_line
            where = line.where if line is not None else function.where
            says = f"Python code computes in the input, one core at a time: {function.name}."
        else:
            return None
        return Cause(
            says=says,
            where=where,
            evidence=(*data.evidence(), *_working(data)),
            saves=case.saves(data.saved(0.03)),
            remedy=(
                "Work on whole arrays instead of single values, move the work into TensorFlow operations inside "
                "map, or do it once before the training."
            ),
            claims=data.claims,
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
    examples = (
        Example(
            slow="""
import keras, numpy as np, tensorflow as tf

rows = np.random.default_rng(0).random((4000, 10)).astype("float32")
labels = rows[:, 0].copy()

def generate():
    for i in range(len(rows)):
        yield rows[i], labels[i]

signature = (tf.TensorSpec((10,), tf.float32), tf.TensorSpec((), tf.float32))
data = tf.data.Dataset.from_generator(generate, output_signature=signature).batch(20)
model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(256, activation="relu"),
                          keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=2, verbose=0)
""",
            fast="""
import keras, numpy as np, tensorflow as tf

rows = np.random.default_rng(0).random((4000, 10)).astype("float32")
labels = rows[:, 0].copy()
data = tf.data.Dataset.from_tensor_slices((rows, labels)).batch(20)
model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(256, activation="relu"),
                          keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=2, verbose=0)
""",
            line="data = tf.data.Dataset.from_generator",
        ),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A stage that runs many times per batch, or a loop over examples in a loading function."""
        function, slowest, rank = data.function, data.slowest, self.rank
        if function is not None and data.computes and data.per_example >= 4:
            written = map_of(data)
            where = line_of(written) or function.where
            calls, name = data.per_example, function.name
        elif data.generates and slowest is not None and (slowest.elements_per_batch or 0) >= 4:
            where, calls, name = slowest.where, slowest.elements_per_batch or 0.0, "the generator"
        elif function is not None and data.computes and data.source in PYTHON_SOURCES:
            line = data.hot_line
            if line is None or line.share < 0.3 or not case.in_loop(line.where):
                return None
            where, calls, name, rank = line.where, 0.0, line.function, PythonInPipeline.rank + 1
        elif function is None and slowest is not None and _cheap_per_element(data):
            where = line_of(data.written(slowest)) or slowest.where
            calls, name = slowest.elements_per_batch or 0.0, slowest.name
        else:
            return None
        often = f" {calls:,.0f} times for each batch" if calls else " example by example"
        return Cause(
            says=f"The input works on single examples: {name} runs{often}.",
            where=where,
            evidence=data.evidence() + ((counted("calls per batch", calls),) if calls else ()),
            saves=case.saves(data.saved(0.02)),
            remedy=(
                "Work on whole batches: call batch(…) before map(…), let a generator yield batches, or give the "
                "arrays to Dataset.from_tensor_slices."
            ),
            claims=data.claims,
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
    tiny = [s for s in data.native if (s.elements_per_batch or 0) >= 8 and s.name in kinds]
    each = [(s.seconds_per_batch or 0.0) / (s.elements_per_batch or 1.0) for s in tiny]
    work = sum(data.busy(stage) for stage in tiny)
    total = sum(data.busy(stage) for stage in data.native)
    return bool(tiny) and work >= 0.6 * total and max(each) < 100e-6


class MissingPrefetch(InputRule):
    """Nothing prepares the next batch while the current one is trained on.

    TensorFlow 2.21 puts a `prefetch` at the end of every pipeline by itself, so a missing one costs nothing,
    unless that rewrite was turned off.

    fitscope says so only when the training waits for data, the pipeline has no `prefetch`, and
    `options.experimental_optimization.inject_prefetch` is off.

    Change: end the pipeline with `prefetch(tf.data.AUTOTUNE)`.
    """

    code = "FS104"
    name = "missing-prefetch"
    rank = 32
    fixable = True
    examples = (
        Example(
            slow="""
import time
import keras, numpy as np, tensorflow as tf

x = np.random.default_rng(0).random((32, 64)).astype("float32")

def fetch():
    for number in range(60):
        time.sleep(0.008)
        yield x, x[:, :1]

signature = (tf.TensorSpec((32, 64), tf.float32), tf.TensorSpec((32, 1), tf.float32))
data = tf.data.Dataset.from_generator(fetch, output_signature=signature)
options = tf.data.Options()
options.experimental_optimization.inject_prefetch = False
data = data.with_options(options)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(1500, activation="relu"),
                          keras.layers.Dense(1500, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=3, verbose=0)
""",
            fast="""
import time
import keras, numpy as np, tensorflow as tf

x = np.random.default_rng(0).random((32, 64)).astype("float32")

def fetch():
    for number in range(60):
        time.sleep(0.008)
        yield x, x[:, :1]

signature = (tf.TensorSpec((32, 64), tf.float32), tf.TensorSpec((32, 1), tf.float32))
data = tf.data.Dataset.from_generator(fetch, output_signature=signature)
options = tf.data.Options()
options.experimental_optimization.inject_prefetch = False
data = data.with_options(options).prefetch(2)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(1500, activation="relu"),
                          keras.layers.Dense(1500, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=3, verbose=0)
""",
            line="data = data.with_options(options)",
            backends=("tensorflow",),
        ),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A pipeline without prefetch whose rewrite is off."""
        if data.injects_prefetch or not data.pipeline or any(s["kind"] == "prefetch" for s in data.pipeline):
            return None
        hidden = min(data.wait, seconds_of(data.region, "step"))
        if not case.matters(hidden):
            return None
        return Cause(
            says="Loading and computing take turns: no prefetch was written, and TensorFlow's own is turned off.",
            where=line_of(data.pipeline[-1]),
            evidence=data.evidence(),
            saves=case.saves(hidden),
            remedy="End the pipeline with .prefetch(tf.data.AUTOTUNE).",
            claims=data.claims,
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """Options that turn off the prefetch that TensorFlow adds, on a pipeline without one."""
        off: set[str] = set()
        for node in script.parents:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is False:
                off |= {target.attr for target in node.targets if isinstance(target, ast.Attribute)}
        if not off & {"apply_default_optimizations", "inject_prefetch"}:
            return
        for chain, link in script.links("with_options"):
            if not any(each.name == "prefetch" for each in chain.links) and _works_in_turn(script, chain, off):
                yield Hit(
                    link.line,
                    "These options turn off the prefetch that TensorFlow adds by itself, and the pipeline has none "
                    "of its own: loading and training take turns.",
                    ".prefetch(tf.data.AUTOTUNE) as the last stage.",
                )


def _works_in_turn(script: Script, chain: Chain, off: set[str]) -> bool:
    """Whether the last stage that works does so only while the training waits, with these rewrites off."""
    last = next((each for each in reversed(chain.links) if each.name in ("map", "from_generator")), None)
    if last is None:
        return False
    behind = [each.name for each in chain.after(last)]
    if "apply_default_optimizations" in off:
        return last.name == "from_generator" or script.is_sequential(last)
    if last.name == "from_generator":
        return not set(behind) & set(BATCHES)
    fused = behind[:1] == ["batch"] and "map_and_batch_fusion" not in off
    made_parallel = script.python_of(last) is None and not script.is_random(last)
    return script.is_sequential(last) and not fused and not made_parallel


class RepeatedPreprocessing(InputRule):
    """Work that always gives the same result is done again in every epoch.

    Decoding, parsing and resizing the same files gives the same arrays each time. With `cache` it is done in
    the first pass only.

    fitscope says so when the training waits for data, the slowest stage neither draws random numbers nor calls
    Python, nothing caches its result, and the data is gone through more than once.

    Change: `.cache()` behind the last deterministic stage and before the random ones, if the result fits into
    memory (or `.cache(filename)`). `fitscope.materialize(dataset, folder)` does it once for all trainings, on disk.
    """

    code = "FS105"
    name = "repeated-preprocessing"
    rank = 40
    fixable = True
    examples = (
        Example(
            slow="""
import keras, numpy as np, tensorflow as tf

rng = np.random.default_rng(0)
blobs = [tf.io.encode_png(rng.integers(0, 255, (320, 320, 3), dtype=np.uint8)).numpy() for _ in range(48)]

def decode(blob, label):
    image = tf.image.resize(tf.io.decode_png(blob, channels=3), (32, 32))
    return tf.ensure_shape(image, (32, 32, 3)) / 255.0, label

data = tf.data.Dataset.from_tensor_slices((blobs, rng.integers(0, 2, 48))).map(decode).batch(8)
model = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Conv2D(4, 3, strides=2), keras.layers.Flatten(),
                          keras.layers.Dense(2, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(data, epochs=10, verbose=0)
""",
            fast="""
import keras, numpy as np, tensorflow as tf

rng = np.random.default_rng(0)
blobs = [tf.io.encode_png(rng.integers(0, 255, (320, 320, 3), dtype=np.uint8)).numpy() for _ in range(48)]

def decode(blob, label):
    image = tf.image.resize(tf.io.decode_png(blob, channels=3), (32, 32))
    return tf.ensure_shape(image, (32, 32, 3)) / 255.0, label

data = tf.data.Dataset.from_tensor_slices((blobs, rng.integers(0, 2, 48))).map(decode).cache().batch(8)
model = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Conv2D(4, 3, strides=2), keras.layers.Flatten(),
                          keras.layers.Dense(2, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(data, epochs=10, verbose=0)
""",
            line="data = tf.data.Dataset.from_tensor_slices((blobs",
        ),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """The slowest stage is deterministic, nothing caches it, and it runs in every pass."""
        written = data.written(data.slowest)
        deterministic = written.get("kind") == "map" and not written.get("random") and not written.get("python")
        if data.function is not None or not deterministic or data.passes < 2:
            return None
        if any(stage["kind"] == "cache" for stage in data.pipeline) or _per_batch_random(data, written):
            return None
        return Cause(
            says=f"The same deterministic work is done {data.passes:,.0f} times over the same data.",
            where=line_of(written),
            evidence=(*data.evidence(), counted("passes over the data", data.passes)),
            saves=case.saves(data.saved(1 / data.passes)),
            remedy=(
                "Keep its result: .cache() after this map and before anything random, if it fits into memory; "
                "fitscope.materialize(dataset, folder) keeps it on disk, for other trainings, too."
            ),
            claims=data.claims,
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """Records that are decoded once for each of several random pieces of them."""
        for chain, link in script.links("repeat"):
            times = script.literal(script.argument(link.node, "count", 0))
            before, after = chain.before(link), chain.after(link)
            decoding = [each for each in before if each.name == "map" and each.sure and script.decodes(each)]
            if (
                isinstance(times, int)
                and times > 1
                and decoding
                and not any(each.name in ("cache", "snapshot") for each in chain.links)
                and not any(each.name == "map" and script.is_random(each) for each in before)
                and any(each.name == "map" and each.sure and script.is_random(each) for each in after)
            ):
                yield Hit(
                    decoding[-1].line,
                    f"This map decodes every record {times} times per pass: the pipeline is repeated behind it, and "
                    "keeps nothing.",
                    ".cache() behind the map if the result fits into memory, or several crops per record at once.",
                )


def _per_batch_random(data: Input, written: dict[str, Any]) -> bool:
    """Whether something random comes before a stage, so that its results differ from pass to pass."""
    before = data.pipeline[: data.pipeline.index(written)] if written in data.pipeline else []
    return any(stage.get("random") or stage.get("python") for stage in before)


class MisplacedCache(InputRule):
    """The pipeline has a `cache`, but not where it saves the work.

    A `cache` before the expensive stage keeps what was cheap to make; one behind a random stage freezes the
    augmentation, and all epochs see the same pictures; one whose pass is cut short (by `take` behind it or by
    `steps_per_epoch`) is never completed and never used.

    fitscope says so when the training waits for data, the pipeline has a `cache`, and the slowest stage is a
    deterministic one behind it; or, from the source, when a random map stands before it.

    Change: put `.cache()` directly behind the last expensive deterministic stage, before shuffling and random
    stages.
    """

    code = "FS106"
    name = "misplaced-cache"
    rank = 20
    examples = (
        Example(
            slow="""
import keras, numpy as np, tensorflow as tf

rng = np.random.default_rng(0)
blobs = [tf.io.encode_png(rng.integers(0, 255, (320, 320, 3), dtype=np.uint8)).numpy() for _ in range(48)]

def decode(blob, label):
    image = tf.image.resize(tf.io.decode_png(blob, channels=3), (32, 32))
    return tf.ensure_shape(image, (32, 32, 3)) / 255.0, label

data = tf.data.Dataset.from_tensor_slices((blobs, rng.integers(0, 2, 48))).cache().map(decode).batch(8)
model = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Conv2D(4, 3, strides=2), keras.layers.Flatten(),
                          keras.layers.Dense(2, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(data, epochs=10, verbose=0)
""",
            fast="""
import keras, numpy as np, tensorflow as tf

rng = np.random.default_rng(0)
blobs = [tf.io.encode_png(rng.integers(0, 255, (320, 320, 3), dtype=np.uint8)).numpy() for _ in range(48)]

def decode(blob, label):
    image = tf.image.resize(tf.io.decode_png(blob, channels=3), (32, 32))
    return tf.ensure_shape(image, (32, 32, 3)) / 255.0, label

data = tf.data.Dataset.from_tensor_slices((blobs, rng.integers(0, 2, 48))).map(decode).cache().batch(8)
model = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Conv2D(4, 3, strides=2), keras.layers.Flatten(),
                          keras.layers.Dense(2, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(data, epochs=10, verbose=0)
""",
            line="data = tf.data.Dataset",
        ),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A cache with the slowest, deterministic stage behind it."""
        kinds = [stage["kind"] for stage in data.pipeline]
        written = data.written(data.slowest)
        if "cache" not in kinds or written not in data.pipeline or data.function is not None or data.passes < 2:
            return None
        cache = len(kinds) - 1 - kinds[::-1].index("cache")
        index = data.pipeline.index(written)
        if index < cache or written["kind"] != "map" or written.get("random"):
            return None
        if any(stage.get("random") or stage["kind"] == "shuffle" for stage in data.pipeline[cache + 1 : index]):
            return None  # a cache behind them would freeze what is random
        return Cause(
            says="The cache stands before the expensive work, so that work is done again in every epoch.",
            where=line_of(data.pipeline[cache]),
            evidence=(*data.evidence(), counted("passes over the data", data.passes)),
            saves=case.saves(data.saved(1 / data.passes)),
            remedy="Move .cache() behind the last expensive map that is not random.",
            claims=data.claims,
        )

    def lint(self, script: Script) -> Iterable[Hit]:
        """Caches that keep what they should not, or never get to keep anything."""
        for chain, link in script.links("cache"):
            before, after = [each for each in chain.before(link) if each.sure], chain.after(link)
            if not link.sure:
                continue
            if any(each.name == "map" and script.is_random(each) for each in before):
                yield Hit(
                    link.line,
                    "This cache keeps the random augmentation of the first epoch, and all later ones see the same.",
                    "Put .cache() before the random map.",
                )
            elif any(each.name == "repeat" and not each.node.args and not each.node.keywords for each in before):
                yield Hit(
                    link.line,
                    "This cache stands behind an endless repeat: it grows, and is never read.",
                    "Put .cache() before .repeat().",
                )
            elif _cut_short(script, chain, link):
                yield Hit(
                    link.line,
                    "A take behind this cache ends every pass before the cache is complete: nothing is kept, and all "
                    "is loaded again in every epoch.",
                    "Put .take() before .cache().",
                )
            elif {each.name for each in before} <= {"from_tensor_slices", "list_files", "shuffle"} and any(
                each.name == "map" and script.decodes(each) and not script.is_random(each) for each in after
            ):
                yield Hit(
                    link.line,
                    "This cache keeps what is in memory already, and not what is decoded from it.",
                    "Put .cache() behind the map that decodes, if the result fits into memory.",
                )


def _cut_short(script: Script, chain: Chain, cache: Link) -> bool:
    """Whether a training of several epochs reads a cache only through a `take`."""
    after = chain.after(cache)
    names = [each.name for each in after]
    if "take" not in names or not set(names[: names.index("take")]) <= {"map", "batch", "prefetch"}:
        return False
    whole = [
        each for each in script.chains() if cache in each.links and "take" not in [x.name for x in each.after(cache)]
    ]
    statement = script.parents.get(chain.links[-1].node)
    if whole or not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    for call in script.model_calls("fit"):
        data = script.argument(call, "x", 0)
        epochs = script.literal(script.argument(call, "epochs"))
        if (
            isinstance(data, ast.Name)
            and data.id == statement.targets[0].id
            and isinstance(epochs, int)
            and epochs > 1
        ):
            return True
    return False


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
    examples = (
        Example(
            slow="""
import time
import keras, numpy as np

x = np.random.default_rng(0).random((32, 16)).astype("float32")

class Remote(keras.utils.PyDataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        time.sleep(0.02)
        return x, x[:, :1]

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Remote(), epochs=2, verbose=0)
""",
            fast="""
import time
import keras, numpy as np

x = np.random.default_rng(0).random((32, 16)).astype("float32")

class Remote(keras.utils.PyDataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        time.sleep(0.02)
        return x, x[:, :1]

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Remote(workers=4), epochs=2, verbose=0)
""",
            line="def __getitem__(self, index):",
        ),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A loading function that waits, or a DataLoader without workers."""
        function = data.function
        if function is None or data.source not in PYTHON_SOURCES or function.parallelism > 1 or data.workers > 1:
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
    much of the processors as one thread could.

    Change: `workers=1`, and array operations instead of loops; processes only where an experiment shows a gain.
    """

    code = "FS108"
    name = "counterproductive-workers"
    rank = 25
    examples = (
        Example(
            slow="""
import keras, numpy as np

x = np.random.default_rng(0).random((32, 16)).astype("float32")

class Items(keras.utils.PyDataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        total = 0
        for number in range(200_000):
            total += number % 7
        return x, x[:, :1]

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Items(workers=4), epochs=2, verbose=0)
""",
            fast="""
import keras, numpy as np

x = np.random.default_rng(0).random((32, 16)).astype("float32")

class Items(keras.utils.PyDataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        total = 0
        for number in range(200_000):
            total += number % 7
        return x, x[:, :1]

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Items(workers=1), epochs=2, verbose=0)
""",
            line="def __getitem__(self, index):",
            estimable=False,
        ),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """Threads that take turns at the interpreter."""
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
            saves=case.saves(0.15 * data.wait, spread=1.2),
            remedy="Take workers=1 and replace the loop by array operations.",
            claims=data.claims,
        )


class SlowStorage(InputRule):
    """The input waits for a disk or for a network.

    Many small files, a bucket far away, a disk that turns: the loading code stands still while the bytes come.

    fitscope says so when the training waits for data, and what reads does not compute: a Python function that
    was found waiting in network or file code, or a reading stage of tf.data that takes the longest.

    Change: read several files at once (`interleave(…, num_parallel_calls=16)`), pack small files into a few
    large ones, or copy them to a local disk first.
    """

    code = "FS109"
    name = "slow-storage"
    rank = 48
    examples = (
        Example(
            slow="""
import http.server, threading, time, urllib.request
import keras, numpy as np

class Bucket(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.01)
        self.send_response(200)
        self.send_header("Content-Length", "2048")
        self.end_headers()
        self.wfile.write(bytes(2048))

    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_address[1]}/batch"

class Remote(keras.utils.PyDataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        with urllib.request.urlopen(address) as answer:
            x = np.frombuffer(answer.read(), "float32").reshape(32, 16)
        return x, x[:, :1]

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Remote(workers=2), epochs=2, verbose=0)
server.shutdown()
""",
            fast="""
import keras, numpy as np

class Local(keras.utils.PyDataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        x = np.frombuffer(bytes(2048), "float32").reshape(32, 16)
        return x, x[:, :1]

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Local(workers=2), epochs=2, verbose=0)
""",
            line="with urllib.request.urlopen(address)",
        ),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """Reading that does not compute."""
        function, slowest = data.function, data.slowest
        if function is not None and not data.computes:
            read = data.doing("network") + data.doing("files")
            if read < 0.5 or int(map_of(data).get("parallel") or 1) >= 8:
                return None
            line = data.hot_line
            where, what = (line.where if line is not None else function.where), function.name
            evidence = (*data.evidence(), share("of the looks found it in network or file code", read))
        elif data.generates and slowest is not None and data.doing("network") + data.doing("files") >= 0.5:
            line = data.hot_line
            where, what = (line.where if line is not None else slowest.where), "a generator"
            evidence = data.evidence()
        elif function is None and slowest is not None and slowest.name in READERS:
            where, what, evidence = slowest.where, slowest.name, data.evidence()
        else:
            return None
        return Cause(
            says=f"The training waits for bytes to be read: {what}.",
            where=where,
            evidence=evidence,
            saves=case.saves(data.saved(0.25)),
            remedy="Read several at once, pack small files into a few large ones, or copy them to a local disk.",
            claims=data.claims,
        )


class ShuffleRefill(InputRule):
    """Each epoch begins with filling the shuffle buffer.

    `shuffle(n)` reads n elements before it gives the first one, and starts anew in every epoch. With a large
    buffer behind an expensive stage the training stands still for that long.

    fitscope says so when the pipeline shuffles, and the first batch of each epoch is waited for much longer
    than the others.

    Change: shuffle before the expensive stages (file names, indices), or take a smaller buffer.
    """

    code = "FS110"
    name = "shuffle-refill"
    rank = 24
    examples = (
        Example(
            slow="""
import time
import keras, numpy as np, tensorflow as tf

def fetch(rows):
    time.sleep(0.012)
    return rows

def load(rows):
    rows = tf.ensure_shape(tf.numpy_function(fetch, [rows], tf.float32), (4, 64))
    return rows, rows[:, :1]

rows = np.random.default_rng(0).random((480, 64)).astype("float32")
data = tf.data.Dataset.from_tensor_slices(rows).batch(4, drop_remainder=True)
data = data.map(load, num_parallel_calls=8).shuffle(120)
options = tf.data.Options()
options.threading.private_threadpool_size = 8
data = data.with_options(options)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(700, activation="relu"),
                          keras.layers.Dense(700, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=6, verbose=0)
""",
            fast="""
import time
import keras, numpy as np, tensorflow as tf

def fetch(rows):
    time.sleep(0.012)
    return rows

def load(rows):
    rows = tf.ensure_shape(tf.numpy_function(fetch, [rows], tf.float32), (4, 64))
    return rows, rows[:, :1]

rows = np.random.default_rng(0).random((480, 64)).astype("float32")
data = tf.data.Dataset.from_tensor_slices(rows).batch(4, drop_remainder=True)
data = data.shuffle(120).map(load, num_parallel_calls=8).prefetch(8)
options = tf.data.Options()
options.threading.private_threadpool_size = 8
data = data.with_options(options)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(700, activation="relu"),
                          keras.layers.Dense(700, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=6, verbose=0)
""",
            line="data = data.map(load, num_parallel_calls=8).shuffle(120)",
            backends=("tensorflow",),
            estimable=False,
        ),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """The first step of each epoch waits for the buffer."""
        region = data.region
        shuffles = [stage for stage in data.pipeline if stage["kind"] == "shuffle"]
        if not shuffles or region.epochs < 2:
            return None
        before = data.pipeline[: data.pipeline.index(shuffles[-1])]
        if not any(stage["kind"] in ("map", "flatmap", "interleave", "filter") for stage in before):
            return None  # what fills the buffer is cheap: it stands where it should
        firsts = region.first_waits
        usual = (data.training_wait - firsts.seconds) / max(1, region.steps - firsts.count)
        refill = firsts.seconds - firsts.count * usual
        if not firsts.count or refill < 0.5 * data.training_wait or not case.matters(refill, 0.05):
            return None
        where = line_of(shuffles[-1])
        return Cause(
            says=f"Each epoch begins by filling the shuffle buffer, {words.seconds(refill / firsts.count)} long.",
            where=where,
            evidence=(
                took("waited for the first batch of an epoch", firsts.seconds / firsts.count),
                took("waited for any other batch", usual),
            ),
            saves=case.saves(0.85 * refill),
            remedy="Shuffle before the expensive maps (names or indices, not loaded data), or shrink the buffer.",
            claims=data.claims,
        )


class OversizedRecords(InputRule):
    """Much is read and decoded of which little is used.

    Reading a whole scan to cut a small window out of it costs the whole scan.

    fitscope says so when the training waits for data and the elements of a map before the batching are at least
    eight times as large as what the model gets.

    Change: store what is used (tiles instead of scans), decode only the window
    (`tf.image.decode_and_crop_jpeg`), or cache the decoded records.
    """

    code = "FS111"
    name = "oversized-records"
    rank = 22
    examples = (
        Example(
            slow="""
import keras, numpy as np, tensorflow as tf

rng = np.random.default_rng(0)
scans = [tf.io.serialize_tensor(rng.random((700, 700, 3)).astype("float32")).numpy() for _ in range(8)]

def parse(blob):
    return tf.ensure_shape(tf.io.parse_tensor(blob, tf.float32), (700, 700, 3))

def crop(scan):
    window = tf.image.random_crop(scan, (24, 24, 3))
    return window, window[0, 0, :1]

data = tf.data.Dataset.from_tensor_slices(scans).map(parse).repeat(20).map(crop).batch(8)
model = keras.Sequential([keras.Input((24, 24, 3)), keras.layers.Conv2D(32, 3),
                          keras.layers.Conv2D(32, 3), keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=2, verbose=0)
""",
            fast="""
import keras, numpy as np, tensorflow as tf

rng = np.random.default_rng(0)
tiles = rng.random((160, 24, 24, 3)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((tiles, tiles[:, 0, 0, :1])).batch(8)
model = keras.Sequential([keras.Input((24, 24, 3)), keras.layers.Conv2D(32, 3),
                          keras.layers.Conv2D(32, 3), keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=2, verbose=0)
""",
            line="data = tf.data.Dataset.from_tensor_slices(scans).map(parse)",
            backends=("tensorflow",),
        ),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A stage whose elements are far larger than what is used of them."""
        kinds = [stage["kind"] for stage in data.pipeline]
        end = kinds.index("batch") if "batch" in kinds else len(kinds)
        before = [(stage.get("bytes") or 0, stage) for stage in data.pipeline[:end] if stage["kind"] == "map"]
        used = (data.pipeline[end - 1].get("bytes") or 0) if end else 0
        if data.function is not None or not before or not used:
            return None
        size, stage = max(before, key=lambda pair: pair[0])
        if size < 8 * used or any(each["kind"] == "cache" for each in data.pipeline):
            return None
        return Cause(
            says=f"{words.size(size)} are read and decoded for every {words.size(used)} that the model gets.",
            where=line_of(stage),
            evidence=(*data.evidence(), Evidence("read for what is used", size / used, "times")),
            saves=case.saves(data.saved(0.03)),
            remedy="Store tiles of the size that is used, decode only the window, or cache the decoded records.",
            claims=data.claims,
        )


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
    examples = (
        Example(
            slow="""
import keras, numpy as np
from keras import layers

images = np.random.default_rng(0).random((96, 32, 32, 3)).astype("float32")
labels = np.zeros(96, "int32")
augment = keras.Sequential([layers.RandomFlip("horizontal"), layers.RandomRotation(0.1)])

class Augmented(keras.utils.PyDataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        rows = slice(index * 8, index * 8 + 8)
        batch = [augment(image, training=True) for image in images[rows]]
        return np.stack([keras.ops.convert_to_numpy(image) for image in batch]), labels[rows]

model = keras.Sequential([keras.Input((32, 32, 3)), layers.Conv2D(48, 3), layers.Conv2D(48, 3), layers.Flatten(),
                          layers.Dense(2, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(Augmented(), epochs=3, verbose=0)
""",
            fast="""
import keras, numpy as np, tensorflow as tf
from keras import layers

images = np.random.default_rng(0).random((96, 32, 32, 3)).astype("float32")
labels = np.zeros(96, "int32")
flip, rotate = layers.RandomFlip("horizontal"), layers.RandomRotation(0.1)
data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(8)
data = data.map(lambda x, y: (rotate(flip(x)), y), num_parallel_calls=tf.data.AUTOTUNE)
model = keras.Sequential([keras.Input((32, 32, 3)), layers.Conv2D(48, 3), layers.Conv2D(48, 3), layers.Flatten(),
                          layers.Dense(2, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(data, epochs=3, verbose=0)
""",
            line="batch = [augment(image, training=True)",
        ),
    )

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
            saves=case.saves(data.saved(0.02)),
            remedy="Call the layers on whole batches inside Dataset.map(…), or make them part of the model.",
            claims=data.claims,
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


class InputBound(InputRule):
    """The training waits for data, and nothing narrower is certain.

    The wait itself is measured. Which stage causes it could not be told: the loading runs in other processes,
    or no stage stands out.

    fitscope says so when at least 20 % of the training is spent waiting for data, not only for the first batch of an
    epoch, and no other cause explains it.

    Change: train on one batch again and again to see what a free input would give, and look at the
    stages in `fitscope show --json`.
    """

    code = "FS113"
    name = "input-bound"
    rank = 90
    fallback = True
    examples = ()

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A wait without a narrower cause."""
        steady = data.wait - data.region.first_waits.seconds
        if not case.matters(data.wait, 0.2) or not case.matters(steady, 0.15) or data.source == "arrays":
            return None
        stage = data.function or data.slowest
        return Cause(
            says=f"The training waits for data from {data.source or 'its input'}.",
            where=stage.where if stage is not None else data.region.where,
            evidence=data.evidence(),
            saves=(0.0, data.wait),
            remedy="Find the slow stage: fitscope show --json lists them; prepare the data ahead of the training.",
            claims=data.claims,
        )


RULES = (
    SequentialMap(),
    PythonInPipeline(),
    PerExampleWork(),
    MissingPrefetch(),
    RepeatedPreprocessing(),
    MisplacedCache(),
    SingleWorkerLoader(),
    CounterproductiveWorkers(),
    SlowStorage(),
    ShuffleRefill(),
    OversizedRecords(),
    EagerLayersInPipeline(),
    InputBound(),
)
