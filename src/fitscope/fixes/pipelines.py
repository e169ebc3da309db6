"""Edits of tf.data pipelines: what runs at once, what is kept, and in which order."""

from __future__ import annotations

import ast

from fitscope import words
from fitscope.effects import reached, state_of
from fitscope.fixes.draft import Draft, Unsure
from fitscope.fixes.kind import Kind, Place, only
from fitscope.fixes.sameness import differs
from fitscope.model import Edit
from fitscope.pipelines import Chain, Link
from fitscope.rules.tfdata import PARALLEL_CALLS, WOULD_HELP
from fitscope.source import INTO_PYTHON, Script

ONE_TO_ONE = ("map",)
VARIABLES = ("keras.Variable", "tensorflow.Variable")
FITS = 0.4
"""Of the machine's memory, what a cache may take."""


def links_at(place: Place, *names: str) -> list[tuple[Chain, Link]]:
    """The methods of these names at the finding's line, else in its statement."""
    found = list(place.script.links(*names))
    here = [(chain, link) for chain, link in found if link.line == place.line]
    first, last = place.script.statement_at(place.line)
    return here or [(chain, link) for chain, link in found if first <= link.line <= last]


def enters_python(script: Script, link: Link) -> bool:
    """Whether a map leaves the graph for Python code."""
    return any(script.called(call) in INTO_PYTHON for call in script.calls_of(script.mapped(link)))


def changes_between_passes(script: Script, link: Link) -> str | None:
    """Why a method may give other elements in another pass over the same data; None if it surely does not."""
    if link.name == "map":
        mapped = script.mapped(link)
        if mapped is None:
            return "the code of a map is out of sight"
        if script.is_random(link):
            return "a map draws random numbers"
        if any(_is_variable(script, node) for each in reached(script, mapped) for node in script.own(each)):
            return "a map reads a variable"
        first = min((call.lineno for call in script.model_calls("fit")), default=10**9)
        return differs(script, script.python_of(link), first) if enters_python(script, link) else None
    if link.name == "shuffle":
        again = script.literal(script.argument(link.node, "reshuffle_each_iteration", 2))
        return None if again is False else "a shuffle has another order in every pass"
    if link.name == "list_files":
        return None if script.literal(script.argument(link.node, "shuffle", 1)) is False else "list_files shuffles"
    if link.name == "from_generator":
        function = script.generator(script.argument(link.node, "generator", 0))
        calls = script.calls_of(function) if function is not None else []
        drawn = any("random" in script.called(call) or "rng" in ast.unparse(call.func) for call in calls)
        return "a generator may give other elements in every pass" if function is None or drawn else None
    if link.name in ("apply", "interleave", "flat_map", "filter", "image_dataset_from_directory", "load"):
        return f"{link.name} may give other elements in another pass"
    return None


def _is_variable(script: Script, node: ast.AST) -> bool:
    """Whether a node is the name of a variable of TensorFlow or Keras, whose value others change."""
    made = script.values(node) if isinstance(node, ast.Name | ast.Attribute) else []
    return any(isinstance(each, ast.Call) and script.called(each) in VARIABLES for each in made)


class ParallelMap(Kind):
    """Several calls of a `map` at once, in the order of one at a time."""

    causes = ("sequential-map",)

    def edit(self, place: Place) -> Edit:
        """num_parallel_calls, and for a map that waits as many threads."""
        script = place.script
        found = [(chain, link) for chain, link in links_at(place, "map") if script.is_sequential(link)]
        python = [pair for pair in found if enters_python(script, pair[1])]
        random = [pair for pair in found if script.is_random(pair[1])]
        chain, link = only(python or random or found, "map at this place that runs one element at a time")
        draft = place.draft()
        waits = enters_python(script, link)
        number = next(
            (round(each.value) for each in place.finding.evidence if each.what == WOULD_HELP), PARALLEL_CALLS[0]
        )
        calls = str(number) if waits else draft.name("tensorflow.data.AUTOTUNE", link.node)
        given = script.argument(link.node, "num_parallel_calls", 1)
        if given is not None:
            draft.replace(given, calls)
        else:
            draft.set_keyword(link.node, "num_parallel_calls", calls)
        does = f"map runs {calls.rpartition('.')[2]} calls at once and keeps the order"
        if waits and not any(each.name == "with_options" for each in chain.links):
            self._threads(draft, link, number)
            does += ", in threads of its own"
        return place.edit(draft, does, self._risk(script, link))

    @staticmethod
    def _threads(draft: Draft, link: Link, number: int) -> None:
        """A thread for each call: tf.data has no more of them than there are processors."""
        options = draft.free_name("options", "input_options", "pipeline_options")
        draft.insert_before(
            link.node,
            f"{options} = {draft.name('tensorflow.data.Options', link.node)}()",
            f"{options}.threading.private_threadpool_size = {number}",
        )
        draft.chain(link.node, f".with_options({options})")

    @staticmethod
    def _risk(script: Script, link: Link) -> str:
        if script.mapped(link) is None:
            return "the code of the map is out of sight: it may depend on the order of its calls"
        if enters_python(script, link):
            reason = state_of(script, script.python_of(link))
            if reason is not None:
                return f"its Python function runs in several threads, and {reason}"
        if script.is_random(link):
            return "the same random numbers go to other elements"
        return ""


