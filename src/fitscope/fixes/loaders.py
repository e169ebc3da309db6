"""Edits of what loads the data in Python: how many workers, and whole batches instead of single examples."""

from __future__ import annotations

import ast

from fitscope.effects import RANDOM, changes_outside, is_shared, state_of
from fitscope.fixes.draft import Draft, Unsure
from fitscope.fixes.kind import Kind, Place, only
from fitscope.fixes.pipelines import links_at
from fitscope.fixes.text import Text
from fitscope.model import Edit, Replacement
from fitscope.names import FUNCTIONS, Function, listed
from fitscope.source import LOADER_BASES, Script

FEW_WORKERS, MANY_WORKERS = 4, 8
WITH_WORKERS = ("persistent_workers", "prefetch_factor", "multiprocessing_context", "timeout")
"""Settings that a DataLoader takes only if it has workers."""
NUM_WORKERS_PLACE = 5
"""Where `num_workers` stands among the arguments of a DataLoader."""
WIDTH = 100
"""Characters of an expression that still fit on a line."""
LONG_WAIT = 0.05
"""Seconds of waiting per batch from which on more workers are taken."""
DRAWN_LATER = "the order is drawn at another time, so that it may be another one at the same seed"
"""What becomes of a DataLoader's shuffling with other workers: others draw from the same numbers, as Dropout does."""
ELEMENTWISE = listed(
    "abs cast ceil convert_image_dtype cos exp floor log log1p negative relu round sigmoid sin sqrt square tanh"
)


def _loader(place: Place) -> tuple[ast.ClassDef, Function]:
    """The class whose items are loaded, and the method that loads one."""
    owner = place.owner()
    if owner is None or not place.script.derives(owner, LOADER_BASES):
        raise Unsure("a generator gives one batch after the other: a PyDataset could load several at once")
    item = place.script.methods(owner).get("__getitem__")
    if item is None:
        raise Unsure("the method that loads a batch is out of sight")
    return owner, item


def is_torch(script: Script, owner: ast.ClassDef) -> bool:
    """Whether a class is a Dataset of torch."""
    return script.derives(owner, [base for base in LOADER_BASES if base.startswith("torch")])


class MoreWorkers(Kind):
    """Several batches are loaded at once, and come in the order of one at a time."""

    causes = ("single-worker-loader",)

    def edit(self, place: Place) -> Edit:
        """workers of a PyDataset, num_workers of a DataLoader."""
        owner, item = _loader(place)
        number = self.number(place)
        reason = state_of(place.script, item)
        if not is_torch(place.script, owner):
            text, calls = takes_workers(place, owner)
            draft = place.draft(text)
            for call in calls:
                draft.set_keyword(call, "workers", str(number))
            risk = f"{owner.name}.__getitem__ runs in several threads, and {reason}" if reason else ""
            return place.edit(
                draft, f"{number} threads load batches; their order stays", risk or drawn_once_less(place)
            )
        text, call = only(_data_loaders(place, owner), f"DataLoader of {owner.name}")
        draft = place.draft(text)
        draft.set_keyword(call, "num_workers", str(number))
        does = f"{number} processes load batches; their order stays"
        ordered = _is_ordered(text.script, call)
        fits = [each for other in place.project.texts() for each in other.script.model_calls("fit")]
        if ordered and len(fits) < 2:
            # Kept workers draw one random number less per epoch, which a shuffle, here or later, would notice.
            draft.set_keyword(call, "persistent_workers", "True")
        risk = f"{owner.name}.__getitem__ runs in several processes, and {reason}" if reason else ""
        if not ordered:
            risk = risk or DRAWN_LATER
        if place.project.backend not in (None, "torch"):
            risk = risk or f"{place.project.backend} may hang in processes that are forked from it"
        return place.edit(draft, does, risk)

    @staticmethod
    def number(place: Place) -> int:
        """How many workers: more where they wait for long."""
        seconds = [item.value for item in place.finding.evidence if item.unit == "seconds"]
        working = [item.value for item in place.finding.evidence if item.what.startswith("of its time it held")]
        waits = bool(working) and working[0] < 0.5
        return MANY_WORKERS if waits and max(seconds, default=0.0) >= LONG_WAIT else FEW_WORKERS


