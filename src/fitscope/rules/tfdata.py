"""Causes in the input that lie in how a tf.data pipeline is put together."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from fitscope import words
from fitscope.pipelines import Chain
from fitscope.rules.case import Case, Input, counted, seconds_of, took
from fitscope.rules.input import BATCHES, InputRule, line_of, map_of
from fitscope.rules.keeping import RepeatedPreprocessing
from fitscope.rules.rule import Cause, Hit, example
from fitscope.source import Script

PARALLEL_CALLS = (16, 32, 64)
"""How many calls of a function that waits run at once: as many as it takes to keep up with the step, if any do."""
WOULD_HELP = "calls at once that would help"


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
    examples = (example("sequential-map", line="data = tf.data.Dataset.from_tensor_slices(rows).map(load)"),)

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A map that waits, or that idle cores could share."""
        function = data.function
        if function is not None and not data.computes:
            written = map_of(data)
            if not written or written.get("parallel") is not None:
                return None
            step = seconds_of(data.region, "step") / data.batches
            number = calls_at_once(function.seconds_per_batch or 0.0, step)
            remaining, calls = 2 / number, str(number)
            where, stage = line_of(written), function
            needed = [counted(WOULD_HELP, number)]
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
            needed = []
            why = f"and {idle:.1f} cores are idle"
        saved = data.saved(remaining)
        if not case.matters(saved):
            return None
        return Cause(
            says=f"The training waits for a map that handles one element at a time, {why}.",
            where=where,
            evidence=(*data.evidence(), counted("calls at once", stage.parallelism), *needed),
            saves=case.saves(saved),
            remedy=(
                f"Let several calls run at once: map(…, num_parallel_calls={calls})"
                + (
                    f", with options.threading.private_threadpool_size = {calls} on the dataset."
                    if calls.isdigit()
                    else "."
                )
            ),
            claims=data.claims,
            shares=data.shares,
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
                    f"map(…, num_parallel_calls={PARALLEL_CALLS[0]}), with options.threading."
                    f"private_threadpool_size = {PARALLEL_CALLS[0]} on the dataset.",
                )
            elif function is None and script.is_random(link) and script.decodes(link):
                yield Hit(
                    link.line,
                    "This map decodes one element at a time: TensorFlow never runs a map with random operations in "
                    "parallel by itself.",
                    "map(…, num_parallel_calls=tf.data.AUTOTUNE).",
                )


def calls_at_once(per_batch: float, step: float) -> int:
    """How many calls of a function that waits so many seconds for each batch it takes to keep up with the step."""
    return next((number for number in PARALLEL_CALLS if number * step >= per_batch), PARALLEL_CALLS[-1])


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
    examples = (example("missing-prefetch", line="data = data.with_options(options)", backends=("tensorflow",)),)

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
            shares=data.shares,
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
    fixable = True
    examples = (
        example(
            "shuffle-refill",
            line="data = data.map(load, num_parallel_calls=8).shuffle(120)",
            backends=("tensorflow",),
            estimable=False,
        ),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """The first step of each epoch waits for the buffer."""
        region = data.region
        shuffles = [stage for stage in data.pipeline if stage["kind"] == "shuffle"]
        if not shuffles or region.first_waits.count < 2:
            return None
        before = data.pipeline[: data.pipeline.index(shuffles[-1])]
        if not any(stage["kind"] in ("map", "flatmap", "interleave", "filter") for stage in before):
            return None  # what fills the buffer is cheap: it stands where it should
        firsts = region.first_waits
        refill = data.beginning
        if refill < 0.5 * data.training_wait or not case.matters(refill, 0.05):
            return None
        where = line_of(shuffles[-1])
        # What could be kept from epoch to epoch is better kept than moved.
        maps = [stage for stage in before if stage["kind"] == "map"]
        same = maps and not any(stage.get("random") or stage.get("python") for stage in maps)
        kept = any(stage["kind"] == "cache" for stage in data.pipeline)
        waits = bool(data.python) and not data.computes
        unused = self._unused(data)
        return Cause(
            says=f"Each epoch begins by filling the shuffle buffer, {words.seconds(refill / firsts.count)} long.",
            where=where,
            evidence=(
                took("waited for the first batch of an epoch", firsts.seconds / firsts.count),
                took("waited for any other batch", data.usual_wait),
            ),
            # What computes must still be done, beside the steps, and takes processors from them; unless most of what
            # fills the buffer is never used.
            saves=case.saves(max(0.85 * waits, unused) * refill)
            if waits or unused >= 0.5
            else (0.1 * refill, 0.85 * refill),
            remedy="Shuffle before the expensive maps (names or indices, not loaded data), or shrink the buffer.",
            rank=RepeatedPreprocessing.rank + 1 if same and not kept else None,
            claims=data.claims,
            shares=data.shares,
        )

    def _unused(self, data: Input) -> float:
        """The share of the elements in the buffer that no batch of an epoch takes, where a `take` ends it early."""
        stage = next((each for each in data.native if each.name == "Shuffle"), None)
        if stage is None or not stage.buffered:
            return 0.0
        drawn = (stage.elements_per_batch or 0.0) * data.batches / data.region.first_waits.count
        return max(0.0, 1 - drawn / stage.buffered)


RULES = (
    SequentialMap(),
    MissingPrefetch(),
    ShuffleRefill(),
)