class Prefetch(Kind):
    """The next batch is prepared while the training computes."""

    causes = ("missing-prefetch",)

    def edit(self, place: Place) -> Edit:
        """A prefetch at the end of the pipeline."""
        found = links_at(place, "with_options") or links_at(
            place, *{link.name for chain in place.script.chains() for link in chain.links}
        )
        if not found:
            raise Unsure("the pipeline is put together out of sight")
        chain = max((chain for chain, _ in found), key=lambda each: len(each.links))
        draft = place.draft()
        last = chain.links[-1].node
        draft.chain(last, f".prefetch({draft.name('tensorflow.data.AUTOTUNE', last)})")
        return place.edit(draft, "a prefetch at the end prepares the next batch during the step")


class Cache(Kind):
    """What a deterministic `map` gives is kept in memory after the first pass."""

    causes = ("repeated-preprocessing", "oversized-records", "python-in-pipeline", "per-example-work", "slow-storage")

    def edit(self, place: Place) -> Edit:
        """A cache right behind the map."""
        script = place.script
        found = [pair for pair in links_at(place, "map") if changes_between_passes(script, pair[1]) is None]
        if place.finding.name not in ("repeated-preprocessing", "oversized-records"):
            found = self._in_python(place)
        decoding = [pair for pair in found if script.decodes(pair[1])]
        chain, link = only(decoding or found, "map at this place that always gives the same")
        shuffles = self._before(script, chain, link)
        for other in script.chains():
            if link in other.links and {"take", "cache", "snapshot"} & {each.name for each in other.after(link)}:
                raise Unsure("a take or a cache stands behind it")
        for _, call in place.fit_calls():
            if any(keyword.arg == "steps_per_epoch" for keyword in call.keywords):
                raise Unsure(
                    "with steps_per_epoch a pass may end early, and a cache is used only once it is complete"
                )
        size = check_size(place, link)
        draft = place.draft()
        others = self._others(place, link)
        for each in shuffles:
            draft.unchain(each.node)
        draft.chain(link.node, ".cache()" + "".join(draft.method(each.node) for each in shuffles))
        for each in others:
            draft.chain(each.node, ".cache()")
        price = f"up to {words.size(size)} of memory" if size is not None else "memory for all of its results"
        more = ", and more for the validation" if others else ""
        more += "; the shuffle stands behind it, with the same order" if shuffles else ""
        return place.edit(draft, f"the map runs once, and its results are kept: {price}{more}")

    @staticmethod
    def _before(script: Script, chain: Chain, link: Link) -> list[Link]:
        """The shuffles that have to go behind a cache at a map; raises Unsure where something else is to change."""
        shuffles: list[Link] = []
        for each in reversed(chain.before(link)):
            reason = changes_between_passes(script, each)
            if reason is None and each.name == "repeat":
                reason = "the pipeline is repeated before it"
            if reason is not None and each.name == "shuffle" and each.sure and link.sure:
                between = chain.links[chain.links.index(each) + 1 : chain.links.index(link)]
                if all(one.name in (*ONE_TO_ONE, "shuffle") and one.sure for one in between):
                    shuffles.insert(0, each)
                    continue
            if reason is not None:
                raise Unsure(f"a cache here would keep what is to change: {reason}")
        if shuffles:
            MoveCache.check_shuffles(script, chain, link, shuffles, link)
        return shuffles

    @staticmethod
    def _in_python(place: Place) -> list[tuple[Chain, Link]]:
        """The maps that leave the graph for the Python code of the finding, and always give the same."""
        script = place.script
        if (place.passes() or 0) < 2:
            raise Unsure("how often the training goes through its data cannot be told, or it does so once")
        inside = place.function()
        here = {link.node for _, link in links_at(place, "map")}
        found = {}
        for chain, link in script.links("map"):
            function = script.python_of(link) if enters_python(script, link) else None
            around = function is not None and inside is not None and inside in reached(script, function)
            if function is not None and (around or link.node in here):
                reason = changes_between_passes(script, link)
                if reason is not None:
                    raise Unsure(f"what the map gives cannot be kept: {reason}")
                if place.finding.name == "slow-storage" and script.is_sequential(link):
                    raise Unsure("several calls at once gain more than keeping their results")
                found[link.node] = (chain, link)
        return list(found.values())

    @staticmethod
    def _others(place: Place, link: Link) -> list[Link]:
        """Maps with the same function in the pipeline of the validation, which may be kept as well."""
        script, function = place.script, place.script.mapped(link)
        given = [script.argument(call, "validation_data") for _, call in place.fit_calls()]
        names = {each.id for each in given if isinstance(each, ast.Name)}
        steps = any(script.argument(call, "validation_steps") is not None for _, call in place.fit_calls())
        found: list[Link] = []
        for chain in script.chains() if names and not steps and function is not None else ():
            if link in chain.links or {"take", "cache", "snapshot", "repeat"} & {each.name for each in chain.links}:
                continue
            parent = script.parents.get(chain.links[-1].node)
            validates = isinstance(parent, ast.Assign) and {ast.unparse(each) for each in parent.targets} & names
            alike = [
                each for each in chain.links if each.sure and each.name == "map" and script.mapped(each) is function
            ]
            for each in alike[:1] if validates else ():
                changing = any(changes_between_passes(script, other) for other in (*chain.before(each), each))
                found += [] if changing or each in found else [each]
        return found