class ReadAhead(Kind):
    """A generator makes the next batches while the training computes."""

    causes = ("single-worker-loader",)

    def edit(self, place: Place) -> Edit:
        """fitscope.Loader around it."""
        text, fit = only(place.fit_calls(), "fit at this place")
        script = text.script
        data = script.argument(fit, "x", 0)
        made = only(script.values(data), "place that makes the generator") if isinstance(data, ast.Name) else data
        function = script.function(made.func) if isinstance(made, ast.Call) else None
        if not isinstance(made, ast.Call) or function is None or not script.is_generator(function):
            raise Unsure("the source shows no generator that this fit is given")
        if script.argument(fit, "steps_per_epoch") is None or not _goes_on(script, function):
            raise Unsure("the generator may end, and nobody knows after how many batches")
        if isinstance(data, ast.Name) and len(script.references(data.id)) > 1:
            raise Unsure(f"{data.id} is read elsewhere, too")
        if script.loops(fit):
            raise Unsure("several trainings may go on with the generator where the last one stopped")
        if any(_asks_model(script, call) for call in script.calls_of(function)):
            raise Unsure("the generator asks the model, which changes meanwhile")
        reason = changes_outside(script, function) or _reused(script, function)
        if reason is not None:
            raise Unsure(f"what is read ahead may not be what it would be later: {reason}")
        for name in (node for node in ast.walk(made) if isinstance(node, ast.Name)):
            if len(script.bindings(name)) > 1:
                raise Unsure(f"{name.id} has another value later")
        draft = place.draft(text)
        draft.wrap(made, f"{draft.name('fitscope.Loader', made)}(lambda: ", ")")
        does = "the generator makes its next batches beside the training, in the same order"
        return place.edit(draft, does, self._risk(place, script, function))

    @staticmethod
    def _risk(place: Place, script: Script, function: Function) -> str:
        """The risk that two draw in turns from the same random numbers."""
        own = script.calls_of(function)
        drawn = [script.called(call) for call in own if is_shared(script.called(call))]
        calls = [(each.script, call) for each in place.project.texts() for call in each.script.calls]
        others = any(is_shared(other.called(call)) for other, call in calls if call not in own)
        if drawn and (others or len(script.callers(function)) > 1):
            return f"it draws from {drawn[0]}, as others do, and now earlier than they"
        for node in (each for each in script.own(function) if isinstance(each, ast.Name)):
            values = script.values(node)
            maker = any(isinstance(value, ast.Call) and _makes_numbers(script.called(value)) for value in values)
            outer = maker and all(script.function_of(value) is not function for value in values)
            if outer and any(script.function_of(each) is not function for each in script.references(node.id)):
                return f"it draws from {node.id}, as others do, and now earlier than they"
        return ""


def _goes_on(script: Script, function: Function) -> bool:
    """Whether a generator never ends."""
    loops = [node for node in script.own(function) if isinstance(node, ast.While)]
    endless = any(isinstance(loop.test, ast.Constant) and loop.test.value for loop in loops)
    return endless and not any(isinstance(node, ast.Return | ast.Break) for node in script.own(function))


def _asks_model(script: Script, call: ast.Call) -> bool:
    asked = script.method(call) in ("evaluate", "predict", "predict_on_batch", "test_on_batch", "get_weights")
    return asked or script.is_model(call.func) or script.is_layer(call.func)


