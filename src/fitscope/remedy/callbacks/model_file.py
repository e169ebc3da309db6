"""A Keras model's file in two halves: the values taken into memory at once, the file written from them at leisure."""

from __future__ import annotations

import contextlib
import inspect
import io
import mmap
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

try:
    # Keras exports how a model is saved only as a whole, in one blocking call.
    from keras.src.saving import saving_lib
except ImportError:
    saving_lib = None

WHOLE, WEIGHTS = ".keras", ".weights.h5"

# From how many bytes on an array is left where it is.
_LARGE = 1 << 14

_WALK = ["saveable", "weights_store", "assets_store", "inner_path", "visited_saveables"]
_NAMES = ["_serialize_model_as_json", "_VARS_FNAME_H5", "_CONFIG_FILENAME", "_METADATA_FILENAME", "_ASSETS_DIRNAME"]


def obstacle(model: Any, suffix: str) -> str | None:
    """Why this model cannot be saved in two halves; None if it can."""
    own = "save" if suffix == WHOLE else "save_weights"
    if getattr(type(model), own, None) is not getattr(keras.Model, own):
        return f"{type(model).__name__} has a `{own}` of its own"
    try:
        as_expected = list(inspect.signature(saving_lib._save_state).parameters) == _WALK
        as_expected &= all(hasattr(saving_lib, name) for name in _NAMES)
        as_expected &= all(hasattr(saving_lib.H5IOStore, name) for name in ("make", "close"))
        as_expected &= all(hasattr(saving_lib.DiskIOStore, name) for name in ("make", "close"))
    except AttributeError:
        as_expected = False
    return None if as_expected else f"Keras {keras.__version__} saves models in a way that fitscope does not know"


class Snapshot:
    """All that Keras would write of a model at this moment, copied: training may go on."""

    def __init__(self, model: Any, suffix: str) -> None:
        self._texts: dict[str, str] = {}
        self._assets: Any = None
        self._weights = _weights_in_memory(_paths_of_copies(model))
        if suffix == WHOLE:
            config, metadata = saving_lib._serialize_model_as_json(model)
            self._texts = {saving_lib._METADATA_FILENAME: metadata, saving_lib._CONFIG_FILENAME: config}
            self._assets = saving_lib.DiskIOStore(saving_lib._ASSETS_DIRNAME, mode="w")
        elif not model.built:
            raise ValueError("The model has no weights to save yet: it has not been built.")
        try:
            saving_lib._save_state(
                model,
                weights_store=self._weights,
                assets_store=self._assets,
                inner_path="",
                visited_saveables=set(),
            )
        except BaseException:
            self.discard()
            raise

    def write(self, path: Path) -> None:
        """Writes what `model.save(path)` or `model.save_weights(path)` would have written. Works once."""
        try:
            weights = self._weights_file()
            if self._assets is None:
                with path.open("wb") as file:
                    file.writelines(weights.parts())
                return
            with zipfile.ZipFile(path, "w") as archive:
                for name, text in self._texts.items():
                    archive.writestr(name, text)
                large = weights.size >= zipfile.ZIP64_LIMIT // 2
                with archive.open(saving_lib._VARS_FNAME_H5, "w", force_zip64=large) as member:
                    member.writelines(weights.parts())
                self._assets.archive = archive
                self._assets.close()
        finally:
            self.discard()

    def discard(self) -> None:
        """Lets go of the memory and of the assets' temporary folder."""
        self._weights.entries.clear()
        if self._assets is not None:
            self._assets.archive = None
            self._assets.close()

    def _weights_file(self) -> _Image:
        """The weights as an HDF5 file in memory: HDF5 itself crashes the whole process where a disk is full."""
        entries = self._weights.entries
        image = _Image(sum(value.nbytes for _, _, values in entries for value in values.values()))
        store = saving_lib.H5IOStore(image, mode="w")
        try:
            for inner_path, metadata, values in entries:
                entry = store.make(inner_path, metadata) if metadata else store.make(inner_path)
                for key, value in values.items():
                    with image.lent(value):
                        entry[key] = _AsItIs(value)
        finally:
            store.close()
        return image


