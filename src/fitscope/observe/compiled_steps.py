"""Steps that the user's own loop compiles: a `tf.function` or a `jax.jit` function that updates weights.

Where such a loop goes through nothing that is held (arrays, a generator), it is seen at that function: it is known by
the update that is traced in it, and from its second call on each call is a step. What passes between two steps is the
user's own code, which makes the next batch; where steps are only dispatched, a wait for them may be in it.
"""

from __future__ import annotations

import copy
import functools
import operator
import sys
import weakref
from threading import get_ident
from types import FrameType, MethodType
from typing import Any

from fitscope.observe import loops, updates
from fitscope.observe.calls import Call, Stations
from fitscope.observe.ledger import Ledger, Place, clock
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams, is_user, user_frame
from fitscope.observe.stepping import EnoughRecorded

LONG = 10
LONG_NANOSECONDS = 50_000_000
"""A pause that is both so many times a step, and so long, lies between two epochs."""

_stations: dict[int, Stations] = {}
_steps: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
"""Every `tf.function` that is known to be a step, and whether it is only dispatched."""
_ledgers = recorder.ledgers


# --- one step ---------------------------------------------------------------------------------------------


def begin(ledger: Ledger, frame: FrameType, batch: Any, *, dispatched: bool) -> Call:
    """A step is called by the user's code; `dispatched`: it may return before it is done."""
    where = updates.loop_in(frame)
    root = recorder.root(ledger, "loop", where)
    region = recorder.regions[root]
    if root not in _stations:
        _stations[root] = Stations(recorder.tree, root, loops.BODY if dispatched else "step")
        region.calls += 1
        recorder.fact("loop-trains", lasting=True, root=root, eager=False)
        recorder.fact("loop-updates", lasting=True, root=root)
    stations = _stations[root]
    updates.charge_traces(ledger, Place(frame.f_code.co_filename, frame.f_lineno), stations)
    last = ledger.last_batch
    if last is not None and last[0] == root:
        idle = ledger.spent[ledger.outside] + (clock() - ledger.since if ledger.node == ledger.outside else 0)
        node = _owner(ledger, stations, max(0, idle - last[2]), region.steps, dispatched=dispatched)
        if node is None:
            ledger.last_batch = None
        else:
            recorder.claim_outside(ledger, node, max(0, idle - last[2]))
            ledger.counts[node] += 1
    call = Call("loop", stations, ledger, region, None)
    call.batch = batch
    ledger.call = call
    call.step_began = ledger.enter(stations.step)
    return call


def _owner(ledger: Ledger, stations: Stations, pause: int, steps: int, *, dispatched: bool) -> int | None:
    """What a pause between two steps belongs to; None if something else was done in it."""
    usual = (ledger.spent[stations.step] + ledger.spent[stations.between]) / max(1, steps)
    if pause <= max(LONG * usual, LONG_NANOSECONDS) or not steps:
        return stations.step if dispatched else stations.between
    if pause > updates.MOST_SECONDS * 1e9:
        return None
    return stations.step if dispatched else stations.end


def end(ledger: Ledger, call: Call) -> None:
    """It has returned or raised."""
    call.batch = None
    ledger.call = call.outer
    now = ledger.back(call.resume)
    last = ledger.last_batch
    if call.region is not None:
        call.region.step(now - (last[1] if last is not None and last[0] == call.root else call.step_began))
    ledger.last_batch = (call.root, now, ledger.spent[ledger.outside])
    ledger.seen_outside.clear()