def _reused(script: Script, function: Function) -> str | None:
    """Why a batch may be overwritten while it waits: it is an array that the generator fills anew."""
    filled = {
        node.value.id
        for node in script.own(function)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)
    }
    for node in (each for each in script.own(function) if isinstance(each, ast.Yield)):
        for name in (each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in filled):
            inner = script.loops(node)[:1]
            if not all(script.loops(each.node)[:1] == inner for each in script.bindings(name)):
                return f"{name.id} is filled anew for every batch"
    return None


def _makes_numbers(name: str) -> bool:
    return name.endswith((".default_rng", ".RandomState", "random.Random"))


class OneWorker(Kind):
    """One thread loads where several only take turns."""

    causes = ("counterproductive-workers",)

    def edit(self, place: Place) -> Edit:
        """workers=1."""
        text, given = self._given(place)
        draft = place.draft(text)
        processes = False
        for call in given:
            draft.set_keyword(call, "workers", "1")
            if any(keyword.arg == "use_multiprocessing" for keyword in call.keywords):
                draft.remove_keyword(call, "use_multiprocessing")
                processes = True
        if processes:
            calls = [call for each in text.script.functions for call in text.script.calls_of(each)]
            drawn = [name for name in map(text.script.called, calls) if is_shared(name)]
            risk = f"loading may draw random numbers ({drawn[0]}), which are others in each process" if drawn else ""
            return place.edit(draft, "one thread of the training's own process loads the batches", risk)
        does = "one thread loads the batches, as Python code that computes cannot use more"
        return place.edit(draft, does, drawn_once_less(place))

    @staticmethod
    def _given(place: Place) -> tuple[Text, list[ast.Call]]:
        """The calls that ask for workers: of the loader that the finding points at, or of the only one that does."""
        used = [place.script.local_class(value.func) for value in _used(place) if isinstance(value, ast.Call)]
        owners = [_loader(place)[0]] if place.owner() is not None else used
        found = []
        for owner in dict.fromkeys(each for each in owners if each is not None):
            if place.script.derives(owner, LOADER_BASES) and not is_torch(place.script, owner):
                text, calls = takes_workers(place, owner)
                calls = [call for call in calls if any(keyword.arg == "workers" for keyword in call.keywords)]
                found += [(text, calls)] if calls else []
        if len(found) != 1:
            raise Unsure("the number of workers is set out of sight")
        return found[0]


class NoProcesses(Kind):
    """A DataLoader loads in the training's own process."""

    causes = ("counterproductive-workers",)

    def edit(self, place: Place) -> Edit:
        """num_workers=0."""
        found = [
            (text, call)
            for text in place.project.texts()
            for call in text.script.calls
            if is_data_loader(text.script, call)
            and (
                text.script.argument(call, "num_workers", NUM_WORKERS_PLACE) is not None
                or _listed_workers(text.script, call) is not None
            )
        ]
        if len(found) != 1 and not _made_alike(place, found):
            found = [(text, call) for text, call in found if text.path == place.text.path and call in _used(place)]
        if not found:
            raise Unsure("the source shows no DataLoader with num_workers, or not which of them is meant")
        named = [call for text, call in found if text.script.argument(call, "num_workers", NUM_WORKERS_PLACE)]
        if any(keyword.arg is None for call in named for keyword in call.keywords):
            raise Unsure("settings of its workers may be in a dictionary")
        if any(keyword.arg == "worker_init_fn" for _, call in found for keyword in call.keywords):
            raise Unsure("its worker_init_fn is called in worker processes only")
        for other in place.project.texts():
            if any(other.script.derives(each, "torch.utils.data.IterableDataset") for each in other.script.classes):
                raise Unsure("an IterableDataset gives every process the same rows, or a part of them")
        draft = place.draft(found[0][0])
        for _, call in found:
            listed_workers = _listed_workers(found[0][0].script, call)
            if listed_workers is not None:
                draft.replace(listed_workers, "0")
            elif len(call.args) > NUM_WORKERS_PLACE:
                draft.replace(call.args[NUM_WORKERS_PLACE], "0")
            else:
                draft.set_keyword(call, "num_workers", "0")
            for name in WITH_WORKERS:
                if any(keyword.arg == name for keyword in call.keywords):
                    draft.remove_keyword(call, name)
        drawn = [
            name
            for other in place.project.texts()
            for function in other.script.functions
            if getattr(function, "name", "") in ("__getitem__", "__getitems__", "__iter__")
            for name in map(other.script.called, other.script.calls_of(function))
            if name.startswith(RANDOM)
        ]
        risk = f"loading draws random numbers ({drawn[0]}), which are others in each process" if drawn else ""
        if not all(_is_ordered(found[0][0].script, call) for _, call in found):
            risk = risk or DRAWN_LATER
        return place.edit(draft, "the batches are loaded in the training's own process", risk)


