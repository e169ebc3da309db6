"""What an element looks like: its nested structure, and the arrays, numbers and texts that are its leaves."""

from __future__ import annotations

import collections
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitscope.model import FitscopeError

Node = dict[str, Any]
"""A structure as JSON: one key of tuple, list, dict, named, none or leaf says what it is."""


class StoreError(FitscopeError, ValueError):
    """A store that cannot be made or opened: the sentence says why and what to do."""


class DatasetError(FitscopeError, TypeError):
    """Something of which no store can be made."""


PYTHON = {"int": int, "float": float, "bool": bool}
TEXTS = ("str", "bytes", "texts of str", "texts of bytes")


@dataclass(frozen=True)
class Leaf:
    """One leaf of an element: what it was, and how its values are kept."""

    kind: str
    """array, scalar (of numpy), tensor (of torch), int, float, bool, str, bytes, texts of str, texts of bytes."""
    dtype: str
    """Of the kept values; the bytes of texts are uint8."""
    static: tuple[int | None, ...]
    """The shape as far as it is known beforehand."""

    @property
    def rank(self) -> int:
        return len(self.static)

    @property
    def is_text(self) -> bool:
        return self.kind in TEXTS


@dataclass(frozen=True)
class Layout:
    """The structure of all elements of a dataset, and its leaves in the order in which they are kept."""

    structure: Node
    leaves: tuple[Leaf, ...]

    def flatten(self, element: Any) -> list[Any]:
        """The leaves of an element; refuses one that is built differently from the first."""
        found: list[Any] = []
        _collect(self.structure, element, found)
        return found

    def pack(self, leaves: Sequence[Any], lists: type = list) -> Any:
        """An element, or a batch, with these leaves; tf.data takes tuples only, and stacks lists."""
        return _packed(self.structure, leaves, lists)


def layout_of(element: Any) -> Layout:
    """The layout of a dataset with this first element."""
    values: list[Any] = []
    structure = _described(element, values)
    return Layout(structure, tuple(leaf_of(value) for value in values))


def leaf_of(value: Any) -> Leaf:
    """What a value is; lists and numbers of other kinds are refused rather than changed."""
    for name, kind in PYTHON.items():
        if type(value) is kind:
            return Leaf(name, str(np.asarray(value).dtype), ())
    if isinstance(value, str):
        return Leaf("str", "uint8", ())
    if isinstance(value, bytes):
        return Leaf("bytes", "uint8", ())
    if _is_torch(value):
        return Leaf("tensor", str(value.dtype).removeprefix("torch."), tuple(value.shape))
    if isinstance(value, np.ndarray) and value.dtype == object:
        kinds = {type(item) for item in value.ravel()}
        if kinds == {bytes} or kinds == {str}:
            return Leaf(f"texts of {kinds.pop().__name__}", "uint8", value.shape)
    elif isinstance(value, np.generic):
        return Leaf("scalar", dtype_name(value.dtype), ())
    elif isinstance(value, np.ndarray) and value.dtype.names is None:
        return Leaf("array", dtype_name(value.dtype), value.shape)
    elif type(value).__module__.startswith(("tensorflow", "jax")) and hasattr(value, "__array__"):
        return leaf_of(np.asarray(_plain(value)))
    raise StoreError(
        f"A store keeps arrays, tensors, numbers and texts, not {type(value).__name__}: return one of those for it."
    )


def array_of(leaf: Leaf, value: Any) -> np.ndarray[Any, Any]:
    """The values of a leaf as they are kept; refuses a value of another kind than the first had."""
    if leaf.kind == "tensor" and _is_torch(value):
        value = value.detach().cpu()
        found = str(value.dtype).removeprefix("torch.")
        array = bits(value) if found in EXTENDED else value.numpy()
    elif leaf.is_text:
        array = np.asarray(_plain(value), dtype=object)
        found = leaf.dtype
        wanted = str if leaf.kind.endswith("str") else bytes
        if any(not isinstance(item, wanted) for item in array.ravel()):
            found = "something else than " + wanted.__name__
    else:
        kind = PYTHON.get(leaf.kind)
        array = np.asarray(_plain(value))
        found = dtype_name(array.dtype) if kind is None or type(value) is kind else type(value).__name__
    if found != leaf.dtype or array.ndim != leaf.rank:
        raise StoreError(
            f"The first element had a {leaf.kind} of {leaf.dtype} with {leaf.rank} dimensions where another has "
            f"{found} with {array.ndim}: give all elements the same kind of leaves."
        )
    return array


