"""Whether a function gives the same again for the same, and does nothing beside that."""

from __future__ import annotations

import ast
import re

from fitscope.effects import INTO_ARGUMENTS, MUTATING, changed_in_place, changes_outside, reached, state_of
from fitscope.names import Function, listed
from fitscope.source import Script

WRITES = frozenset(
    listed(
        "critical debug dump error exception imwrite info log makedirs mkdir post put remove rename replace_file "
        "request_write rmtree save savefig savetxt savez savez_compressed send sendall symlink_to to_csv touch "
        "unlink warn warning write write_bytes write_file write_text writelines"
    )
)
"""What a function that is called less often would leave undone."""
CLOCKS = listed(
    "datetime.datetime.now datetime.date.today os.getpid os.urandom time.monotonic time.perf_counter time.time"
)
NETWORK = listed("http. requests. socket. urllib.request. boto3. google.cloud. s3fs. fsspec.")
OPENERS = listed(
    "cv2.imread imageio.imread json.loads librosa.load nibabel.load numpy.load numpy.loadtxt open os.path.basename "
    "os.path.join os.path.splitext pandas.read_csv pathlib.Path PIL.Image.open scipy.io.wavfile.read soundfile.read"
)
KNOWN = listed(
    "PIL. base64. bz2. collections. copy. csv. cv2. datetime. gzip. h5py. imageio. io. itertools. jax.numpy. json. "
    "keras.ops. keras.utils. librosa. math. nibabel. numpy. os.path. pandas. pathlib. pickle. pydicom. re. scipy. "
    "skimage. soundfile. string. struct. tensorflow. tifffile. time.sleep torch. unicodedata. zlib."
)
"""Modules whose functions give the same for the same, but for those whose names say that they do not."""
DRAWS = re.compile(
    r"augment|bernoulli|choice|dropout|gauss|integers|jitter|multinomial|noise|normal$|now$|permut|rand|rvs|^sample$"
    r"|shuffle|summary|today|uniform"
)
BUILTINS = listed(
    "abs all any bool bytes dict divmod enumerate filter float format frozenset getattr hasattr int isinstance len "
    "list map max min open ord chr pow range reversed round set slice sorted str sum super tuple type zip "
    "Exception ValueError"
)


def differs(script: Script, function: Function | None, first: int) -> str | None:
    """Why a function may give something else later than at a line, or do more than give it; None if it does not."""
    if function is None:
        return "its code is out of sight"
    reason = state_of(script, function) or changes_outside(script, function) or effects_of(script, function)
    return reason or changed_in_place(script, function, first)


def effects_of(script: Script, function: Function) -> str | None:
    """What a function does beside giving a result, or takes from elsewhere."""
    for each in reached(script, function, 4):
        for node in script.own(each):
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                root = _root(node)
                if isinstance(root, ast.Name) and root.id in script.parameters(each):
                    return f"it changes {root.id}, which it is given"
            added = node.target if isinstance(node, ast.AugAssign) else None
            if isinstance(added, ast.Name) and added.id in script.parameters(each):
                return f"it may change {added.id}, which it is given"
            if isinstance(node, ast.Subscript) and _is_object(script, node.value):
                return f"it takes {ast.unparse(node)} of an object that may make it anew"
            if not isinstance(node, ast.Call):
                continue
            name = script.called(node)
            if name.startswith(CLOCKS) or DRAWS.search(name.rpartition(".")[2]):
                return f"it calls {name}"
            if _is_unknown(script, node):
                return f"it calls {name}, whose code is out of sight"
            changed = [node.func.value] if isinstance(node.func, ast.Attribute) and node.func.attr in MUTATING else []
            changed += node.args if name.rpartition(".")[2] in INTO_ARGUMENTS else []
            for root in map(_root, changed):
                if isinstance(root, ast.Name) and root.id in script.parameters(each):
                    return f"it changes {root.id}, which it is given"
            if name.rpartition(".")[2] in WRITES or script.method(node) in WRITES:
                return f"it calls {ast.unparse(node.func)}, which does more than give a result"
            mode = script.argument(node, "mode", 1) if name == "open" else None
            if mode is not None and script.literal(mode) not in ("r", "rb", "rt"):
                return "it opens a file to write to it"
    return None


def _is_unknown(script: Script, call: ast.Call) -> bool:
    """Whether a function is called that is neither in sight nor known to give the same for the same."""
    if script.dotted(call.func) is not None:
        return not script.called(call).startswith((*KNOWN, *NETWORK, *OPENERS))
    if not isinstance(call.func, ast.Name):
        return False
    if script.bindings(call.func):
        return script.function(call.func) is None
    return call.func.id not in BUILTINS


def _is_object(script: Script, node: ast.expr, depth: int = 3) -> bool:
    """Whether an expression is an object of a class that may compute its items, as a dataset does."""
    values: list[ast.expr | None] = list(script.values(node))
    outer = script.function_of(node)
    if isinstance(node, ast.Name) and outer is not None:
        values += script.given(outer, node.id)
    for value in values if depth else ():
        if isinstance(value, ast.Call):
            name = script.called(value)
            if name.rpartition(".")[2][:1].isupper() or name.startswith(("torch.utils.data.", "torchvision.")):
                return True
        elif value is not None and _is_object(script, value, depth - 1):
            return True
    return False


def _root(node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node
