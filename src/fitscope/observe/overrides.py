"""Other settings than the script's own, for one run of it: what `compile` and `fit` are given, and what is global.

One environment variable holds a dictionary of settings. What is in it takes the place of what the script says:

- `batch_size`, with `own_batch_size` where the script's own is known (see `batches.py`)
- `steps_per_execution`, `jit_compile`: arguments of `compile`
- `precision`: the global dtype policy; `backend`: the backend of Keras
- `prolong`: [file, line] of a `fit` that is to go on until it is ended

What a training had in the end is noted as the fact `trained-with`; a setting that cannot be given to a training ends
the run with the fact `refused`.
"""

from __future__ import annotations

import functools
import importlib.abc
import inspect
import json
import os
import sys
from collections.abc import Callable
from threading import get_ident
from typing import Any

from fitscope.observe import backends, batches
from fitscope.observe.imports import Finder
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import user_place

COMPILE_SETTINGS = ("steps_per_execution", "jit_compile")
MANY_EPOCHS = 1_000_000

_began_in = os.getcwd()


def begin(text: str) -> None:
    """Puts the settings of this text in the place of the script's own, as soon as there is a place."""
    wish: dict[str, Any] = json.loads(text)
    if "backend" in wish:
        sys.meta_path.insert(0, _Chooser(str(wish["backend"])))
    Finder(
        {
            "keras": lambda: _guarded(_keras, wish),
            "tensorflow": lambda: _guarded(batches.hold_tensorflow, wish),
            "torch": lambda: _guarded(batches.hold_torch, wish),
        }
    ).watch()


def _guarded(action: Callable[[dict[str, Any]], None], wish: dict[str, Any]) -> None:
    try:
        action(wish)
    except Exception as error:  # an unusual version: the run tells that it trained with the script's own settings
        recorder.fact("problem", says=f"Settings could not be changed ({type(error).__name__}: {error}).")


class _Chooser(importlib.abc.MetaPathFinder):
    """Says which backend Keras is to take when it is imported, whatever the script has said before."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Finds nothing."""
        if fullname == "keras":
            os.environ["KERAS_BACKEND"] = self.backend


def _keras(wish: dict[str, Any]) -> None:
    keras: Any = sys.modules["keras"]
    if int(keras.__version__.split(".")[0]) < 3 or keras.config.backend() not in backends.NAMES:
        return
    from keras.src.trainers.trainer import Trainer

    trainer = backends.load(keras.config.backend()).trainer()
    if "precision" in wish:
        _fix_precision(keras, str(wish["precision"]))
    changed = {name: wish[name] for name in COMPILE_SETTINGS if name in wish}
    if changed:
        _change(Trainer, "compile", lambda model, given: given.update(changed))
    _change(trainer, "fit", lambda model, given: _fit(wish, model, given))
    _change(trainer, "train_on_batch", lambda model, given: _train_on_batch(wish, given))
    batches.hold_models()


def _change(owner: Any, name: str, change: Callable[[Any, dict[str, Any]], None]) -> None:
    """Lets `change` see and alter the arguments of every call of a method."""
    original = getattr(owner, name)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def changed(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)  # the user's mistake, told by Keras
        change(args[0], bound.arguments)
        return original(*bound.args, **bound.kwargs)

    setattr(owner, name, changed)


def _fix_precision(keras: Any, policy: str) -> None:
    """Sets the global policy; the script's own wish for another one is not heard."""
    keras.config.set_dtype_policy(policy)

    def set_dtype_policy(policy: Any) -> None:
        """The policy of this run is set."""

    for module, name in (
        ("keras.src.dtype_policies.dtype_policy", "set_dtype_policy"),
        ("keras.config", "set_dtype_policy"),
        ("keras.mixed_precision", "set_dtype_policy"),
        ("keras.mixed_precision", "set_global_policy"),
    ):
        if module in sys.modules:
            setattr(sys.modules[module], name, set_dtype_policy)


def _fit(wish: dict[str, Any], model: Any, given: dict[str, Any]) -> None:
    where = user_place(sys._getframe(2))
    if "batch_size" in wish:
        refusal = batches.resize(given, int(wish["batch_size"]))
        if refusal is not None:
            refuse("batch_size", refusal)
    place = [os.path.relpath(where.file, _began_in), where.line] if where is not None else []
    if "prolong" in wish and list(wish["prolong"]) == place:
        given["epochs"] = max(MANY_EPOCHS, int(given.get("epochs", 1)))
    _note(model, batches.size_of(given))


def _note(model: Any, size: batches.Size) -> None:
    ledger = recorder.ledgers.get(get_ident())
    call = ledger.call if ledger is not None else None
    if call is not None and call.outer is None:
        recorder.fact(
            "trained-with",
            root=call.root,
            source=size.source,
            batch_size=size.batch_size,
            rows=size.rows,
            steps_per_execution=int(getattr(model, "steps_per_execution", 1) or 1),
            jit_compile=bool(getattr(model, "jit_compile", False)) and not getattr(model, "run_eagerly", False),
            precision=str(model.dtype_policy.name),
        )


def _train_on_batch(wish: dict[str, Any], given: dict[str, Any]) -> None:
    if "batch_size" in wish:
        refuse("batch_size", batches.Refusal("train_on_batch is given its batches by the script"))
    ledger = recorder.ledgers.get(get_ident())
    call = ledger.call if ledger is not None else None
    if call is not None and call.region is not None and call.region.steps == 0:
        recorder.fact("rows", root=call.root, rows=batches.rows_of(given.get("x")))


class Refused(SystemExit):
    """Ends a script that cannot be given a setting; a SystemExit, so that `except Exception` lets it through."""

    def __init__(self) -> None:
        super().__init__(0)


def refuse(setting: str, refusal: batches.Refusal) -> None:
    """This script cannot be given a setting: says why and ends it."""
    recorder.fact("refused", setting=setting, **refusal._asdict())
    raise Refused
