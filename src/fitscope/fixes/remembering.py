"""Edits that keep what loading functions give, where they give the same again in every epoch."""

from __future__ import annotations

import ast
import re

from fitscope.effects import changes_in_place, reached, read_outside, same_things
from fitscope.fixes.aliases import only_read
from fitscope.fixes.draft import Draft, Unsure
from fitscope.fixes.kind import Kind, Place
from fitscope.fixes.loaders import MoreWorkers, drawn_once_less, is_data_loader, is_torch, takes_workers
from fitscope.fixes.sameness import NETWORK, OPENERS, differs
from fitscope.model import Edit
from fitscope.names import Function, listed
from fitscope.source import LOADER_BASES, Script

OF_STRINGS = frozenset(
    listed(
        "as_posix decode encode endswith exists lower read_bytes read_text rsplit split "
        "splitlines startswith stem strip suffix title upper with_name with_suffix"
    )
)
"""What only strings, bytes and paths have."""
ITERATORS = listed("csv. enumerate filter iter itertools. map open reversed zip")
"""What can be gone through once."""
READS = listed("imread load loadtxt open read read_csv")
FEW_PASSES, MANY_PASSES = 3, 10
"""Epochs from which on to load once is worth more than threads, and processes, that wait side by side."""
MOSTLY_WAITING = 0.8
"""The share of a training that it waits for data from which on several threads are not enough."""


class Remember(Kind):
    """A function that gives the same again for the same file or row is called once for each of them."""

    causes = (
        *("repeated-preprocessing", "per-example-work", "python-in-pipeline", "slow-storage", "oversized-records"),
        "single-worker-loader",
    )
    aside = True

    def edit(self, place: Place) -> Edit:
        """functools.cache on it."""
        script = place.script
        passes = place.passes()
        if passes is None or passes < 2:
            raise Unsure("how often the training goes through its data cannot be told, or it does so once")
        reasons = []
        for function in _candidates(place):
            try:
                _check(place, function)
            except Unsure as error:
                reasons.append(str(error))
                continue
            if _workers_do(place, passes):
                raise Unsure("workers that load side by side gain more, or enough")
            draft = place.draft()
            draft.decorate(function, draft.name("functools.cache", function))
            does = f"{function.name} is called once for each item, and its results are kept: that takes memory"
            risk = _risk(script, function)
            if _waits(place) and _with_threads(place, draft):
                does += "; several threads load at first"
                risk = risk or drawn_once_less(place)
            return place.edit(draft, does, risk)
        raise Unsure(reasons[0] if reasons else "the source shows no loading function that could be remembered")


def _waits(place: Place) -> bool:
    """Whether loading is waiting rather than computing."""
    working = [item.value for item in place.finding.evidence if item.what.startswith("of its time it held")]
    return place.finding.name == "slow-storage" or (bool(working) and working[0] < 0.5)


def _workers_do(place: Place, passes: int) -> bool:
    """Whether workers that wait side by side are the better edit, and take less memory."""
    owner = place.owner()
    if place.finding.name != "single-worker-loader" or owner is None:
        return False
    if is_torch(place.script, owner):
        return _waits(place) and passes < MANY_PASSES
    waited = [item.value for item in place.finding.evidence if item.unit == "share"]
    return max(waited, default=0.0) < MOSTLY_WAITING or passes < FEW_PASSES


def _with_threads(place: Place, draft: Draft) -> bool:
    """Whether several threads could be asked for in the same file."""
    owner = place.owner()
    if owner is None or not place.script.derives(owner, LOADER_BASES) or is_torch(place.script, owner):
        return False
    try:
        text, calls = takes_workers(place, owner)
        if text.path != place.text.path:
            return False
        for call in calls:
            draft.set_keyword(call, "workers", str(MoreWorkers.number(place)))
    except Unsure:
        return False
    return True


def _candidates(place: Place) -> list[ast.FunctionDef]:
    """Functions around the finding, those that give most of a batch first."""
    script, here = place.script, place.function()
    if here is None:
        return []
    loaders = [loader.function for loader in script.loaders() if here in reached(script, loader.function, 4)]
    found: list[Function] = []
    for loader in loaders or [here]:
        found += [each for each in reached(script, loader, 4) if each not in found]
    around = [each for each in found if here in reached(script, each, 4)]  # they do what the finding is about
    inside = [each for each in reached(script, here, 4) if each not in around]
    for call in script.own_calls(here):  # objects that are called
        owner = _class_of_object(script, call.func)
        method = script.methods(owner).get("__call__") if owner is not None else None
        inside += [method] if method is not None else []
    return [each for each in (*around, *inside) if isinstance(each, ast.FunctionDef)]


