"""What functions and loops change: whether a function may be called in another order or thread, or be made once."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from fitscope.names import Function, listed
from fitscope.source import Script

RANDOM = listed(
    "jax.random. keras.random. numpy.random. random. secrets. tensorflow.image.random_ tensorflow.random. torch.rand "
    "torch.normal torch.multinomial torch.bernoulli uuid."
)
PURE_METHODS = frozenset(
    listed(
        "argmax argmin astype clip copy count decode encode endswith find flatten format get index item items join "
        "keys lower max mean min ndim numpy prod ravel repeat replace reshape rstrip size split squeeze startswith "
        "std strip sum swapaxes take tobytes tolist transpose upper values view"
    )
)
"""Methods of arrays, strings and dictionaries that change nothing."""
LIBRARIES = frozenset(
    listed(
        "PIL cv2 einops flax h5py imageio jax keras librosa nibabel numpy optax pandas polars pyarrow pydicom scipy "
        "skimage sklearn soundfile tensorflow tifffile torch torchaudio torchvision tqdm zarr"
    )
)
"""Those whose functions keep nothing between calls, but for the random ones among them."""
DRAWN_IN_GRAPHS = listed("tensorflow.random. tensorflow.image.random_ tensorflow.nn.dropout")
IN_GRAPHS = listed("add_loss add_metric apply apply_gradients assign assign_add assign_sub update_state watch")
"""Methods that do in every step of a graph what they do without one."""
OUT_OF_ITERATORS = listed("choice get_next integers next pop popleft sample")
PYTHON_VALUES = listed("bool float int print input open breakpoint next")
"""What needs values, not the tensors of a graph, or happens once instead of in every step."""
FRAMEWORKS = listed("jax. keras. numpy. tensorflow. torch. tqdm.")
LEAVE_ALONE = listed("enumerate float int len print range zip")
ONLY_READ = frozenset(
    listed("append evaluate predict predict_on_batch save save_weights stateless_apply stateless_call")
)
"""Methods of a model, an optimizer or a list that leave the model what it is."""


def state_of(script: Script, function: Function | None, depth: int = 3) -> str | None:
    """Why the calls of a function may depend on their order; None where each stands for itself."""
    if function is None:
        return "its code is out of sight"
    for node in script.own(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            return f"it changes {node.names[0]}, which other calls see"
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return "it is a generator"
        targets = (
            node.targets
            if isinstance(node, ast.Assign | ast.Delete)
            else [node.target]
            if isinstance(node, ast.AugAssign | ast.AnnAssign)
            else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute | ast.Subscript) and _outer(script, target, function):
                return f"it changes {ast.unparse(target)}, which other calls see"
        if isinstance(node, ast.Call):
            found = _state_of_call(script, node, function, depth)
            if found is not None:
                return found
    for inner in handed_on(script, function):
        found = state_of(script, inner, depth - 1) if depth else "its code is nested too deeply to be judged"
        if found is not None:
            return found
    return None


def _state_of_call(script: Script, call: ast.Call, function: Function, depth: int) -> str | None:
    name = script.called(call)
    if name.startswith(RANDOM):
        return f"it draws random numbers ({name})"
    if name == "next" or name == "print":
        return f"it calls {name}"
    inner = script.function(call.func)
    if inner is not None and inner is not function:
        return state_of(script, inner, depth - 1) if depth else "its code is nested too deeply to be judged"
    made = script.local_class(call.func)
    if made is not None and depth:
        for method in script.methods(made).values():
            for each in script.own_calls(method):
                if script.called(each).startswith(RANDOM):
                    return f"it draws random numbers ({script.called(each)})"
    if isinstance(call.func, ast.Attribute) and script.dotted(call.func) is None:
        owner = call.func.value
        if _outer(script, owner, function) and call.func.attr not in PURE_METHODS and not _is_pattern(script, owner):
            return f"it calls {ast.unparse(call.func)}, which may keep something between calls"
    if inner is None and made is None and _is_foreign(script, name):
        return f"it calls {name}, whose code is out of sight"
    if isinstance(call.func, ast.Name) and inner is None and made is None:
        bindings = script.bindings(call.func)
        if bindings and all(binding.how in ("assign", "parameter", "other") for binding in bindings):
            return f"it calls {name}, whose code is out of sight"
    return None


def _is_foreign(script: Script, name: str) -> bool:
    """Whether a function comes from a module that is no library known here: one beside the script, for instance."""
    module, dot, _ = name.partition(".")
    return bool(dot and module and module in script.modules and module not in LIBRARIES | sys.stdlib_module_names)


def _is_pattern(script: Script, node: ast.expr) -> bool:
    """Whether an expression is a regular expression, which keeps nothing."""
    values = script.values(node)
    return bool(values) and all(
        isinstance(value, ast.Call) and script.called(value) == "re.compile" for value in values
    )


def _outer(script: Script, node: ast.AST, function: Function) -> bool:
    """Whether an expression is about something that a function did not make itself."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    if node.id in ("self", "cls"):
        return True
    bindings = script.bindings(node)
    inside = [each for each in bindings if script.function_of(each.node) is function or each.node is function]
    parameters = set(script.parameters(function))
    return not inside and node.id not in parameters


