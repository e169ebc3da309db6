"""Why a Keras 3 training is slow, what to change, and whether it is then really faster."""

import importlib
from typing import TYPE_CHECKING, Any

from fitscope.version import __version__

__all__ = [
    "Background",
    "BackgroundCheckpoint",
    "Every",
    "Loader",
    "Profiler",
    "__version__",
    "materialize",
    "metrics",
    "profile",
    "tune",
]

if TYPE_CHECKING:
    from fitscope import metrics
    from fitscope.profiler import Profiler
    from fitscope.profiling import profile
    from fitscope.remedy.background import Background
    from fitscope.remedy.checkpoint import BackgroundCheckpoint
    from fitscope.remedy.every import Every
    from fitscope.remedy.loader import Loader
    from fitscope.remedy.materialize import materialize
    from fitscope.remedy.tune import tune

_HOMES = {
    "Profiler": "fitscope.profiler",
    "profile": "fitscope.profiling",
    "Background": "fitscope.remedy.background",
    "BackgroundCheckpoint": "fitscope.remedy.checkpoint",
    "Every": "fitscope.remedy.every",
    "Loader": "fitscope.remedy.loader",
    "materialize": "fitscope.remedy.materialize",
    "tune": "fitscope.remedy.tune",
}


def __getattr__(name: str) -> Any:
    """The public names are loaded on demand: the recorder is imported without any of our dependencies."""
    if name == "metrics":
        return importlib.import_module("fitscope.metrics")
    if name not in _HOMES:
        raise AttributeError(f"module 'fitscope' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext fitscope` in a notebook."""
    from fitscope.notebook import register

    register(shell)