def _class_of_object(script: Script, node: ast.AST, depth: int = 3) -> ast.ClassDef | None:
    """The class of what a name or an attribute of `self` is set to, where all of it is in sight."""
    found = set()
    for value in script.values(node) if depth else ():
        outer = script.function_of(value)
        if isinstance(value, ast.Call):
            found.add(script.local_class(value.func))
        elif isinstance(value, ast.Name) and outer is not None and value.id in script.parameters(outer):
            for given in script.given(outer, value.id):
                made = given.func if isinstance(given, ast.Call) else None
                found.add(
                    script.local_class(made)
                    if made is not None
                    else _class_of_object(script, given, depth - 1)
                    if given is not None
                    else None
                )
        else:
            found.add(_class_of_object(script, value, depth - 1))
    return found.pop() if len(found) == 1 else None


def _check(place: Place, function: ast.FunctionDef) -> None:
    """Raises Unsure where a function may not be remembered."""
    script, name = place.script, function.name
    arguments = function.args
    if function.decorator_list or arguments.vararg or arguments.kwarg or script.is_generator(function):
        raise Unsure(f"{name} is decorated, takes any arguments or is a generator")
    if not script.parameters(function) or (name.startswith("__") and name not in ("__getitem__", "__call__")):
        raise Unsure(f"{name} takes nothing that its results could be kept for")
    if script.mentioned(function):
        raise Unsure(f"{name} is handed on as a value")
    outer = script.function_of(function)
    if any(outer in reached(script, loader.function, 4) for loader in script.loaders()):
        raise Unsure(f"{name} is made anew in every call, and would forget what it gave")
    fits = [call.lineno for text, call in place.fit_calls() if text.path == place.text.path]
    reason = differs(script, function, min(fits, default=10**9)) or _set_elsewhere(place, function)
    reason = reason or _gone_through_once(script, function)
    if reason is not None:
        raise Unsure(f"what {name} gives cannot be kept: {reason}")
    owner = script.class_of(function) if script.parameters(function) != _names(function) else None
    if owner is not None:
        _check_owner(place, owner)
    if name == "__getitem__" and owner is not None and script.derives(owner, LOADER_BASES):
        _check_items(place, owner)
        return
    calls = script.callers(function) if name != "__call__" else _called_objects(place, owner)
    if not calls:
        raise Unsure(f"where {name} is called is out of sight")
    for call in calls:
        _check_call(script, function, call)


