"""Causes in the input that lie in what is computed again though it could be kept."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fitscope.effects import changes_in_place, changes_outside, set_later, state_of
from fitscope.model import Stage, Where
from fitscope.names import COMPREHENSIONS, Function, listed
from fitscope.pipelines import Chain, Link
from fitscope.rules.case import FEW_LOOKS, LEAST_WAIT, Case, Input, counted, share
from fitscope.rules.input import InputRule, line_of
from fitscope.rules.rule import Cause, Hit, example
from fitscope.source import Script

WORTH_KEEPING = 0.3
"""The share of a training that waits for a loading function, from which on its results are worth the memory."""
BEHIND_ITS_CODE = 63
"""A rank behind those of causes in how a loading function is written (`loading.py`) …"""
BEFORE_ITS_CODE = 44
"""… and one before, also before more workers: what works on images or whole arrays cannot be written otherwise."""
MOST_LOOKS = 0.6
"""The share of the looks at a loading method that found it in a function whose results are worth keeping."""
OF_ITEMS = ("enumerate", "int", "len", "os.path.join", "range", "str", "zip")
ITS_NUMBER = ""
"""In the place of the name of a list: the number that a loading method is asked for says which item it is."""
ONE_DRAWN = listed("choice integers randint randrange")
"""What draws one number or item, unless it is asked for several."""
SELDOM_AGAIN = 0.6
"""The share of draws that are new, up to which items that are drawn at random are worth keeping."""
NEW_VALUES = listed("beta normal rand randn random standard_normal uniform")
"""What draws other values for every epoch, not another order of the same."""


class RepeatedPreprocessing(InputRule):
    """Work that always gives the same result is done again in every epoch.

    Decoding, parsing and resizing the same files gives the same arrays each time. With `cache` it is done in
    the first pass only.

    fitscope says so when the training waits for data, the slowest stage neither draws random numbers nor calls
    Python, nothing caches its result, and the data is gone through more than once; or when the `__getitem__` of a
    PyDataset or a torch Dataset computes for most of that time, it is 30 % of the training, and the source shows that
    each call stands for itself, or each call of a function in which most looks found it. Items that are drawn at
    random count if the dataset holds far fewer than are drawn.

    Change: `.cache()` behind the last deterministic stage and before the random ones, if the result fits into
    memory (or `.cache(filename)`). `fitscope.materialize(dataset, folder)` does it once for all trainings, on disk.
    What a `__getitem__` computes is computed once in `__init__`, or kept.
    """

    code = "FS105"
    name = "repeated-preprocessing"
    rank = 40
    fixable = True
    examples = (
        example("repeated-preprocessing", line="data = tf.data.Dataset.from_tensor_slices((blobs"),
        example("repeated-preprocessing", 1, line="return spectrum(signal)[", backends=("jax",), estimable=False),
    )

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
        again = _inside(case, data, function)
        if _stands_for_itself(case, function):
            again = _Again(function.name, function.where, 1.0, 1 / data.passes)
        if again is None:
            return None
        how = f"the same {data.passes:,.0f} times over, once in every epoch"
        evidence = [*data.evidence(), counted("passes over the data", data.passes)]
        if again.items:
            how = f"the same again and again, for items that are drawn out of {again.items:,}"
            evidence.append(share("of what it draws is new", again.new))
        if again.part < 1:
            evidence.append(share(f"of the looks at the loading code found it in {again.name}", again.part))
        return Cause(
            says=f"{again.name} computes {how}.",
            where=again.where,
            evidence=tuple(evidence),
            saves=case.saves(data.saved(1 - again.part * (1 - again.new))),
            remedy=(
                "Compute it once, in __init__ or at the first call, and keep it if it fits into memory; "
                "fitscope.materialize(dataset, folder) keeps it on disk."
            ),
            claims=data.claims,
            shares=data.shares,
            rank=BEFORE_ITS_CODE if _cannot_be_written_otherwise(case, data) else BEHIND_ITS_CODE,
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


def _cannot_be_written_otherwise(case: Case, data: Input) -> bool:
    """Whether a loading function works on images or whole arrays, not on one value after the other, and often."""
    line = data.hot_line
    return data.passes >= 3 and line is not None and (line.doing == "images" or not case.in_loop(line.where))


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


@dataclass(frozen=True)
class _Again:
    """Code of the script that gives the same for the same item, and is called for each more than once."""

    name: str
    where: Where | None
    part: float
    """The share of the looks at the loading method that found it there."""
    new: float
    """The share of its calls that are for an item for the first time."""
    items: int = 0
    """How many items there are, if they are drawn at random."""


def _inside(case: Case, data: Input, stage: Stage) -> _Again | None:
    """What most looks found a loading method in, if it is the same again; what is done beside it may be random."""
    script = case.script_of(stage.where.file) if stage.where is not None else None
    total = sum(line.samples for line in data.looked_at)
    if script is None or stage.where is None or total < FEW_LOOKS:
        return None
    method = next((each for each in script.functions if each.lineno == stage.where.line), None)
    known = dict.fromkeys(script.parameters(method), (ITS_NUMBER,)) if method is not None else {}
    for call, drawn in _calls_for_items(script, method, known) if method is not None else ():
        called = _goes_through(script, call)
        spans = [(each.lineno, each.end_lineno or each.lineno) for each in called]
        here = [line for line in data.looked_at if line.where.file == stage.where.file]
        found = [line for line in here if any(first <= line.where.line <= last for first, last in spans)]
        seen = sum(line.samples for line in found)
        items, new = _new_ones(case, data, drawn) if drawn else (0, 1 / data.passes)
        if seen < MOST_LOOKS * total or new > SELDOM_AGAIN:
            continue
        if not any(state_of(script, each) or changes_outside(script, each) for each in called):
            owner = script.class_of(called[0])
            name = f"{owner.name}.{called[0].name}" if owner is not None else called[0].name
            return _Again(name, Where(stage.where.file, call.lineno), seen / total, new, items)
    return None


def _calls_for_items(
    script: Script, function: Function, known: Mapping[str, tuple[str, ...]], depth: int = 2
) -> Iterator[tuple[ast.Call, str | None]]:
    """The calls that a loading method makes, itself and through others, with nothing but what belongs to one item.

    With each goes what that item is drawn out of at random, if it is. `known`: what is known of the parameters.
    """
    for call in script.own_calls(function):
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(call.func, ast.Attribute) and script.dotted(call.func) is None:
            given.append(call.func.value)
        chosen = _all_chosen(_chosen_by(script, each, known) for each in given)
        drawn = [each for each in chosen or () if each != ITS_NUMBER]
        if chosen is not None and (not drawn or len(chosen) == 1):  # pairs of items are more than there are items
            yield call, next(iter(drawn), None)
        inner = script.function(call.func)
        if inner is None or inner is function or not depth:
            continue
        passed = [(name, script.argument(call, name, at)) for at, name in enumerate(script.parameters(inner))]
        origins = {name: _chosen_by(script, value, known) for name, value in passed if value is not None}
        items = {name: origin for name, origin in origins.items() if origin is not None}
        yield from _calls_for_items(script, inner, items, depth - 1) if items else ()


def _all_chosen(parts: Iterable[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """What all parts together are chosen by; None if one of them does not belong to an item."""
    chosen: tuple[str, ...] = ()
    for part in parts:
        if part is None:
            return None
        chosen += part
    return chosen


def _chosen_by(
    script: Script, node: ast.AST, known: Mapping[str, tuple[str, ...]], depth: int = 4
) -> tuple[str, ...] | None:
    """What says which value this is: the number of the item, or the attributes that it is picked out of at random.

    Nothing says it of a constant. None if it does not belong to an item, or nobody knows.
    """
    if isinstance(node, ast.Name):
        return _all_chosen(
            known.get(node.id, () if node.id in ("self", "cls") else None)
            if each.how == "parameter"
            else _chosen_by(script, each.value, known, depth - 1)
            if each.how in ("assign", "loop") and each.value is not None and depth
            else None
            for each in script.bindings(node)
            if script.function_of(each.node) is not None
        )
    picked = _picked_out_of(script, node)
    if picked is not None and not set_later(script, picked) and not _other_items(script, picked.attr):
        return (picked.attr,)
    if isinstance(node, COMPREHENSIONS) or (isinstance(node, ast.Call) and script.called(node) not in OF_ITEMS):
        return None
    if isinstance(node, ast.Attribute) and set_later(script, node):
        return None
    inside = (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr | ast.keyword))
    return _all_chosen(_chosen_by(script, each, known, depth) for each in inside)


def _picked_out_of(script: Script, node: ast.AST) -> ast.Attribute | None:
    """`self.files` of `self.files[k]`, where k is drawn or one of a batch, and of `random.choice(self.files)`."""
    if isinstance(node, ast.Call) and _draws_one(script, node):
        return _own_attribute(node.args[0])
    if not isinstance(node, ast.Subscript):
        return None
    index = node.slice
    bindings = script.bindings(index) if isinstance(index, ast.Name) else []
    one = bool(bindings) and all(
        each.how == "loop" or (each.how == "assign" and each.value is not None and _draws_one(script, each.value))
        for each in bindings
    )
    return _own_attribute(node.value) if one or _draws_one(script, index) else None


def _own_attribute(node: ast.AST) -> ast.Attribute | None:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node
    return None


def _draws_one(script: Script, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or script.called(node).rpartition(".")[2] not in ONE_DRAWN:
        return False
    most = 1 if script.called(node).endswith("choice") else 2
    return 1 <= len(node.args) <= most and not node.keywords


def _other_items(script: Script, name: str) -> bool:
    """Whether a list that an object keeps gets other items later on; another order is nothing new."""
    for node, changed in changes_in_place(script):
        what = changed
        while isinstance(what, ast.Subscript):
            what = what.value
        reorders = isinstance(node, ast.Call) and script.called(node).rpartition(".")[2] in ("shuffle", "sort")
        later = getattr(script.function_of(node), "name", "") != "__init__"
        if isinstance(what, ast.Attribute) and what.attr == name and later and not reorders:
            return True
    return False


def _new_ones(case: Case, data: Input, drawn: str) -> tuple[int, float]:
    """How many items there are to draw from, and the share of all draws that is new; all, where that is not known."""
    for fact in case.facts("items", data.region):
        size = fact["sizes"].get(drawn)
        if size:
            draws = max(1, fact["rows"] * data.region.steps)
            return size, size * (1 - math.exp(-draws / size)) / draws
    return 0, 1.0


def _goes_through(script: Script, call: ast.Call) -> list[ast.FunctionDef]:
    """The functions of the script that a call goes through; methods of objects that nobody knows are told by name."""
    found: list[ast.FunctionDef] = []
    waiting = [call]
    while waiting:
        func = waiting.pop().func
        inner = script.function(func)
        named = [inner] if inner is not None else []
        if inner is None and isinstance(func, ast.Attribute) and script.dotted(func) is None:
            methods = [each for each in script.functions if script.class_of(each) is not None]
            named = [each for each in methods if getattr(each, "name", "") == func.attr]
        for each in named:
            if isinstance(each, ast.FunctionDef) and each not in found:
                found.append(each)
                waiting += script.own_calls(each)
    return found


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
    `steps_per_epoch`), or never ends (a `repeat` without end before it), is never completed and never used.

    fitscope says so when the training waits for data, the pipeline has a `cache`, and the slowest stage is a
    deterministic one behind it, or one before it that a `take` or an endless `repeat` keeps at work in every pass;
    or, from the source, when a random map stands before it.

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
        if _is_endless(data.pipeline, kinds):
            cache = kinds.index("cache")
            behind = data.pipeline[cache:]
            # Of what is repeated only one pass is seen, so the slow stage may be unknown: none may be behind it then.
            if written in data.pipeline[:cache] or not (written or any("python" in stage for stage in behind)):
                return self._never_read(case, data, data.pipeline[cache])
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

    def _never_read(self, case: Case, data: Input, cache: dict[str, Any]) -> Cause | None:
        """A cache of data that has no end: it grows all along, and every epoch is loaded anew."""
        region = data.region
        if (
            region.epochs < 2
            or data.function is not None
            or not case.matters(data.usual_wait * region.steps, LEAST_WAIT)
        ):
            return None
        return Cause(
            says="The cache is never read: the data before it is repeated without end, so that it is never complete.",
            where=line_of(cache),
            evidence=(*data.evidence(), counted("epochs", region.epochs)),
            saves=case.saves(data.saved(1 / region.epochs)),
            remedy="Put .cache() before .repeat(): the first pass fills it, and then it takes no more memory.",
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


def _is_endless(pipeline: list[dict[str, Any]], kinds: list[str]) -> bool:
    """Whether a pipeline repeats its data without end, and keeps it only behind that."""
    before = pipeline[: kinds.index("cache")] if "cache" in kinds else []
    return any(stage["kind"] == "repeat" and (stage.get("size") or 0) < 0 for stage in before)


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


RULES = (RepeatedPreprocessing(), MisplacedCache())
