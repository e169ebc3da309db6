"""Causes in the input that lie in how a tf.data pipeline is put together."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from fitscope import words
from fitscope.effects import state_of
from fitscope.model import Evidence, Stage, Where
from fitscope.pipelines import Chain, Link
from fitscope.rules.case import Case, Input, counted, seconds_of, share, took
from fitscope.rules.input import BATCHES, InputRule, line_of, map_of
from fitscope.rules.rule import Cause, Hit, example
from fitscope.source import Script
from fitscope.syntax import listed

PARALLEL_CALLS = 16
WORTH_KEEPING = 0.3
"""The share of a training that waits for a loading function, from which on its results are worth the memory."""
BEHIND_ITS_CODE = 63
"""A rank behind those of causes in how a loading function is written (`loading.py`)."""
NEW_VALUES = listed("beta normal rand randn random standard_normal uniform")
"""What draws other values for every epoch, not another order of the same."""


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


class RepeatedPreprocessing(InputRule):
    """Work that always gives the same result is done again in every epoch.

    Decoding, parsing and resizing the same files gives the same arrays each time. With `cache` it is done in
    the first pass only.

    fitscope says so when the training waits for data, the slowest stage neither draws random numbers nor calls
    Python, nothing caches its result, and the data is gone through more than once; or when the `__getitem__` of a
    PyDataset or a torch Dataset computes for most of that time, it is 30 % of the training, and the source shows that
    each call stands for itself.

    Change: `.cache()` behind the last deterministic stage and before the random ones, if the result fits into
    memory (or `.cache(filename)`). `fitscope.materialize(dataset, folder)` does it once for all trainings, on disk.
    What a `__getitem__` computes is computed once in `__init__`, or kept.
    """

    code = "FS105"
    name = "repeated-preprocessing"
    rank = 40
    fixable = True
    examples = (example("repeated-preprocessing", line="data = tf.data.Dataset.from_tensor_slices((blobs"),)

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """The slowest stage is deterministic, nothing caches it, and it runs in every pass."""
        if data.source in ("PyDataset", "DataLoader"):
            return self._of_loader(case, data)
        written = _slowest_written(data)
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
            shares=data.shares,
        )

    def _of_loader(self, case: Case, data: Input) -> Cause | None:
        """A loading function computes the same in every pass. That its code is slow is the narrower cause."""
        function = data.function
        if function is None or not data.computes or data.passes < 2 or not case.matters(data.wait, WORTH_KEEPING):
            return None
        if not _stands_for_itself(case, function):
            return None
        return Cause(
            says=f"{function.name} computes the same {data.passes:,.0f} times over, once in every epoch.",
            where=function.where,
            evidence=(*data.evidence(), counted("passes over the data", data.passes)),
            saves=case.saves(data.saved(1 / data.passes)),
            remedy=(
                "Compute it once, in __init__ or at the first call, and keep it if it fits into memory; "
                "fitscope.materialize(dataset, folder) keeps it on disk."
            ),
            claims=data.claims,
            shares=data.shares,
            rank=BEHIND_ITS_CODE,
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


def _stands_for_itself(case: Case, stage: Stage) -> bool:
    """Whether the source of a loading method shows that it gives the same for the same item in every epoch."""
    script = case.script_of(stage.where.file) if stage.where is not None else None
    if script is None or stage.where is None:
        return False
    function = next((each for each in script.functions if each.lineno == stage.where.line), None)
    owner = script.class_of(function) if function is not None else None
    if owner is None or state_of(script, function) is not None:
        return False
    between = script.methods(owner).get("on_epoch_end")
    drawn = [script.called(call).rpartition(".")[2] for call in script.own_calls(between)] if between else []
    return not any(name in NEW_VALUES for name in drawn)


def _slowest_written(data: Input) -> dict[str, Any]:
    """What was written for the slowest stage; for a shuffle the map that fills it, and is gone once all is read."""
    fills = data.slowest is None and data.beginning >= 0.5 * data.training_wait
    if not fills and (data.slowest is None or data.slowest.name != "Shuffle"):
        return data.written(data.slowest)
    kinds = [stage["kind"] for stage in data.pipeline]
    before = data.pipeline[: kinds.index("shuffle")] if "shuffle" in kinds else []
    return next((stage for stage in reversed(before) if stage["kind"] == "map"), {})


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
    deterministic one behind it, or one before it that a `take` keeps at work in every pass; or, from the source, when
    a random map stands before it.

    Change: put `.cache()` directly behind the last expensive deterministic stage, before shuffling and random
    stages.
    """

    code = "FS106"
    name = "misplaced-cache"
    rank = 20
    fixable = True
    examples = (example("misplaced-cache", line="data = tf.data.Dataset"),)

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A cache with the slowest, deterministic stage behind it."""
        kinds = [stage["kind"] for stage in data.pipeline]
        written = _slowest_written(data)
        if "cache" not in kinds or written not in data.pipeline or data.function is not None or data.passes < 2:
            return None
        cache = len(kinds) - 1 - kinds[::-1].index("cache")
        index = data.pipeline.index(written)
        if index < cache and "take" in kinds[cache:]:
            return self._cut_short(case, data, data.pipeline[cache])
        if index < cache or written["kind"] != "map" or written.get("random"):
            return None
        between = data.pipeline[cache + 1 : index]
        if any(stage.get("random") for stage in between):
            return None  # a cache behind it would freeze what is random
        shuffled = any(stage["kind"] == "shuffle" for stage in between)
        if shuffled and not {stage["kind"] for stage in between} <= {"map", "shuffle"}:
            return None  # whole batches are made of what was shuffled, and a cache would keep them as they are
        return Cause(
            says="The cache stands before the expensive work, so that work is done again in every epoch.",
            where=line_of(data.pipeline[cache]),
            evidence=(*data.evidence(), counted("passes over the data", data.passes)),
            saves=case.saves(data.saved(1 / data.passes)),
            remedy=(
                "Shuffle behind the map, and put .cache() between the two."
                if shuffled
                else "Move .cache() behind the last expensive map that is not random."
            ),
            claims=data.claims,
            shares=data.shares,
        )

    def _cut_short(self, case: Case, data: Input, cache: dict[str, Any]) -> Cause | None:
        """A cache that ought to have replaced the slowest stage after the first pass, and has not."""
        worked = data.at_work(data.slowest) if data.slowest is not None else 0.0
        if worked < 0.5 + 0.5 / data.passes:
            return None
        return Cause(
            says="The cache is never complete: a take behind it ends every pass early, and all is loaded again.",
            where=line_of(cache),
            evidence=(
                *data.evidence(),
                counted("passes over the data", data.passes),
                share("of the batches were loaded anew, past the cache", worked),
            ),
            saves=case.saves(data.saved(1 / data.passes)),
            remedy="Put .take(…) before .cache(), so that the first pass fills it.",
            claims=data.claims,
            shares=data.shares,
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


class OversizedRecords(InputRule):
    """Much is read and decoded of which little is used.

    Reading a whole scan to cut a small window out of it costs the whole scan.

    fitscope says so when the training waits for data and the elements of a map before the batching, or what its
    function decodes to cut a window out of it, are at least eight times as large as what the model gets; or when most
    looks at a loading function found it in `np.load`, and nothing but windows are cut out of what that reads, or
    single rows of an array in an `.npz` archive.

    Change: store what is used (tiles instead of scans), decode only the window
    (`tf.image.decode_and_crop_jpeg`, `np.load(…, mmap_mode="r")`), or cache the decoded records.
    """

    code = "FS111"
    name = "oversized-records"
    rank = 22
    fixable = True
    examples = (
        example(
            "oversized-records",
            line="data = tf.data.Dataset.from_tensor_slices(scans).map(parse)",
            backends=("tensorflow",),
        ),
        example("oversized-records", 1, line="recording = np.load("),
        example("oversized-records", 2, line="data = tf.data.Dataset.from", backends=("tensorflow",)),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A stage whose elements are far larger than what is used of them, or a function that reads such files."""
        line = data.hot_line
        if data.function is not None and line is not None and line.share >= 0.5 and _cuts_out(case, line.where):
            return Cause(
                says=f"Whole files are read of which only a window is used: {data.function.name}.",
                where=line.where,
                evidence=(*data.evidence(), share("of the looks found it reading them", line.share)),
                saves=case.saves(data.saved(1 - 0.95 * line.share)),
                remedy='Read the window only (np.load(…, mmap_mode="r") of an .npy file), or store what is used.',
                claims=data.claims,
                shares=data.shares,
            )
        kinds = [stage["kind"] for stage in data.pipeline]
        end = kinds.index("batch") if "batch" in kinds else len(kinds)
        maps = [stage for stage in data.pipeline[:end] if stage["kind"] == "map"]
        before = [(max(stage.get("bytes") or 0, stage.get("cut") or 0), stage) for stage in maps]
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
            shares=data.shares,
        )