def value_of(leaf: Leaf, array: np.ndarray[Any, Any]) -> Any:
    """A kept leaf as it was."""
    if leaf.kind in PYTHON:
        return PYTHON[leaf.kind](array)
    if leaf.kind in ("str", "bytes", "scalar"):
        return array[()]
    return tensor_of(leaf, array) if leaf.kind == "tensor" else array


EXTENDED = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
"""Number formats that numpy does not know by itself."""


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of this name, also of those that numpy learns from ml_dtypes."""
    if name in EXTENDED:
        import ml_dtypes

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return extended
    return np.dtype(name)


def dtype_name(dtype: np.dtype[Any]) -> str:
    plain = dtype.isnative and dtype.kind not in "SUmM"
    return dtype.name if plain or dtype.name in EXTENDED else dtype.str


def bits(tensor: Any) -> np.ndarray[Any, Any]:
    """A torch tensor of a format that numpy does not know, bit by bit."""
    import torch

    name = str(tensor.dtype).removeprefix("torch.")
    plain = torch.int16 if tensor.element_size() == 2 else torch.int8
    array: np.ndarray[Any, Any] = tensor.contiguous().view(plain).numpy().view(dtype_of(name))
    return array


def tensor_of(leaf: Leaf, array: np.ndarray[Any, Any]) -> Any:
    """An array as a torch tensor, on memory that torch may write to."""
    import torch

    array = np.array(array)
    if leaf.dtype in EXTENDED:
        plain = np.int16 if array.itemsize == 2 else np.int8
        return torch.from_numpy(array.view(plain)).view(getattr(torch, leaf.dtype))
    return torch.from_numpy(array)


def _plain(value: Any) -> Any:
    """A tensor of TensorFlow as numpy has it; `np.asarray` alone fails on some of its scalars."""
    return value.numpy() if hasattr(value, "numpy") else value


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _described(value: Any, leaves: list[Any]) -> Node:
    if value is None:
        return {"none": True}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        home = f"{type(value).__module__}:{type(value).__qualname__}"
        return {"named": home, "fields": list(value._fields), "items": [_described(item, leaves) for item in value]}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_described(item, leaves) for item in value]}
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise StoreError("A store keeps dictionaries with texts as keys: rename the others.")
        return {"dict": [[key, _described(item, leaves)] for key, item in value.items()]}
    leaves.append(value)
    return {"leaf": len(leaves) - 1}


def _collect(node: Node, value: Any, found: list[Any]) -> None:
    if "leaf" in node:
        if isinstance(value, tuple | list | dict) or value is None:
            raise _differs(node, value)
        found.append(value)
    elif "none" in node:
        if value is not None:
            raise _differs(node, value)
    elif "dict" in node:
        if not isinstance(value, dict) or set(value) != {key for key, _ in node["dict"]}:
            raise _differs(node, value)
        for key, inner in node["dict"]:
            _collect(inner, value[key], found)
    else:
        items: list[Node] = node["items"] if "named" in node else next(iter(node.values()))
        if not isinstance(value, list if "list" in node else tuple) or len(value) != len(items):
            raise _differs(node, value)
        for inner, item in zip(items, value, strict=True):
            _collect(inner, item, found)


def _differs(node: Node, value: Any) -> StoreError:
    return StoreError(
        f"The first element had a {next(iter(node))} where another has a {type(value).__name__} or other keys: "
        "give all elements the same structure."
    )


def _packed(node: Node, leaves: Sequence[Any], lists: type) -> Any:
    if "leaf" in node:
        return leaves[node["leaf"]]
    if "none" in node:
        return None
    if "dict" in node:
        return {key: _packed(inner, leaves, lists) for key, inner in node["dict"]}
    if "named" in node:
        return _named(node)(*(_packed(item, leaves, lists) for item in node["items"]))
    kind, items = next(iter(node.items()))
    return (lists if kind == "list" else tuple)(_packed(item, leaves, lists) for item in items)


def _named(node: Node) -> Any:
    """The user's own named tuple, or one like it where its module cannot be imported."""
    module, _, name = node["named"].partition(":")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found
    except (ImportError, AttributeError):
        return collections.namedtuple(name.rpartition(".")[2], node["fields"])
