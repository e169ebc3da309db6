"""Training loops written by hand over nothing that fitscope holds: `for i in range(0, n, 32):`.

Such a loop has no call around it and no iterator. It is seen at the optimizer: from one eager update of the weights
to the next of the same line is a step. A compiled step calls no Python: it is known by the update that is traced in
it (on JAX also by the gradient of a model), and seen at its calls (`compiled_steps`). One that is made and traced
anew for every call is seen from trace to trace.
"""

from __future__ import annotations

import functools
import sys
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, NamedTuple

from fitscope.observe import loops
from fitscope.observe.backends import Backend
from fitscope.observe.calls import Stations
from fitscope.observe.compiles import count, shapes
from fitscope.observe.ledger import Ledger, Place, clock
from fitscope.observe.loops import BODY, is_traced
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams, user_frame
from fitscope.observe.stepping import EnoughRecorded

MOST_SECONDS = 5
"""A longer time between two updates was spent on something else, if steps are not that slow."""

MANY_TRACES = 3
"""A step is traced once or twice in any training."""

_stations: dict[int, Stations] = {}
_places: dict[tuple[str, int], Place] = {}
"""Where the function that begins at a line first updated its weights."""
_traces: dict[Place, list[Trace]] = {}
"""Traces that are not charged to anybody yet."""
_retraced: set[Place] = set()
_given: dict[int, Any] = {}
"""The shapes of what each thread's function that updates weights was given when it was last traced."""
_compiled: dict[tuple[Place | None, str], Any] = {}
"""Those shapes at the last compilation of each function."""


def hold(seams: Seams, backend: Backend) -> None:
    """Holds the update of the weights."""
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    original, ledgers, compiling = BaseOptimizer.apply, recorder.ledgers, backend.compiling()

    def updating(ledger: Ledger, optimizer: Any, args: Any, kwargs: Any) -> Any:
        given = _gradients(args, kwargs)
        if given and is_traced(given[0]):
            ledger.updates_traced += 1
            _step_traced(ledger, user_frame(sys._getframe(2)))
            return None
        return user_frame(sys._getframe(2)) if given else None

    def updated(ledger: Ledger, frame: Any, result: Any, error: BaseException | None) -> None:
        if frame is not None and error is None:
            _step(ledger, loop_in(frame))
            if recorder.stopped:
                raise EnoughRecorded

    seams.hold(BaseOptimizer, "apply", updating, updated, anyone=True)
    outside = BaseOptimizer.apply

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        if compiling():
            return original(self, *args, **kwargs)
        ledger = ledgers.get(get_ident())
        if ledger is not None and (ledger.call is not None or ledger.loop is not None):
            if ledger.loop is not None and not ledger.loop.updates:
                loops.updates(ledger.loop)
            if ledger.call is None:
                if any(is_traced(each) for each in _gradients(args, kwargs)[:1]):
                    ledger.updates_traced += 1
                else:
                    ledger.updated += 1
            return original(self, *args, **kwargs)  # a step of what is held anyway: in every step on PyTorch
        return outside(self, *args, **kwargs)

    seams.replace(BaseOptimizer, "apply", apply)
    _hold_gradients(seams)


def _hold_gradients(seams: Seams) -> None:
    """On JAX weights may be changed without an optimizer of Keras: the gradient of a model is what tells a step.

    Whether the gradient changes any weights is not seen: a compiled function that only looks at it is a step, too.
    """
    from keras.src.layers.layer import Layer

    def calling(ledger: Ledger, layer: Any, args: Any, kwargs: Any) -> Any:
        weights = args[0] if args else kwargs.get("trainable_variables")
        if ledger.call is None and isinstance(weights, list | tuple) and weights and _is_differentiated(weights[0]):
            ledger.gradients_traced += 1
            if ledger.loop is None:
                _step_traced(ledger, user_frame(sys._getframe(2)))
            elif not ledger.loop.updates:
                loops.updates(ledger.loop)

    seams.hold(Layer, "stateless_call", calling, lambda *_: None, anyone=True)


def _is_differentiated(value: Any) -> bool:
    """Whether a gradient with respect to this weight is being compiled."""
    differentiated = False
    while type(value).__name__ in ("JVPTracer", "LinearizeTracer"):
        value, differentiated = value.primal, True
    return differentiated and is_traced(value)


def _step_traced(ledger: Ledger, frame: FrameType | None) -> None:
    """A function that is being compiled for code outside of all that is held is a step."""
    ledger.traces_update = True
    if frame is not None:
        _given[ledger.ident] = shapes([frame.f_locals.get(name) for name in _arguments(frame.f_code)])