def _cuts_out(case: Case, where: Where) -> bool:
    """Whether a line reads a whole array from a file, of which its function then uses windows only."""
    script = case.script_of(where.file)
    if script is None:
        return False
    for function in script.functions:
        if any(_takes_part(script, node, function) for node in ast.walk(function) if _is_at(node, where.line)):
            return True
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign) or not node.lineno <= where.line <= (node.end_lineno or node.lineno):
                continue
            target, call = node.targets[0], node.value
            if not isinstance(target, ast.Name) or not isinstance(call, ast.Call):
                continue
            if script.called(call) != "numpy.load" or script.argument(call, "mmap_mode", 1) is not None:
                continue
            uses = [each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == target.id]
            read = [script.parents.get(each) for each in uses if isinstance(each.ctx, ast.Load)]
            windows = (isinstance(each, ast.Subscript) and _is_window(script, each.slice) for each in read)
            return bool(read) and all(windows)
    return False


def _is_at(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.Subscript) and node.lineno <= line <= (node.end_lineno or node.lineno)


def _takes_part(script: Script, node: ast.AST, function: ast.AST) -> bool:
    """`archive["scans"][k]` of an `np.load`: the array is read and decompressed as a whole, for one row of it."""
    inner = node.value if isinstance(node, ast.Subscript) else None
    if not isinstance(node, ast.Subscript) or not isinstance(inner, ast.Subscript):
        return False
    archive = inner.value.id if isinstance(inner.value, ast.Name) else None
    if archive is None or not _is_archive(script, archive, function):
        return False
    line = [each for each in ast.walk(function) if isinstance(each, ast.Subscript) and each.lineno == node.lineno]
    read = [each for each in line if isinstance(each.value, ast.Name) and each.value.id == archive]
    outer = [script.parents.get(each) for each in read]
    named = all(isinstance(script.literal(each.slice), str) for each in read)
    return named and all(isinstance(each, ast.Subscript) and _is_part(script, each.slice) for each in outer)