def check_size(place: Place, link: Link) -> int | None:
    """The bytes that a cache behind a map takes at most, where the run shows it; raises Unsure if they do not fit."""
    size = _bytes(place, link)
    memory = int(place.project.run.machine.get("memory_bytes") or 0) if place.project.run is not None else 0
    if size is not None and memory and size > FITS * memory:
        raise Unsure(
            f"its results may take {words.size(size)} of memory, and the machine has {words.size(memory)}: "
            "fitscope.materialize(dataset, folder) keeps them on disk"
        )
    return size


def _bytes(place: Place, link: Link) -> int | None:
    """An upper bound of what the cache takes, where the run shows it."""
    run = place.project.run
    if run is None:
        return None
    for root, stages in run.stages.items():
        called = run.called.get(root)
        for fact in run.facts:
            if fact["fact"] != "pipeline" or fact.get("root") != root or called is None:
                continue
            for stage in fact["stages"]:
                where = stage.get("made") or stage.get("where")
                if stage["kind"] != "map" or where is None or where.line != link.line or not stage.get("bytes"):
                    continue
                each = [
                    item.elements_per_batch
                    for item in stages
                    if item.where in (where, stage.get("where")) and item.elements_per_batch
                ]
                if each:
                    passes = max(1, called.epochs)
                    return round(int(stage["bytes"]) * max(each) * called.steps / passes)
    return None