def graph_obstacle(script: Script, function: Function, depth: int = 2) -> str | None:
    """Why a function might do something else in a graph than it does step by step; None if it surely does not."""
    for node in script.own(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            return f"it changes {node.names[0]}, which a graph would do once only"
        if isinstance(node, ast.Try | ast.Assert | ast.Raise | ast.Yield | ast.YieldFrom):
            return f"its line {node.lineno} would be gone through once, when the graph is made"
        targets = (
            node.targets
            if isinstance(node, ast.Assign | ast.Delete)
            else [node.target]
            if isinstance(node, ast.AugAssign)
            else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute | ast.Subscript) and _outer(script, target, function):
                return f"it changes {ast.unparse(target)}, which a graph would do once only"
            if isinstance(node, ast.AugAssign) and _outer(script, target, function):
                return f"it changes {ast.unparse(target)}, which a graph would do once only"
        if isinstance(node, ast.Call):
            name = script.called(node)
            last = name.rpartition(".")[2]
            alone = isinstance(script.parents.get(node), ast.Expr) and script.function(node.func) is None
            effect = alone and script.dotted(node.func) is None and last not in IN_GRAPHS
            if name in PYTHON_VALUES or last in ("numpy", "item", "append", *OUT_OF_ITERATORS) or effect:
                return f"it calls {ast.unparse(node.func)}, which in a graph happens once or fails"
            if name.startswith(("numpy.", "random.", "time.", "matplotlib.", "logging.")):
                return f"it calls {name}, which in a graph happens once"
            inner = script.function(node.func)
            if inner is not None and inner is not function and depth:
                found = graph_obstacle(script, inner, depth - 1)
                if found is not None:
                    return found
    return None


def drawn(script: Script, function: Function) -> str | None:
    """What a function draws random numbers with of which a graph draws others, itself or through functions."""
    names = map(script.called, script.calls_of(function))
    return next((name for name in names if name.startswith(DRAWN_IN_GRAPHS)), None)


def is_shared(name: str) -> bool:
    """Whether a call draws from random numbers that all share."""
    return name.startswith(RANDOM) and not name.endswith((".default_rng", ".Generator", ".seed"))


def reached(script: Script, function: Function, depth: int = 2) -> list[Function]:
    """A function and those of the script that it calls, or hands to somebody who does."""
    found = [function]
    called = [script.function(call.func) for call in script.own_calls(function)] if depth else []
    for inner in (*called, *(handed_on(script, function) if depth else ())):
        if inner is not None and inner not in found:
            found += [each for each in reached(script, inner, depth - 1) if each not in found]
    return found


def handed_on(script: Script, function: Function) -> list[Function]:
    """The lambdas of a function, and the functions that it names without a call: `map(read, paths)`, properties."""
    found: list[Function] = []
    for node in script.own(function):
        parent = script.parents.get(node)
        if isinstance(parent, ast.Return) or (isinstance(parent, ast.Call) and parent.func is node):
            continue
        named = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        inner = script.function(node) if named or isinstance(node, ast.Lambda) else None
        if inner is not None and inner is not function and inner not in found:
            found.append(inner)
    return found


def changes_outside(script: Script, function: Function) -> str | None:
    """What a function reads, itself or through functions, that has another value later; None if there is nothing."""
    inside = reached(script, function)
    for each in inside:
        for node in script.own(each):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                changing = _rebound(script, node, inside)
            else:
                changing = isinstance(node, ast.Attribute | ast.Subscript) and set_later(script, node)
            if changing:
                return f"it uses {ast.unparse(node)}, which changes outside of it"
    return None


def _rebound(script: Script, name: ast.Name, inside: list[Function]) -> bool:
    """Whether a name from outside of some functions is bound more than once."""
    bindings = script.bindings(name)
    if any(
        script.function_of(each.node) in inside or each.node in inside or each.how == "parameter" for each in bindings
    ):
        return False
    again = any(each.how in ("augment", "loop") or script.loops(each.node) for each in bindings)
    return len(bindings) > 1 or again


def set_later(script: Script, used: ast.Attribute | ast.Subscript) -> bool:
    """Whether what is read as `a.name` or `a["name"]` is set anywhere but where an object is made."""
    for each in ast.walk(script.tree):
        if not isinstance(each, ast.Attribute | ast.Subscript) or not isinstance(each.ctx, ast.Store):
            continue
        if isinstance(each, ast.Attribute) and isinstance(used, ast.Attribute):
            later = each.attr == used.attr and getattr(script.function_of(each), "name", "") != "__init__"
        else:
            keys = [script.literal(item.slice) for item in (each, used) if isinstance(item, ast.Subscript)]
            later = len(keys) == 2 and keys[0] == keys[1] and isinstance(keys[0], str)
        if later:
            return True
    return False


MUTATING = frozenset(
    listed("append clear extend fill insert pop popitem popleft remove reverse setdefault shuffle sort update")
)
"""Methods that change lists, dictionaries and arrays in place."""
INTO_ARGUMENTS = frozenset(listed("copyto fill_diagonal place put put_along_axis putmask setattr shuffle"))
"""Functions and methods that change what they are given."""


def changed_in_place(script: Script, function: Function, first: int) -> str | None:
    """What a function reads from outside of it that is changed in place later than at a line; None if nothing is."""
    read = read_outside(script, function)
    for node, changed in changes_in_place(script):
        around = script.function_of(node)
        making = getattr(around, "name", "") == "__init__" or (around is None and getattr(node, "lineno", 0) < first)
        if not making and same_things(script, changed) & read:
            return f"{ast.unparse(changed)} is changed in place while the training runs"
    return None


def read_outside(script: Script, function: Function) -> set[str]:
    """The names of what a function reads, itself or through functions, that it did not make."""
    found: set[str] = set()
    for each in reached(script, function, 4):
        for node in script.own(each):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                found |= same_things(script, node) if _outer(script, node, each) else set()
    return found - {"self"}


def changes_in_place(script: Script) -> Iterator[tuple[ast.AST, ast.expr]]:
    """All that a script changes in place, each with the node that does."""
    for node in script.parents:
        changed: list[ast.expr] = []
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            changed = [node.value]
        elif isinstance(node, ast.AugAssign):
            changed = [node.target]
        elif isinstance(node, ast.Call):
            last = script.called(node).rpartition(".")[2]
            changed = [node.func.value] if last in MUTATING and isinstance(node.func, ast.Attribute) else []
            if last in INTO_ARGUMENTS:
                changed += [*node.args, *(word.value for word in node.keywords)]
        elif isinstance(node, ast.keyword) and node.arg == "out":
            changed = [node.value]
        for each in changed:
            yield node, each


def same_things(script: Script, node: ast.AST | None, depth: int = 4) -> set[str]:
    """Names under which others may know a thing: its own, those it was set from, those of what a call was given."""
    while isinstance(node, ast.Subscript | ast.Starred):
        node = node.value
    if not isinstance(node, ast.Name | ast.Attribute) or not depth:
        return set()
    if isinstance(node, ast.Attribute):
        found, sources = {node.attr}, list(script.values(node))
    else:
        bindings = script.bindings(node)
        outer = script.function_of(bindings[0].node) if bindings else None
        given = [each for each in bindings if each.how == "parameter"]
        found = {node.id} if given or outer is None else set()
        sources = list(script.values(node))
        function = script.function_of(given[0].node) if given else None
        sources += [each for each in script.given(function, node.id) if each is not None] if function else []
    for source in sources:
        parts = source.elts if isinstance(source, ast.Tuple | ast.List) else [source]
        found |= {name for part in parts for name in same_things(script, part, depth - 1)}
    return found


def free_names(script: Script, parts: list[ast.AST]) -> list[ast.Name]:
    """The names in parts of a script that get their value elsewhere."""
    own = {id(node) for part in parts for node in ast.walk(part)}
    loaded = (node for part in parts for node in ast.walk(part))
    return [
        node
        for node in loaded
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and not any(id(binding.node) in own for binding in script.bindings(node))
    ]


def changed_in_loop(script: Script, loop: ast.For | ast.While, parts: list[ast.AST]) -> str | None:
    """What a loop does that may change what these parts of it use; None if it surely leaves that alone."""
    own = {id(node) for part in parts for node in ast.walk(part)}
    used = {name.id for name in free_names(script, parts)}
    rest = [node for each in loop.body for node in ast.walk(each) if id(node) not in own]
    waiting = [script.function(node.func) for node in rest if isinstance(node, ast.Call)]
    seen: list[Function] = []
    while waiting:
        function = waiting.pop()
        if function is not None and function not in seen and id(function) not in own:
            seen.append(function)
            rest += script.own(function)
            waiting += [script.function(call.func) for call in script.own_calls(function)]
    for node in rest:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if node.attr == "trainable" or _root(node) in used:
                return ast.unparse(node)
        elif isinstance(node, ast.Call) and script.function(node.func) is None:
            name = script.called(node)
            method = isinstance(node.func, ast.Attribute) and script.dotted(node.func) is None
            if method and _root(node.func) in used and script.method(node) not in ONLY_READ:
                return ast.unparse(node.func)
            given = {each.id for item in node.args for each in ast.walk(item) if isinstance(each, ast.Name)}
            if given & used and not method and not name.startswith(FRAMEWORKS) and name not in LEAVE_ALONE:
                return ast.unparse(node.func)
    return None


def _root(node: ast.expr) -> str:
    """The name at the beginning of `a.b.c`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