def _made_alike(place: Place, loaders: list[tuple[Text, ast.Call]]) -> bool:
    """Whether all DataLoaders are made in one function, with the same workers, for the only fit that there is."""
    functions = {text.script.function_of(call) for text, call in loaders}
    workers = {
        ast.unparse(text.script.argument(call, "num_workers", NUM_WORKERS_PLACE) or call) for text, call in loaders
    }
    fits = [call for text in place.project.texts() for call in text.script.model_calls("fit")]
    return len(fits) == len(functions) == len(workers) == 1 and None not in functions


def drawn_once_less(place: Place) -> str:
    """The risk of another number of threads: on JAX and PyTorch Keras looks at the first batch to build a model.

    One thread draws an order for that look and another for the first epoch, several draw one for both.
    """
    if place.project.backend in (None, "tensorflow"):
        return ""
    fits = [(text, call) for text, call in place.fit_calls() if _loads(text.script, call)] or place.fit_calls()
    ordered = [
        text.script.literal(text.script.argument(call, "shuffle")) is False or _is_built(text.script, call)
        for text, call in fits
    ]
    return "" if ordered and all(ordered) else DRAWN_LATER


def _loads(script: Script, fit: ast.Call) -> bool:
    """Whether a fit is given an object of a loader of the script."""
    data = script.argument(fit, "x", 0)
    values = [data, *(script.values(data) if data is not None else [])]
    made = [script.local_class(value.func) for value in values if isinstance(value, ast.Call)]
    return any(owner is not None and script.derives(owner, LOADER_BASES) for owner in made)


def _is_built(script: Script, fit: ast.Call) -> bool:
    """Whether a model was trained before, in the same function and not in a loop."""
    for call in script.model_calls("fit"):
        same = isinstance(call.func, ast.Attribute) and isinstance(fit.func, ast.Attribute)
        same = same and ast.unparse(call.func) == ast.unparse(fit.func)
        here = script.function_of(call) is script.function_of(fit) and not script.guarded(call, script.tree)
        if same and here and call.lineno < fit.lineno:
            return True
    return False


def takes_workers(place: Place, owner: ast.ClassDef) -> tuple[Text, list[ast.Call]]:
    """The calls that say how many workers a PyDataset has: those of its own constructor, or those that make one."""
    start = place.script.methods(owner).get("__init__")
    if start is not None:
        inner = [
            call
            for call in place.script.own_calls(start)
            if isinstance(call.func, ast.Attribute)
            and call.func.attr == "__init__"
            and isinstance(call.func.value, ast.Call)
            and place.script.called(call.func.value) == "super"
        ]
        if not inner:
            raise Unsure(f"{owner.name}.__init__ does not call super().__init__(…), which takes workers")
        passes_on = any(keyword.arg is None for keyword in inner[0].keywords)
        if not passes_on:
            return place.text, inner[:1]
        if start.args.kwarg is None:
            raise Unsure(f"{owner.name}.__init__ takes its settings from a dictionary")
    made = place.made(owner)
    if not made:
        raise Unsure(f"{owner.name} is made out of sight")
    text = made[0][0]
    if any(other.path != text.path for other, _ in made):
        raise Unsure(f"{owner.name} is made in several files")
    return text, [call for _, call in made]