class WrittenFile:
    """What stands in for a snapshot where none can be taken: a file that the model itself has written, at once."""

    def __init__(self, model: Any, suffix: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fitscope-checkpoint-")
        self._path = Path(self._folder.name, "model" + suffix)
        if suffix == WHOLE:
            model.save(self._path, overwrite=True)
        else:
            model.save_weights(self._path, overwrite=True)

    def write(self, path: Path) -> None:
        """Moves the file to where it is wanted. Works once."""
        try:
            shutil.move(self._path, path)
        finally:
            self.discard()

    def discard(self) -> None:
        """Removes the file if it has not been moved."""
        self._folder.cleanup()


def _paths_of_copies(model: Any) -> frozenset[str]:
    """Where Keras itself hands copies to its store, so that they need not be copied again."""
    optimizer = getattr(model, "optimizer", None)
    method = getattr(type(optimizer), "save_own_variables", None)
    return frozenset({"optimizer"} if method is keras.optimizers.Optimizer.save_own_variables else ())


def _weights_in_memory(paths_of_copies: frozenset[str]) -> Any:
    """A store that Keras' saving walk takes for its own; made on demand because its base class may not exist."""

    class WeightsInMemory(saving_lib.H5IOStore):  # type: ignore[misc]
        """Keeps copies of all values in the order in which they came."""

        def __init__(self) -> None:
            self.mode = "w"
            self.entries: list[tuple[str, dict[str, Any] | None, dict[str, Any]]] = []

        def __bool__(self) -> bool:
            return True

        def make(self, path: str, metadata: dict[str, Any] | None = None) -> Any:
            self.entries.append((path, metadata, {}))
            return self

        def close(self) -> None:
            pass

        def __setitem__(self, key: str, value: Any) -> None:
            path, _, values = self.entries[-1]
            if isinstance(value, np.ndarray) and value.flags.owndata and path in paths_of_copies:
                values[key] = value
                return
            value = value.value if isinstance(value, keras.Variable) else value
            array = keras.ops.convert_to_numpy(value)
            values[key] = array if array.flags.owndata and array is not value else array.copy()

        def __getitem__(self, key: str) -> Any:
            return self.entries[-1][2][key]

        def __delitem__(self, key: str) -> None:
            del self.entries[-1][2][key]

        def __contains__(self, key: object) -> bool:
            return key in self.entries[-1][2]

        def __len__(self) -> int:
            return len(self.entries[-1][2])

        def keys(self) -> Any:
            return self.entries[-1][2].keys()

    return WeightsInMemory()


class _AsItIs:
    """An array that NumPy takes without the copy that Keras' store would make of it."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._array


class _Image(io.BytesIO):
    """A file in memory that remembers where large arrays belong instead of holding their bytes.

    Memory is what a copy costs: new pages for as many bytes as the model has take longer than writing them.
    """

    def __init__(self, expected_size: int) -> None:
        super().__init__()
        self.size = 0
        self._at = 0
        self._bytes = _zeros(expected_size + (1 << 24))
        self._arrays: dict[int, Any] = {}
        self._lent: Any = np.empty(0, np.uint8)

    @contextlib.contextmanager
    def lent(self, array: Any) -> Iterator[None]:
        """What is written meanwhile out of this array's memory need not be copied: the array stays as it is."""
        flat = array.reshape(-1) if array.flags.c_contiguous else np.empty(0, np.uint8)
        self._lent = flat.view(np.uint8)
        try:
            yield
        finally:
            self._lent = np.empty(0, np.uint8)

    def parts(self) -> Iterator[memoryview]:
        """The bytes of the file in their order."""
        done = 0
        for start in sorted(self._arrays):
            yield self._bytes[done:start].data
            yield self._arrays[start].data
            done = start + self._arrays[start].size
        yield self._bytes[done : self.size].data

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self.size)[whence]
        return self._at

    def write(self, data: Any) -> int:
        new = np.frombuffer(data, np.uint8)
        start, end = self._at, self._at + new.size
        self._reach(end)
        self._take_back(start, end)
        offset = new.ctypes.data - self._lent.ctypes.data
        if new.size >= _LARGE and 0 <= offset <= self._lent.size - new.size:
            self._arrays[start] = self._lent[offset : offset + new.size]
        else:
            self._bytes[start:end] = new
        self._at = end
        return int(new.size)

    def readinto(self, target: Any) -> int:
        wanted = np.frombuffer(target, np.uint8)
        end = min(self._at + wanted.size, self.size)
        self._take_back(self._at, end)
        part = self._bytes[self._at : end]
        wanted[: part.size] = part
        self._at += part.size
        return int(part.size)

    def truncate(self, size: int | None = None) -> int:
        size = self._at if size is None else size
        self._take_back(size, self.size)
        self._reach(size)
        self.size = size
        return size

    def _take_back(self, start: int, end: int) -> None:
        """Copies the arrays that lie here after all."""
        for at in [at for at, array in self._arrays.items() if at < end and start < at + array.size]:
            array = self._arrays.pop(at)
            self._bytes[at : at + array.size] = array

    def _reach(self, size: int) -> None:
        if size > self._bytes.size:
            longer = _zeros(2 * size)
            longer[: self.size] = self._bytes[: self.size]
            self._bytes = longer
        self.size = max(self.size, size)


def _zeros(size: int) -> Any:
    """Bytes that take no memory until they are written."""
    return np.frombuffer(mmap.mmap(-1, size), np.uint8)
