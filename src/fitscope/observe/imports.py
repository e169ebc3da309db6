"""Doing something right after a module has been imported, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class Finder(importlib.abc.MetaPathFinder):
    """Watches for the import of some top-level packages."""

    def __init__(self, actions: dict[str, Callable[[], None]]) -> None:
        self.actions = actions
        self._asking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Finds the module as everybody else does, and puts a loader of ours around its loader."""
        if fullname not in self.actions or fullname in self._asking:
            return None
        self._asking.add(fullname)  # another of our kind, which looks for the same, asks us back
        try:
            for finder in sys.meta_path:
                if finder is self or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                        spec.loader = _Loader(spec.loader, lambda: self._act(fullname))  # type: ignore[assignment]
                    return spec
        finally:
            self._asking.discard(fullname)
        return None

    def watch(self) -> None:
        """Acts at once for what is imported already, and from now on for the rest."""
        for name in list(self.actions):
            module = sys.modules.get(name)
            if module is not None and not getattr(module.__spec__, "_initializing", False):
                self._act(name)
        sys.meta_path.insert(0, self)

    def _act(self, name: str) -> None:
        action = self.actions.pop(name, None)
        if action is not None and (self in sys.meta_path or name in sys.modules):
            action()

    def unwatch(self) -> None:
        """Imports are nobody's business again."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _Loader:
    """Another loader, and an action once it has done its work."""

    def __init__(self, loader: Any, action: Callable[[], None]) -> None:
        self._loader = loader
        self._action = action

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._loader, attribute)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """As the loader does it."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module as if nothing stood between, then acts."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._action()
