"""Where the user's code made a layer or a metric: the line that a finding on it is about."""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from types import FrameType
from typing import Any

from fitscope.observe.ledger import Place
from fitscope.observe.seams import Seams, user_place

_made: weakref.WeakKeyDictionary[Any, Place] = weakref.WeakKeyDictionary()


def hold(seams: Seams) -> None:
    """Holds what every layer and every metric goes through when it is made, once each.

    Of layers that is `__new__`: Keras looks at the parameters of a layer's `__init__`.
    """
    from keras.src.layers.layer import Layer
    from keras.src.metrics.metric import Metric

    new, init = Layer.__new__, Metric.__init__

    @functools.wraps(new)
    def made(kind: Any, *args: Any, **kwargs: Any) -> Any:
        layer = new(kind, *args, **kwargs)
        _note(layer, sys._getframe(1))
        return layer

    @functools.wraps(init)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        _note(self, sys._getframe(1))

    seams.replace(Layer, "__new__", staticmethod(made))
    seams.replace(Metric, "__init__", initialize)


def _note(thing: Any, frame: FrameType) -> None:
    place = user_place(frame)
    if place is not None:
        with contextlib.suppress(TypeError):  # a class whose objects cannot be keys
            _made[thing] = place


def place_of(thing: Any) -> dict[str, Any]:
    """File and line that made a layer or a metric, as a fact has them; nothing where nobody saw it."""
    place = None
    with contextlib.suppress(TypeError):
        place = _made.get(thing)
    return {"file": place.file, "line": place.line} if place is not None else {"file": None, "line": None}