def _names(function: ast.FunctionDef) -> list[str]:
    return [item.arg for item in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def _gone_through_once(script: Script, function: Function) -> str | None:
    """The iterator that a function returns: whoever gets it again would find it empty."""
    waiting = list(script.returned(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Tuple | ast.List):
            waiting += node.elts
        elif isinstance(node, ast.Name):
            waiting += [value for value in script.values(node) if not isinstance(value, ast.Name)]
        elif isinstance(node, ast.Dict):
            waiting += node.values
        elif isinstance(node, ast.GeneratorExp) or (
            isinstance(node, ast.Call) and script.called(node).startswith(ITERATORS)
        ):
            return f"{ast.unparse(node)} can be gone through once"
    return None


def _set_elsewhere(place: Place, function: Function) -> str | None:
    """What another file sets or changes of what a function reads."""
    read = read_outside(place.script, function)
    owner = place.script.class_of(function)
    for text in place.project.texts():
        script = text.script
        if text.path == place.text.path:
            continue
        made = [call for other, call in place.made(owner) if other is text] if owner is not None else []
        given = [item for call in made for item in (*call.args, *(word.value for word in call.keywords))]
        known = read.union(*(same_things(script, item) for item in given))
        for node in script.parents:
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and node.attr in read:
                return f"{text.name} sets {ast.unparse(node)}"
        for node, changed in changes_in_place(script):
            if script.function_of(node) is not None and same_things(script, changed) & known:
                return f"{text.name} changes {ast.unparse(changed)}"
    return None


def _check_owner(place: Place, owner: ast.ClassDef) -> None:
    """Raises Unsure where the object of a method may not be a key, or belongs to other processes."""
    script = place.script
    if owner.decorator_list or {"__eq__", "__hash__"} & set(script.methods(owner)):
        raise Unsure(f"objects of {owner.name} may be equal to others, or no keys")
    known = (*LOADER_BASES, "object")
    if not all(script.local_class(base) is not None or script.dotted(base) in known for base in owner.bases):
        raise Unsure(f"{owner.name} derives from a class that is out of sight")
    for text in place.project.texts():
        for each in text.script.classes:
            if any(ast.unparse(base).rpartition(".")[2] == owner.name for base in each.bases):
                raise Unsure(f"{each.name} derives from {owner.name}, and may do otherwise")


def _check_items(place: Place, owner: ast.ClassDef) -> None:
    """Raises Unsure where items of a loader may be asked for by anything but a number, or go to other processes."""
    texts = place.project.texts()
    for text in texts:
        for call in text.script.calls:
            if any(keyword.arg in ("use_multiprocessing", "worker_init_fn") for keyword in call.keywords):
                raise Unsure("worker processes would each keep items of their own")
            if not is_data_loader(text.script, call) or not is_torch(place.script, owner):
                continue
            given = {keyword.arg for keyword in call.keywords}
            workers = text.script.argument(call, "num_workers", 5)
            if workers is not None and text.script.literal(workers) != 0:
                raise Unsure("worker processes would each keep items of their own")
            if given & {"sampler", "batch_sampler", "collate_fn", None} or len(call.args) > 3:
                raise Unsure("a sampler may ask for several items at once, or a collate_fn change them")
            size = text.script.argument(call, "batch_size", 1)
            if size is not None and text.script.literal(size) is None and isinstance(size, ast.Constant):
                raise Unsure("items go to the training as they are")
    if "__getitems__" in place.script.methods(owner):
        raise Unsure(f"{owner.name} gives several items at once")
    if not all(_is_loaded_from(text.script, made) for text, made in place.made(owner)):
        raise Unsure(f"items of {owner.name} are also used elsewhere")


def _is_loaded_from(script: Script, node: ast.expr, depth: int = 4) -> bool:
    """Whether a dataset goes to trainings and DataLoaders only, which change none of its items."""
    parent = script.parents.get(node)
    if isinstance(parent, ast.keyword):
        parent = script.parents.get(parent)
    if not depth:
        return False
    if isinstance(parent, ast.Call):
        if script.called(parent) == "len" or script.method(parent) in ("evaluate", "fit", "predict"):
            return True
        if script.called(parent) in ("torch.utils.data.Subset", "torch.utils.data.random_split"):
            return _is_loaded_from(script, parent, depth - 1)
        return is_data_loader(script, parent)
    if isinstance(parent, ast.Tuple | ast.IfExp):
        return _is_loaded_from(script, parent, depth - 1)
    if isinstance(parent, ast.Attribute):
        return parent.attr != "__getitem__"
    if isinstance(parent, ast.Return):
        function = script.function_of(parent)
        callers = script.callers(function) if function is not None else []
        return bool(callers) and all(_is_loaded_from(script, call, depth - 1) for call in callers)
    if not isinstance(parent, ast.Assign):
        return False
    names = [each for target in parent.targets for each in ast.walk(target) if isinstance(each, ast.expr)]
    if not all(isinstance(each, ast.Name | ast.Tuple | ast.Starred) for each in names):
        return False
    uses = [use for each in names if isinstance(each, ast.Name) for use in script.references(each.id)]
    return all(_is_loaded_from(script, use, depth - 1) for use in uses if isinstance(use, ast.Name))


def _called_objects(place: Place, owner: ast.ClassDef | None) -> list[ast.Call]:
    """The calls of objects of a class."""
    script = place.script
    if owner is None:
        return []
    return [call for call in script.calls if _class_of_object(script, call.func) is owner]


def _check_call(script: Script, function: ast.FunctionDef, call: ast.Call) -> None:
    """Raises Unsure where an argument may not be a key, or the result is changed."""
    if any(isinstance(item, ast.Starred) for item in call.args) or any(word.arg is None for word in call.keywords):
        raise Unsure(f"{function.name} is called with arguments that are out of sight")
    names = script.parameters(function)
    given = [*zip(names, call.args, strict=False), *((word.arg or "", word.value) for word in call.keywords)]
    for name, item in given:
        if not _is_key(script, function, name, item):
            raise Unsure(f"{ast.unparse(item)}, which {function.name} is called with, may be no key, or never recur")
    if not only_read(script, call):
        raise Unsure(f"what {function.name} gives may be changed afterwards")


def _is_key(script: Script, function: ast.FunctionDef, name: str, item: ast.expr) -> bool:
    """Whether an argument is surely a number, a string or a path, and one of a limited number of them."""
    if isinstance(item, ast.Constant) or isinstance(script.literal(item), str | int | float):
        return True
    if isinstance(item, ast.Subscript):
        index = item.slice
        element = isinstance(index, ast.Name) and _goes_through(script, index)
        return element and isinstance(item.value, ast.Name | ast.Attribute) and _used_as_key(script, function, name)
    if not isinstance(item, ast.Name):
        return False
    if _goes_through(script, item):
        counted = any(_counts(script, each.value) for each in script.bindings(item))
        return counted or _used_as_key(script, function, name)
    outer = script.function_of(item)
    kept = all(each.how == "parameter" for each in script.bindings(item))
    if outer is not None and item.id in script.parameters(outer) and kept:  # handed on
        callers = script.callers(outer)
        return bool(callers) and all(
            (given := script.argument(call, item.id, script.parameters(outer).index(item.id))) is not None
            and _is_key(script, function, name, given)
            for call in callers
        )
    return False


def _goes_through(script: Script, name: ast.Name) -> bool:
    """Whether a name is the variable of loops."""
    bindings = script.bindings(name)
    return bool(bindings) and all(
        each.how == "loop" and isinstance(each.node, ast.For | ast.comprehension) for each in bindings
    )


def _counts(script: Script, source: ast.expr | None, depth: int = 4) -> bool:
    """Whether what a loop goes through are whole numbers: a range, or a part of one."""
    if isinstance(source, ast.Call):
        return script.called(source) in ("range", "numpy.arange")
    if isinstance(source, ast.Subscript):
        return isinstance(source.slice, ast.Slice) and _counts(script, source.value, depth)
    values = script.values(source) if source is not None and depth else []
    return bool(values) and all(_counts(script, value, depth - 1) for value in values)


def _used_as_key(script: Script, function: ast.FunctionDef, name: str, depth: int = 2) -> bool:
    """Whether a function uses a parameter as only a string, a path or a number can be used."""
    for node in script.own(function):
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        parent = script.parents.get(node)
        if isinstance(parent, ast.Attribute) and parent.attr in OF_STRINGS:
            return True
        if isinstance(parent, ast.Call) and node in parent.args:
            called = script.called(parent)
            if called in OPENERS and parent.args[0] is node:
                return True
            inner = script.function(parent.func)
            if (
                isinstance(inner, ast.FunctionDef)
                and depth
                and not any(isinstance(item, ast.Starred) for item in parent.args)
            ):
                names = script.parameters(inner)
                position = parent.args.index(node)
                if position < len(names) and _used_as_key(script, inner, names[position], depth - 1):
                    return True
        if _formats_number(script, node):
            return True
    return False


def _formats_number(script: Script, node: ast.Name) -> bool:
    """`"%d" % number`."""
    parent = script.parents.get(node)
    whole = script.parents.get(parent) if isinstance(parent, ast.Tuple) else parent
    if not isinstance(whole, ast.BinOp) or not isinstance(whole.op, ast.Mod):
        return False
    text = script.literal(whole.left)
    marks = re.findall(r"%[-0-9.]*([a-z])", text) if isinstance(text, str) else []
    position = parent.elts.index(node) if isinstance(parent, ast.Tuple) else 0
    return position < len(marks) and marks[position] in ("d", "f")


def _risk(script: Script, function: Function) -> str:
    """The risk of keeping what comes from elsewhere; what is made of what is in memory is about as large as that."""
    names = [script.called(call) for each in reached(script, function, 4) for call in script.own_calls(each)]
    asked = next((name for name in names if name.startswith(NETWORK)), None)
    if asked is not None:
        return f"what a server answers ({asked}) is asked for once, and may change"
    opened = next((name for name in names if name in OPENERS and name.rpartition(".")[2] in READS), None)
    return f"all that it reads ({opened}) is kept in memory, and nobody measured how much that is" if opened else ""


KINDS = (Remember(),)
