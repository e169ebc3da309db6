"""Found first on PYTHONPATH by the Python that `fitscope run` starts: begins the recording, then steps aside.

Runs before the user's script, maybe in an environment where fitscope is not installed: it loads fitscope from
its own folder, without making anything else importable, and then runs the user's own sitecustomize.
"""

import importlib.machinery
import importlib.util
import os
import sys


def _load_fitscope(folder: str) -> None:
    if "fitscope" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "fitscope", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["fitscope"] = module
        spec.loader.exec_module(module)


def _run_next_sitecustomize(here: str) -> None:
    rest = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != _here]
try:
    _load_fitscope(os.path.dirname(os.path.dirname(_here)))
    from fitscope.observe import start as _start

    _start.start()
except Exception as _error:
    sys.stderr.write(f"fitscope: this process is not recorded ({type(_error).__name__}: {_error})\n")
_run_next_sitecustomize(_here)