def is_data_loader(script: Script, call: ast.Call) -> bool:
    """Whether a call makes a DataLoader of torch."""
    return script.called(call) in ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")


def _listed_workers(script: Script, call: ast.Call) -> ast.expr | None:
    """The number of workers in a dictionary that a call takes its settings from (`**settings`)."""
    for keyword in call.keywords:
        values = script.values(keyword.value) if keyword.arg is None else []
        if len(values) == 1 and isinstance(values[0], ast.Dict):
            entries = {
                script.literal(key): value for key, value in zip(values[0].keys, values[0].values, strict=True)
            }
            read = len(script.references(keyword.value.id)) if isinstance(keyword.value, ast.Name) else 2
            if read == 1 and None not in entries and not {*WITH_WORKERS, "worker_init_fn"} & set(entries):
                return entries.get("num_workers")
    return None


def _is_ordered(script: Script, call: ast.Call) -> bool:
    """Whether a DataLoader gives its rows in their own order, as far as the source shows."""
    given = [script.argument(call, "shuffle", 2), script.argument(call, "sampler", 3)]
    return given == [None, None] and not any(keyword.arg is None for keyword in call.keywords)


def _used(place: Place) -> list[ast.expr]:
    """What the names on the finding's line were set to: those that a fit is given, or that a loop goes through."""
    first, last = place.script.statement_at(place.line)
    names = [
        node for node in ast.walk(place.script.tree) if isinstance(node, ast.Name) and first <= node.lineno <= last
    ]
    return [value for name in names for value in place.script.values(name)]


def _data_loaders(place: Place, owner: ast.ClassDef) -> list[tuple[Text, ast.Call]]:
    """The DataLoaders that load a Dataset of this class."""
    made = {call for _, call in place.made(owner)}
    found = []
    for text in place.project.texts():
        for call in text.script.calls:
            if not is_data_loader(text.script, call):
                continue
            data = text.script.argument(call, "dataset", 0)
            values = [data, *(text.script.values(data) if data is not None else [])]
            if any(value in made for value in values):
                found.append((text, call))
    return found


class Window(Kind):
    """Of an array in a file only the part that is used is read."""

    causes = ("oversized-records",)

    def edit(self, place: Place) -> Edit:
        """mmap_mode of numpy.load."""
        script = place.script
        call = only(
            [each for each in place.calls() if script.called(each) == "numpy.load"], "numpy.load at this place"
        )
        if call.keywords or len(call.args) != 1 or not _is_path(script, call.args[0]):
            raise Unsure("what this numpy.load is given cannot be mapped for sure")
        uses = self._uses(script, call)
        if not uses or not all(_copies_part(script, use) for use in uses):
            raise Unsure("that only a copy of a part of the array is used cannot be told from the source")
        draft = place.draft()
        draft.set_keyword(call, "mmap_mode", '"r"')
        return place.edit(draft, "of the file only the part that is used is read")

    @staticmethod
    def _uses(script: Script, call: ast.Call) -> list[ast.AST | None]:
        """What is done with the array."""
        parent = script.parents.get(call)
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
            name = parent.targets[0]
            function = script.function_of(call)
            if len(script.bindings(name)) != 1 or function is None:
                return []
            loads = [each for each in script.references(name.id) if script.function_of(each) is function]
            return [script.parents.get(each) for each in loads]
        return [parent]


def _is_path(script: Script, node: ast.expr) -> bool:
    """Whether what `numpy.load` is given is surely no open file."""
    if isinstance(node, ast.Name):
        opened = [each for each in ast.walk(script.tree) if isinstance(each, ast.withitem)]
        names = [each.optional_vars.id for each in opened if isinstance(each.optional_vars, ast.Name)]
        made = [script.called(value) for value in script.values(node) if isinstance(value, ast.Call)]
        return node.id not in names and "open" not in made
    return isinstance(node, ast.Attribute | ast.Constant | ast.JoinedStr | ast.Subscript | ast.BinOp)


