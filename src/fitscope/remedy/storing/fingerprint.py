"""A fingerprint of code and of what it reads, so that elements made by other code are never taken for these."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import re
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

import numpy as np

DRAWING = re.compile(
    r"^(random\w*|rand|randn|randint|randrange|randperm|default_rng|shuffle|permutation|uuid[14]|urandom|token_bytes"
    r"|multinomial|bernoulli)$"
)
"""Names in code that draws at random; a clock need not be known by name, since two calls show it."""

_ASIDE = ("__init__", "__new__", "__len__", "__repr__", "on_epoch_end", "on_epoch_begin")
"""Methods that do not make an element: what they draw at random is seen in the object's fields."""

_UNTOLD = (
    *("__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__", "__static_attributes__"),
    "__slotnames__",  # pickle leaves it there
)
"""Fields of a class that say nothing of what it does."""

_SETTINGS = ("_workers", "_use_multiprocessing", "_max_queue_size")
"""Fields of a PyDataset that do not change what it gives."""


class Fingerprint:
    """Takes in functions, objects and arrays; two hashes come out, one of code and one of inputs.

    A function counts with its bytecode, its defaults, its closure and the globals that it names; functions of
    installed packages count with their name and version. An array in memory counts with its content; a text that
    names a file or a folder also with the sizes and times of change of what is there.
    """

    def __init__(self, store: Path) -> None:
        self.drawing: set[str] = set()
        """Names by which the code may draw random numbers."""
        self.files = 0
        """How many files were looked at."""
        self._store = store.resolve()
        self._code = hashlib.blake2b(digest_size=16)
        self._inputs = hashlib.blake2b(digest_size=16)
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        self._aside = False

    @property
    def code(self) -> str:
        return self._code.hexdigest()

    @property
    def inputs(self) -> str:
        return self._inputs.hexdigest()

    def copy(self) -> Fingerprint:
        """One that goes on from here on its own."""
        other = Fingerprint(self._store)
        other._code, other._inputs = self._code.copy(), self._inputs.copy()
        other._seen, other._kept, other.drawing = dict(self._seen), list(self._kept), set(self.drawing)
        other.files = self.files
        return other

    def note(self, *words: object) -> None:
        """Adds names and numbers of the code."""
        self._code.update(repr(words).encode())

    def add(self, value: Any) -> None:
        """Adds a value and everything it refers to."""
        if value is None or isinstance(value, bool | int | float | complex | slice) or value is Ellipsis:
            self.note(type(value).__name__, value)
        elif isinstance(value, str | bytes | os.PathLike):
            self._text(value)
        elif isinstance(value, types.ModuleType):
            self.note("module", value.__name__, str(getattr(value, "__version__", "")))
        elif isinstance(value, tuple | frozenset | types.CodeType):
            self._compound(value)  # Whether two equal constants are one object is up to the compiler.
        elif id(value) in self._seen:
            self.note("again", self._seen[id(value)])
        else:
            self._seen[id(value)] = len(self._seen)
            self._kept.append(value)
            self._compound(value)

    def _compound(self, value: Any) -> None:
        if isinstance(value, np.ndarray):
            self._array(value)
        elif isinstance(value, list | tuple | dict | set | frozenset):
            self._collection(value)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self.add(value.__func__)
            self.add(value.__self__)
        elif isinstance(value, types.CodeType):
            self._bytecode(value)
        elif isinstance(value, functools.partial):
            self.add((value.func, value.args, value.keywords))
        elif isinstance(value, staticmethod | classmethod):
            self.add(value.__func__)
        elif isinstance(value, property):
            self.add((value.fget, value.fset))
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, np.random.Generator | np.random.RandomState):
            self._draws(type(value).__name__)
        elif isinstance(value, np.generic | np.dtype):
            self.note(str(getattr(value, "dtype", value)), repr(value))
        elif callable(getattr(value, "detach", None)):
            self.add(value.detach().cpu().numpy())
        elif hasattr(value, "__array__") and hasattr(value, "dtype"):
            self._array(np.asarray(value))
        else:
            self._object(value)

    def _collection(self, value: Any) -> None:
        self.note(type(value).__name__, len(value))
        if isinstance(value, dict):
            for key, item in value.items():
                self.add(key)
                self.add(item)
        else:
            for item in sorted(value, key=repr) if isinstance(value, set | frozenset) else value:
                self.add(item)

    def _text(self, value: Any) -> None:
        self.note(value if isinstance(value, str | bytes) else str(value))
        path = os.fsdecode(value)
        if path and len(path) < 4096 and "\0" not in path:
            self.file(path, ordered=isinstance(value, os.PathLike) or os.sep in path)

    def file(self, path: str, ordered: bool = True) -> None:
        """Adds the size and time of change of a file, or of all in a folder if it was clearly meant by that text."""
        try:
            status = os.stat(path)  # noqa: PTH116 (a million of them are asked for here)
        except (OSError, ValueError):
            return
        if not os.path.isdir(path):  # noqa: PTH112
            self.files += 1
            self._inputs.update(f"{path}:{status.st_size}:{status.st_mtime_ns};".encode())
            return
        root = Path(path).resolve()
        if not ordered or len(root.parts) < 3 or root in self._store.parents or root == self._store:
            return
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(each for each in folders if Path(folder, each) != self._store)
            for name in sorted(files):
                self.file(os.path.join(folder, name))  # noqa: PTH118

    def _array(self, array: np.ndarray[Any, Any]) -> None:
        self.note(array.dtype.str, array.shape)
        if array.dtype == object:
            for item in array.ravel():
                self.add(item)
        elif isinstance(array, np.memmap) and array.filename is not None:
            self._inputs.update(f"{array.offset}".encode())
            self.file(str(array.filename))
        else:
            self._inputs.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b"")

    def _function(self, function: types.FunctionType) -> None:
        library = is_library(function.__code__.co_filename)
        self.note(function.__qualname__, self._origin(function) if library else "")
        values = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
        self.add([values, function.__defaults__, function.__kwdefaults__])
        if library:
            return
        self.add(function.__code__)
        names = _names(function.__code__)
        for name in names:
            if name not in function.__globals__:
                continue
            value = function.__globals__[name]
            self.note(name)
            self.add(value)
            if isinstance(value, types.ModuleType):
                if value.__name__ in ("random", "secrets"):
                    self._draws(value.__name__)
                if not is_library(getattr(value, "__file__", None) or "<frozen"):
                    self.add([getattr(value, inner) for inner in names if hasattr(value, inner)])

    def _bytecode(self, code: types.CodeType) -> None:
        self.note(code.co_name, code.co_code, code.co_names, code.co_varnames, code.co_freevars)
        for name in code.co_names:
            if DRAWING.match(name):
                self._draws(name)
        for constant in code.co_consts:
            self.add(constant)

    def _draws(self, name: str) -> None:
        if not self._aside:
            self.drawing.add(name)

    def _origin(self, value: Any) -> tuple[str, str]:
        module = getattr(value, "__module__", None) or ""
        package = sys.modules.get(module.partition(".")[0])
        return module, str(getattr(package, "__version__", ""))

    def _class(self, kind: type) -> None:
        library = _of_library(kind)
        self.note(kind.__qualname__, self._origin(kind) if library else "")
        if library:
            return
        for parent in kind.__bases__:
            self.add(parent)
        for name, value in vars(kind).items():
            if name in _UNTOLD:
                continue
            self.note(name)
            before, self._aside = self._aside, self._aside or name in _ASIDE
            self.add(value)
            self._aside = before

    def _object(self, value: Any) -> None:
        self.add(type(value))
        if type(value).__name__.startswith("Random"):
            self._draws(type(value).__name__)
        if callable(getattr(value, "get_config", None)) and hasattr(value, "weights"):
            self.add([repr(value.get_config()), [weight.numpy() for weight in value.weights]])
            return
        if _of_library(type(value)):
            try:
                self._inputs.update(pickle.dumps(value, protocol=4))
                return
            except Exception:  # What cannot be pickled (a lock, a log, an open file) is told by its fields.
                pass
        fields = dict(getattr(value, "__dict__", {}))
        for kind in type(value).__mro__:
            slots = getattr(kind, "__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if hasattr(value, slot):
                    fields.setdefault(slot, getattr(value, slot))
        self.add({name: field for name, field in fields.items() if name not in _SETTINGS})


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({os.path.realpath(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@functools.cache
def is_library(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package, and not to the user."""
    if file.startswith("<frozen") or "site-packages" in file or "dist-packages" in file:
        return True
    return os.path.realpath(file).startswith(_library_folders())


def _of_library(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    return kind.__module__ != "__main__" and (file is None or is_library(file))


def _names(code: types.CodeType) -> list[str]:
    """The names in code and in the functions inside it."""
    found = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _names(constant)
    return list(dict.fromkeys(found))


def _filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