def _gradients(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    gradients = args[0] if args else kwargs.get("grads")
    if not isinstance(gradients, list | tuple):  # whatever can be gone through once only is the optimizer's
        return []
    return [each for each in gradients if each is not None]


def gradient_compiled(ledger: Ledger) -> None:
    """The loop that updates its weights eagerly has at least their gradient compiled."""
    if ledger.last_update is not None:
        recorder.fact("gradient-compiled", lasting=True, root=ledger.last_update[0])


def loop_in(frame: FrameType) -> Place:
    """The place of the loop that this frame runs: a function with two optimizers is one loop, not two."""
    file, function = frame.f_code.co_filename, frame.f_code.co_firstlineno
    return _places.setdefault((file, function), Place(file, frame.f_lineno))


def _arguments(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


class Trace(NamedTuple):
    """One trace of a compiled step: nanoseconds that it took, and why it was made."""

    took: int
    function: str
    cause: str
    detail: str


def traced(ledger: Ledger, where: Place | None, trace: Trace) -> None:
    """A function that updates weights was traced, outside of all that is held, for a call on that line."""
    if where is None:
        return
    traces = _traces.setdefault(where, [])
    traces.append(trace)
    if where not in _retraced and len(traces) < MANY_TRACES:
        if ledger.last_batch is not None:  # the pause after that step does not hold what is charged here later
            root, ended, idle = ledger.last_batch
            ledger.last_batch = (root, ended, idle + trace.took)
        return
    _retraced.add(where)
    charged = _step(ledger, where, eager=False)
    stations = _stations[recorder.root(ledger, "loop", where)]
    taken = charge_traces(ledger, where, stations, stations.step if charged else ledger.outside)
    if not charged and ledger.last_update is not None:
        root, now, idle = ledger.last_update
        ledger.last_update = (root, now, idle - taken)


def forget_traces() -> None:
    """What was traced in one recording is not charged in the next."""
    _traces.clear()


def charge_traces(ledger: Ledger, where: Place, stations: Stations, owner: int | None = None) -> int:
    """The traces of the step on that line belong to a loop; gives the nanoseconds that the owner had for them."""
    traces = _traces.pop(where, [])
    taken = sum(each.took for each in traces)
    if traces:
        ledger.move(ledger.outside if owner is None else owner, stations.trace, taken)
    for each in traces:
        count(stations.root, each.function, each.cause, each.detail, each.took, where)
        ledger.counts[stations.trace] += 1
    return taken


def compiled(ledger: Ledger, where: Place | None, took: int, function: str) -> None:
    """A function that updates weights was compiled, outside of all that is held: its shapes tell why."""
    given = _given.pop(ledger.ident, None)
    before = _compiled.get((where, function), _compiled)
    _compiled[where, function] = given
    if before is _compiled:
        cause, detail = "first", ""
    elif before != given:
        cause, detail = "changed shape", ""
    else:
        cause, detail = "new function", "it was made anew, or given another Python value"
    traced(ledger, where, Trace(took, function, cause, detail))


def _step(ledger: Ledger, where: Place, *, eager: bool = True) -> bool:
    """The weights were changed: what passed since the last time was a step, if the same line did that.

    Says whether that time was charged to the loop.
    """
    root = recorder.root(ledger, "loop", where)
    if root not in _stations:
        _stations[root] = Stations(recorder.tree, root, BODY)
    stations, region = _stations[root], recorder.regions[root]
    now = clock()
    idle = ledger.spent[ledger.outside] + (now - ledger.since if ledger.node == ledger.outside else 0)
    last = ledger.last_update
    ledger.last_update = (root, now, idle)
    if last is None or last[0] != root:
        ledger.seen_outside.clear()
        region.calls += 1
        recorder.fact("loop-trains", lasting=True, root=root, eager=eager)
        recorder.fact("loop-updates", lasting=True, root=root)
        return False
    took = now - last[1]
    usual = ledger.spent[stations.step] / region.steps if region.steps else 0.0
    if took > MOST_SECONDS * 1e9 and took > 10 * usual:
        ledger.seen_outside.clear()
        return False
    recorder.claim_outside(ledger, stations.step, max(0, idle - last[2]))
    ledger.last_update = (root, now, min(idle, last[2]))
    ledger.counts[stations.step] += 1
    region.step(took)
    return True
