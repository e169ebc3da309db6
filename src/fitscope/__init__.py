"""Why a Keras 3 training is slow, what to change, and whether it is then really faster."""

import importlib
from typing import TYPE_CHECKING, Any

from fitscope.version import __version__

__all__ = ["Profiler", "__version__", "profile"]

if TYPE_CHECKING:
    from fitscope.profiler import Profiler
    from fitscope.profiling import profile

_HOMES = {
    "Profiler": "fitscope.profiler",
    "profile": "fitscope.profiling",
}


def __getattr__(name: str) -> Any:
    """The public names are loaded on demand: the recorder is imported without any of our dependencies."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fitscope' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext fitscope` in a notebook."""
    from fitscope.notebook import register

    register(shell)