class MoveCache(Kind):
    """A `cache` stands where it saves the work and freezes nothing."""

    causes = ("misplaced-cache",)

    def edit(self, place: Place) -> Edit:
        """The same cache at another place of the pipeline."""
        script = place.script
        chain, link = only(links_at(place, "cache"), "cache at this place")
        if not link.sure:
            raise Unsure("the cache stands below a condition")
        before, after = chain.before(link), chain.after(link)
        draft = place.draft()
        written = draft.method(link.node)
        random = next((each for each in before if each.name == "map" and script.is_random(each)), None)
        endless = next((each for each in before if each.name == "repeat" and not each.node.args), None)
        if random is not None:
            draft.unchain(link.node)
            draft.chain_before(random.node, written)
            return place.edit(
                draft,
                "the cache stands before the random map",
                "the augmentation is no longer the same in all epochs, as was probably meant",
            )
        if endless is not None:
            if any(changes_between_passes(script, each) for each in before):
                raise Unsure("what the pipeline repeats may differ from pass to pass")
            draft.unchain(link.node)
            draft.chain_before(endless.node, written)
            return place.edit(draft, "the cache stands before the repetition: it is complete after one pass")
        if after and after[0].name == "take":
            if link.node.args or link.node.keywords:
                raise Unsure("a file of this cache may hold other elements")
            self._behind_take(script, draft, link, after)
            changing = next(filter(None, (changes_between_passes(script, each) for each in before)), None)
            frozen = f"what was loaded anew in every pass stays the same now: {changing}" if changing else ""
            does = "the cache keeps what the training takes, and is complete after one pass"
            return place.edit(draft, does, frozen)
        target, shuffles, waiting = None, [], []
        for each in after:
            if each.name == "shuffle" and each.sure:
                waiting.append(each)  # it may follow the cache as well as go before the map
                continue
            if each.name != "map" or not each.sure or changes_between_passes(script, each) is not None:
                break
            target, shuffles = each, list(waiting)
        if target is None:
            raise Unsure("no map that always gives the same follows the cache")
        if shuffles:
            self.check_shuffles(script, chain, link, shuffles, target)
        check_size(place, target)
        for moved in (link, *shuffles):
            draft.unchain(moved.node)
        draft.chain(target.node, written + "".join(draft.method(each.node) for each in shuffles))
        stale = "a file of this cache that an earlier run made holds other elements" if link.node.args else ""
        does = "the cache keeps what the map gives, so that it runs once: that takes memory"
        return place.edit(draft, does, stale)

    @staticmethod
    def _behind_take(script: Script, draft: Draft, link: Link, after: list[Link]) -> None:
        """Puts a cache behind the takes that cut its passes short."""
        if _one_expression(link, after[0]):
            draft.unchain(after[0].node)
            draft.chain_before(link.node, draft.method(after[0].node))
            return
        behind = next((each for each in after if each.name != "take"), None)
        statement = script.parents.get(link.node)
        kept = {ast.unparse(each) for each in statement.targets} if isinstance(statement, ast.Assign) else set()
        names = [node for node in script.parents if isinstance(node, ast.Name | ast.Attribute)]
        others = any(link in chain.links and behind not in chain.links for chain in script.chains()) or any(
            isinstance(name.ctx, ast.Load)
            and ast.unparse(name) in kept
            and not isinstance(script.parents.get(name), ast.Attribute)
            and script.function_of(name) is script.function_of(link.node)
            for name in names
        )
        if behind is None or not behind.sure or others:
            raise Unsure("what follows the take cannot be told from the source")
        draft.chain_before(behind.node, draft.method(link.node))
        draft.unchain(link.node)

    @staticmethod
    def check_shuffles(script: Script, chain: Chain, link: Link, shuffles: list[Link], target: Link) -> None:
        """Raises Unsure where a shuffle cannot go behind the map that follows it."""
        own = {each.node for each in chain.links}
        for call in script.calls:
            inside = any(each in own for each in (call, *script.ancestors(call)))
            if shuffles[0].line < call.lineno < target.line and not inside:
                raise Unsure("what is done before the map may use the shuffle, or draw random numbers before it")
        for other in script.chains():
            if other is not chain and any(each in other.links for each in (link, *shuffles)):
                raise Unsure("another pipeline uses the same cache or shuffle")
        if any("#" in script.lines[(each.node.end_lineno or 1) - 1] for each in shuffles):
            raise Unsure("a comment stands behind the shuffle")
        if {"take", "skip", "repeat"} & {each.name for each in chain.after(link)}:
            raise Unsure("of what is shuffled only a part may be used")
        given = [
            item for each in shuffles for item in (*each.node.args, *(word.value for word in each.node.keywords))
        ]
        if any(
            isinstance(node, ast.Name) and len(script.bindings(node)) > 1 for item in given for node in ast.walk(item)
        ):
            raise Unsure("the settings of the shuffle change")


def _one_expression(first: Link, second: Link) -> bool:
    """Whether a method is called directly on the result of another."""
    return isinstance(second.node.func, ast.Attribute) and second.node.func.value is first.node


class ShuffleFirst(Kind):
    """Elements are shuffled before they are loaded: a buffer of names is full at once."""

    causes = ("shuffle-refill",)

    def edit(self, place: Place) -> Edit:
        """The same shuffle, before the maps that it stands behind."""
        script = place.script
        chain, link = only(links_at(place, "shuffle"), "shuffle at this place")
        first = None
        for each in reversed(chain.before(link)):
            if each.name not in ONE_TO_ONE or not each.sure:
                break
            reason = "the code of a map is out of sight" if script.mapped(each) is None else None
            reason = reason or ("a map draws random numbers" if script.is_random(each) else None)
            if enters_python(script, each):
                reason = reason or state_of(script, script.python_of(each))
            if reason is not None:
                raise Unsure(f"the shuffle cannot be moved: {reason}")
            first = each
        if first is None:
            raise Unsure("the shuffle does not stand behind a map that it could be moved before")
        draft = place.draft()
        written = draft.method(link.node)
        draft.unchain(link.node)
        draft.chain_before(first.node, written)
        return place.edit(draft, "shuffles before the maps: the same elements in the same order, without their work")


KINDS = (ParallelMap(), Prefetch(), Cache(), MoveCache(), ShuffleFirst())
