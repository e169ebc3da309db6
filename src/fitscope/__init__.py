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
    from fitscope.remedy.callbacks.background import Background
    from fitscope.remedy.callbacks.checkpoint import BackgroundCheckpoint
    from fitscope.remedy.callbacks.every import Every
    from fitscope.remedy.loading.loader import Loader
    from fitscope.remedy.storing.materialize import materialize
    from fitscope.remedy.tuning.tune import tune

_HOMES = {
    "Profiler": "fitscope.profiler",
    "profile": "fitscope.profiling",
    "Background": "fitscope.remedy.callbacks.background",
    "BackgroundCheckpoint": "fitscope.remedy.callbacks.checkpoint",
    "Every": "fitscope.remedy.callbacks.every",
    "Loader": "fitscope.remedy.loading.loader",
    "materialize": "fitscope.remedy.storing.materialize",
    "tune": "fitscope.remedy.tuning.tune",
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