def _copies_part(script: Script, use: ast.AST | None) -> bool:
    """`np.array(whole[a:b])`, `whole[a:b].astype(…)`: of a part of the array nothing but a copy is used."""
    if not isinstance(use, ast.Subscript) or not isinstance(use.ctx, ast.Load):
        return False
    if isinstance(script.literal(use.slice), str):  # an archive, which is not mapped
        return False
    parent = script.parents.get(use)
    if isinstance(parent, ast.Attribute) and parent.value is use:
        return parent.attr in ("astype", "copy") and isinstance(script.parents.get(parent), ast.Call)
    return isinstance(parent, ast.Call) and use in parent.args and script.called(parent) == "numpy.array"


class Slices(Kind):
    """Rows of arrays come from the arrays themselves, not one by one through Python."""

    causes = ("per-example-work",)

    def edit(self, place: Place) -> Edit:
        """from_tensor_slices for a generator that only goes through arrays."""
        script = place.script
        _, link = only(links_at(place, "from_generator"), "generator of rows at this place")
        call = link.node
        function = script.generator(script.argument(call, "generator", 0))
        signature = script.argument(call, "output_signature")
        given = {keyword.arg for keyword in call.keywords} - {"generator", "output_signature", "name"}
        if function is None or signature is None or given or len(call.args) > 1:
            raise Unsure("what the generator gives, or how, is out of sight")
        arrays, count = _rows_of_arrays(script, function)
        types = [
            _dtype(script, item) for item in (signature.elts if isinstance(signature, ast.Tuple) else [signature])
        ]
        if len(types) != len(arrays):
            raise Unsure("the generator's rows and their signature differ in number")
        draft = place.draft()
        number = draft.source(count)
        rows = []
        for name, dtype in zip(arrays, types, strict=True):
            whole = number.replace(" ", "") == f"len({name})"
            tf = draft.name("tensorflow", call)
            rows.append(f"{tf}.cast({name if whole else f'{name}[:{number}]'}, {draft.source(dtype)})")
        draft.replace(call, self._written(draft, call, rows, single=not isinstance(signature, ast.Tuple)))
        return place.edit(draft, "the rows come from the arrays at once; the generator is not used any more")

    @staticmethod
    def _written(draft: Draft, call: ast.Call, rows: list[str], *, single: bool) -> str:
        maker = draft.source(call.func).removesuffix("from_generator") + "from_tensor_slices"
        short = f"{maker}({rows[0] if single else '(' + ', '.join(rows) + ')'})"
        if single or (len(short) <= WIDTH and call.lineno == call.end_lineno):
            return short
        line = draft.script.lines[draft.statement(call).lineno - 1]
        indent = line[: len(line) - len(line.lstrip())]
        return f"{maker}((\n" + "".join(f"{indent}    {row},\n" for row in rows) + f"{indent}))"


def _rows_of_arrays(script: Script, function: Function) -> tuple[list[str], ast.expr]:
    """The arrays whose rows a generator yields in their order, and how many; raises Unsure if it does more."""
    unsure = Unsure("the generator does more than go through arrays")
    body = [] if isinstance(function, ast.Lambda) else function.body
    loop = body[-1] if body else None
    documented = len(body) == 2 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    if not isinstance(loop, ast.For) or not (len(body) == 1 or documented) or script.parameters(function):
        raise unsure
    source, target, inner = loop.iter, loop.target, loop.body
    if not isinstance(source, ast.Call) or script.called(source) != "range" or len(source.args) != 1:
        raise unsure
    if len(inner) != 1 or not isinstance(inner[0], ast.Expr) or not isinstance(inner[0].value, ast.Yield):
        raise unsure
    value = inner[0].value.value
    names = []
    for item in value.elts if isinstance(value, ast.Tuple) else [value]:
        if not isinstance(item, ast.Subscript) or not isinstance(item.value, ast.Name):
            raise unsure
        if not isinstance(item.slice, ast.Name) or ast.unparse(item.slice) != ast.unparse(target):
            raise unsure
        _check_constant(script, item.value)
        names.append(item.value.id)
    return names, source.args[0]