def _is_archive(script: Script, name: str, function: ast.AST) -> bool:
    """Whether a name stands for the file that an `np.load` opens, not mapped into memory."""
    for each in ast.walk(function):
        made: ast.expr | None = None
        if isinstance(each, ast.withitem) and isinstance(each.optional_vars, ast.Name):
            made = each.context_expr if each.optional_vars.id == name else None
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            made = each.value if each.targets[0].id == name else None
        if isinstance(made, ast.Call) and script.called(made) == "numpy.load":
            return script.argument(made, "mmap_mode", 1) is None
    return False


def _is_part(script: Script, index: ast.expr) -> bool:
    """`[3]`, `[k]` of a parameter or a loop, `[a:b]`; not `[None]`, `[:-1]`, `[order]`, which take all or most."""
    for part in index.elts if isinstance(index, ast.Tuple) else [index]:
        number = type(script.literal(part)) is int
        counts = isinstance(part, ast.Name) and not script.values(part)
        if number or counts:
            return True
    return _is_window(script, index)


def _is_window(script: Script, index: ast.expr) -> bool:
    """`[a:b]` or `[a:b, c:]`, also as a `slice(a, b)` with a name of its own; not `[1:]`, which takes most, and not
    `[k]`, which may be a name in an archive."""
    for part in index.elts if isinstance(index, ast.Tuple) else [index]:
        named = script.values(part) or [part]
        bounds = [
            [each.lower, each.upper] if isinstance(each, ast.Slice) else _bounds(script, each) for each in named
        ]
        if all(len(ends) >= 2 and None not in ends for ends in bounds):
            return True
    return False


def _bounds(script: Script, made: ast.expr) -> list[ast.expr | None]:
    """Where a `slice(a, b)` begins and ends, as far as it says so."""
    if not isinstance(made, ast.Call) or script.called(made) != "slice":
        return []
    return [None if isinstance(end, ast.Constant) and end.value is None else end for end in made.args[:2]]


RULES = (
    SequentialMap(),
    MissingPrefetch(),
    RepeatedPreprocessing(),
    MisplacedCache(),
    ShuffleRefill(),
    OversizedRecords(),
)