def _run(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, dispatched: bool) -> Any:
    """Calls a function that is known to be a step."""
    ledger = _ledgers.get(get_ident())
    if ledger is None or ledger.call is not None or ledger.loop is not None:
        if ledger is not None and ledger.call is None:
            ledger.updated += 1
            if not ledger.loop.updates:
                loops.updates(ledger.loop)
                if not ledger.loop.trains:  # it was traced before the loop began: no model is called in it
                    loops.trains(ledger.loop, eager=False)
        return function(*args, **kwargs)
    try:
        frame = user_frame(sys._getframe(2))
        call = begin(ledger, frame, args, dispatched=dispatched) if frame is not None else None
    except Exception as error:
        recorder.fail(error)
        call = None
    if call is None:
        return function(*args, **kwargs)
    try:
        result = function(*args, **kwargs)
    finally:
        if _ledgers.get(ledger.ident) is ledger:
            try:
                end(ledger, call)
            except Exception as error:
                recorder.fail(error)
    if recorder.stopped:
        raise EnoughRecorded
    return result


# --- tf.function ------------------------------------------------------------------------------------------


def watch(function: Any, *, dispatched: bool) -> None:
    """From now on the calls of this `tf.function` are steps. Only it is touched, no other function."""
    if function is not None and function not in _steps:
        _steps[function] = dispatched
        _stand_in(function)


def _stand_in(function: Any) -> None:
    kind: Any = type(function)
    function.__class__ = _watching(kind, _steps[function])


@functools.cache
def _watching(kind: Any, dispatched: bool) -> Any:
    """The class of a function that is a step: a copy of such a function runs itself, not the one it is a copy of."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _run(functools.partial(kind._call, self), args, kwargs, dispatched=dispatched)

    made = type(kind.__name__, (kind,), {"_call": call, "__module__": kind.__module__, "__doc__": kind.__doc__})
    made.__qualname__ = kind.__qualname__
    return made


def hold(seams: Seams) -> None:
    """Watches what an earlier recording knew to be steps; when the seams are released they are what they were."""
    for function in list(_steps):
        _stand_in(function)

    def forget() -> None:
        for function in list(_steps):
            function.__class__ = type(function).__base__
        updates.forget_traces()

    seams.on_release(forget)


# --- jax.jit ----------------------------------------------------------------------------------------------


class Jitted:
    """A function that the user's code has compiled by JAX, whose calls can be seen; else it is that function.

    It has no attributes of its own: JAX copies those of a function to whatever it makes of it.
    """

    __slots__ = ("__weakref__", "_function", "_is_gradient", "_is_step")

    def __init__(self, function: Any) -> None:
        self._function = function
        self._is_step = self._is_gradient = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        ident = get_ident()
        ledger = _ledgers.get(ident)
        if self._is_gradient and ledger is not None and ledger.last_update is not None:
            # The weights are updated eagerly behind it: that is where the steps of the loop are counted.
            self._is_step = self._is_gradient = False
            updates.gradient_compiled(ledger)
        if self._is_step:
            return _run(self._function, args, kwargs, dispatched=True)
        before = (ledger.updates_traced, ledger.gradients_traced) if ledger is not None else (0, 0)
        result = self._function(*args, **kwargs)
        ledger = _ledgers.get(ident)
        if ledger is not None and ledger.call is None:
            self._is_gradient = ledger.gradients_traced > before[1] and ledger.updates_traced == before[0]
            self._is_step = self._is_gradient or ledger.updates_traced > before[0]
        return result

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_function"), name)

    # What `jax.stages.Wrapped` has must be found without `__getattr__`, and so must what every class has.
    trace, lower, __doc__, __module__ = (
        property(operator.attrgetter(f"_function.{name}")) for name in ("trace", "lower", "__doc__", "__module__")
    )

    def __copy__(self) -> Jitted:
        return Jitted(copy.copy(self._function))

    def __deepcopy__(self, memo: Any) -> Jitted:
        return Jitted(copy.deepcopy(self._function, memo))

    def __repr__(self) -> str:
        return repr(self._function)


def hold_jit(seams: Seams) -> None:
    """Holds `jax.jit`, for code of the user's only."""
    jax: Any = sys.modules["jax"]
    original = jax.jit

    @functools.wraps(original)
    def jit(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        if not is_user(sys._getframe(1).f_code.co_filename):
            return made
        if not args and "fun" not in kwargs:  # a decorator with options
            return lambda function: Jitted(made(function))
        return Jitted(made)

    seams.replace(jax, "jit", jit)