def _check_constant(script: Script, name: ast.Name) -> None:
    """Raises Unsure if an array is not made once and left as it is."""
    bindings = script.bindings(name)
    changed = any(
        isinstance(node, ast.Subscript | ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == name.id
        for node in script.parents
    )
    if len(bindings) != 1 or bindings[0].how not in ("assign", "other") or changed:
        raise Unsure(f"{name.id} may change between two passes of the generator")


def _dtype(script: Script, spec: ast.expr) -> ast.expr:
    dtype = script.argument(spec, "dtype", 1) if isinstance(spec, ast.Call) else None
    if dtype is None or not isinstance(spec, ast.Call) or script.called(spec) != "tensorflow.TensorSpec":
        raise Unsure("the type of the rows is out of sight")
    return dtype


class BatchFirst(Kind):
    """A `map` of simple arithmetic runs once for a batch instead of once for each example."""

    causes = ("per-example-work",)

    def edit(self, place: Place) -> Edit:
        """batch before map."""
        script = place.script
        if links_at(place, "from_generator"):
            raise Unsure("the examples come one by one from a generator")
        for chain, link in links_at(place, "map"):
            behind = chain.after(link)
            if not behind or behind[0].name != "batch" or not isinstance(behind[0].node.func, ast.Attribute):
                continue
            if behind[0].node.func.value is not link.node or not _elementwise(script, script.mapped(link)):
                continue
            draft = place.draft()
            one, other = draft.method(link.node), draft.method(behind[0].node)
            middle, end = draft.text.end(link.node), draft.text.end(behind[0].node)
            between = script.text[middle : end - len(other)]
            draft.replacements = [Replacement(middle - len(one), end, f"{other}{between}{one}")]
            return place.edit(
                draft, "map works on whole batches; it is arithmetic on single numbers, so nothing changes"
            )
        raise Unsure("that the work gives the same for a batch as for its examples cannot be told from the source")


def _elementwise(script: Script, function: Function | None) -> bool:
    """Whether a function does with each number of its arguments the same, whatever the others are."""
    if function is None or function.args.vararg is not None:
        return False
    if isinstance(function, ast.Lambda):
        body: list[ast.expr] = [function.body]
    else:
        last = function.body[-1]
        if len(function.body) != 1 or not isinstance(last, ast.Return) or last.value is None:
            return False
        body = [last.value]
    names = set(script.parameters(function))
    if isinstance(body[0], ast.Tuple):
        body = body[0].elts
    return all(_is_elementwise(script, item, names) for item in body)


def _is_elementwise(script: Script, node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.UnaryOp):
        return _is_elementwise(script, node.operand, names)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow):
        sides = [node.left, node.right]
        numbers = [side for side in sides if isinstance(script.literal(side), int | float)]
        return len(numbers) == 1 and all(
            _is_elementwise(script, side, names) for side in sides if side not in numbers
        )
    if isinstance(node, ast.Call) and node.args:
        name = script.called(node)
        known = name.startswith(("tensorflow.", "keras.ops.")) and name.rpartition(".")[2] in ELEMENTWISE
        others = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
        plain = not any(isinstance(item, (*FUNCTIONS, ast.Call)) for other in others for item in ast.walk(other))
        return known and plain and _is_elementwise(script, node.args[0], names)
    return False


READING = (Window(),)
KINDS = (ReadAhead(), MoreWorkers(), OneWorker(), NoProcesses(), BatchFirst(), Slices())
