"""Which stage of a training's tf.data pipeline is slow: timed when the training is about to begin, then told."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from fitscope.observe import tfdata
from fitscope.observe.backends import Backend
from fitscope.observe.removals.training import Target
from fitscope.observe.seams import Seams


def hold(seams: Seams, backend: Backend, plan: dict[str, Any], write: Callable[[dict[str, Any]], None]) -> None:
    """Holds the `fit` that is meant, and times the pipeline that it is given."""
    target = Target(plan)
    trainer, iterator = backend.trainer(), backend.epoch_iterator()
    fit, made = trainer.fit, iterator.__init__

    @functools.wraps(fit)
    def held(self: Any, *args: Any, **kwargs: Any) -> Any:
        if target.is_called_from(sys._getframe(1)):
            target.model = self
        return fit(self, *args, **kwargs)

    @functools.wraps(made)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        if target.model is not None and target.epochs is None:
            target.epochs = self
            try:
                write(_located(getattr(self.data_adapter, "_dataset", None), plan))
            except Exception as error:
                write({"impossible": f"{type(error).__name__}: {error}"})

    seams.replace(trainer, "fit", held)
    seams.replace(iterator, "__init__", init)


def _located(dataset: Any, plan: dict[str, Any]) -> dict[str, Any]:
    tf = sys.modules.get("tensorflow")
    if tf is None or not isinstance(dataset, tf.data.Dataset):
        return {"impossible": "the input is no tf.data pipeline"}
    # By name: this package is loaded where nothing but the standard library is, remedies only beside TensorFlow.
    cuts: Any = importlib.import_module("fitscope.remedy.tuning.cuts")
    whole, found = cuts.costs(dataset, plan["seconds"])
    return {"whole": whole, "cuts": [_described(each, plan["top"]) for each in found]}


def _described(cut: Any, top: str) -> dict[str, Any]:
    where = tfdata.place_of_stage(cut.stage)
    file, line = where or (None, None)
    if file is not None and os.path.realpath(file).startswith(os.path.realpath(top) + os.sep):
        file = os.path.relpath(os.path.realpath(file), os.path.realpath(top))
    return {"kind": cut.kind, "file": file, "line": line, "seconds": cut.seconds}
