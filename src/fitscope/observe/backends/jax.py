"""JAX: the step is dispatched asynchronously, and fetches its batch from a Python iterator."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from types import ModuleType
from typing import Any

from fitscope.observe import compiled_steps, cut_jaxpr, inner_loops, padding, updates
from fitscope.observe.calls import Call, Waits, note_first
from fitscope.observe.compiles import note
from fitscope.observe.ledger import Ledger, clock
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams, user_place

name = "jax"
fetches_before_step = False

_TRACE = "/jax/core/compile/jaxpr_trace_duration"
_EVENTS = {
    _TRACE: "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "XLA",
}


def trainer_module() -> ModuleType:
    """The module of Keras that holds the trainer."""
    return sys.modules["keras.src.backend.jax.trainer"]


def trainer() -> Any:
    """The class whose `fit` every model inherits."""
    return trainer_module().JAXTrainer


def epoch_iterator() -> Any:
    """The class that goes through the batches of an epoch."""
    return trainer_module().JAXEpochIterator


def reading_waits() -> bool:
    """Whoever reads the logs first waits for the step: JAX returns from it at once."""
    return True


def waits(ledger: Ledger, call: Call, iterator: Any) -> Waits | None:
    """The batch is fetched through an iterator of ours (see `hold`), so nothing has to be worked out."""
    return None


def hold(seams: Seams) -> None:
    """Holds the iterators of all kinds of input, copies to the device, and JAX's compiler."""
    from keras.src.trainers import data_adapters

    for adapter in vars(data_adapters).values():
        if isinstance(adapter, type) and "get_jax_iterator" in vars(adapter):
            seams.replace(adapter, "get_jax_iterator", _watched(vars(adapter)["get_jax_iterator"]))

    def copying(ledger: Ledger, data: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(ledger.call, Call):
            return None
        node = ledger.node
        ledger.enter(ledger.call.stations.transfer)
        return node

    def copied(ledger: Ledger, node: Any, result: Any, error: BaseException | None) -> None:
        if node is not None:
            ledger.back(node)

    seams.hold(trainer_module(), "_distribute_data", copying, copied)
    inner_loops.hold(seams, sys.modules["jax"].lax, ["map"])
    compiled_steps.hold_jit(seams)
    _hear_compiler(seams)


@functools.cache
def device() -> str:
    """The kind of device that trains."""
    return str(sys.modules["jax"].default_backend())


def evaluates() -> bool | None:
    """Nothing tells: gradients are asked for where they are computed."""
    return None


def start_trace(folder: str) -> None:
    """Starts JAX' profiler, without its Python tracer where that can be said."""
    profiler: Any = sys.modules["jax"].profiler
    options: Any = {}
    if hasattr(profiler, "ProfileOptions"):
        options = {"profiler_options": profiler.ProfileOptions()}
        options["profiler_options"].python_tracer_level = 0
    profiler.start_trace(folder, **options)


def stop_trace(folder: str) -> str:
    """Stops it; the name of the file that it wrote below the folder."""
    profiler: Any = sys.modules["jax"].profiler
    profiler.stop_trace()
    return str(next(Path(folder).rglob("*.xplane.pb")))


def mark(name: str) -> Any:
    """Marks what happens in it on the profiler's timeline."""
    return sys.modules["jax"].profiler.TraceAnnotation(name)


def mark_step(number: int) -> Any:
    """Marks a step."""
    return sys.modules["jax"].profiler.StepTraceAnnotation("train", step_num=number)


def scope(name: str) -> Any:
    """Gives operations that are traced in it a name; those of the gradient have it in theirs."""
    return sys.modules["jax"].named_scope(name)


def repeat_step(model: Any, function: Any, arguments: tuple[Any, ...]) -> tuple[Callable[[], None], Any, list[str]]:
    """The step on its first batch; the state goes from step to step, as in a training."""
    jax: Any = sys.modules["jax"]
    state, iterator = arguments
    batch = next(iterator)
    current = [state]

    def step() -> None:
        logs, current[0] = function(current[0], itertools.repeat(batch))
        jax.block_until_ready((logs, current[0]))

    return step, batch, []


def compiling() -> Callable[[], bool]:
    """What tells whether a compiler goes through Python code just now that nothing of ours may be in."""
    return bool  # never: a step is traced with whatever Python does meanwhile


def extent(traced: Any) -> int:
    """How far the trace of a step has come."""
    return 0  # its values know where they come from


def cut(extent: int, given: tuple[Any, ...], variables: list[Any], batch_size: int | None) -> Any:
    """What a step that is being traced computes for some variables since then; None if it cannot be cut out."""
    return cut_jaxpr.cut(given, variables)


_ledgers = recorder.ledgers


class _Batches:
    """Passes batches on and charges the wait for them."""

    def __init__(self, iterable: Any) -> None:
        self._iterator = iter(iterable)
        self._seen = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        ledger = _ledgers.get(get_ident())
        call: Call | None = ledger.call if ledger is not None else None
        if ledger is None or call is None:
            return next(self._iterator)
        # In every step: written out what Ledger.enter and Ledger.back do.
        node, spent, began = ledger.node, ledger.spent, clock()
        spent[node] += began - ledger.since
        ledger.node = data = call.stations.data if call.begun else call.stations.first_batch
        ledger.counts[data] += 1
        ledger.since = began
        call.batch = None  # the last one is not needed any more, and may be large
        try:
            call.batch = batch = next(self._iterator)
        finally:
            now = clock()
            spent[ledger.node] += now - ledger.since
            ledger.node, ledger.since = node, now
        if self._seen < padding.BATCHES and call.begun and call.region is not None:
            if self._seen == 0:
                note_first(call.root, now - began)
            self._seen += 1
            padding.fetched(call.root, batch)
        return batch

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._iterator, attribute)


def _watched(method: Any) -> Any:
    def get_jax_iterator(self: Any) -> Any:
        iterator = method(self)
        return _Batches(iterator) if recorder.ledgers.get(get_ident()) is not None else iterator

    return get_jax_iterator


def _hear_compiler(seams: Seams) -> None:
    """JAX says after each compilation how long it took; that time is taken from whoever owned it."""
    from jax import monitoring

    inner: dict[int, list[tuple[int, int]]] = {}
    outside: dict[int, tuple[int, str]] = {}

    def heard_outside(ledger: Ledger, stage: str, began: int, now: int, function: str) -> None:
        """Nothing that is held trains: a function that updates weights is the step of a loop by hand."""
        if stage == "tracing" and ledger.traces_update:  # the outermost function is the last to be through
            outside[ledger.ident] = (began, function)
        elif stage == "XLA" and ledger.ident in outside and outside[ledger.ident][1] in function:
            began, _ = outside.pop(ledger.ident)
            ledger.traces_update = False
            updates.compiled(ledger, user_place(sys._getframe(2)), now - began, function)

    def heard(event: str, seconds: float, **what: Any) -> None:
        stage = _EVENTS.get(event)
        ledger = recorder.ledgers.get(get_ident())
        if stage is None or ledger is None:
            return
        try:
            now = clock()
            began = now - int(seconds * 1e9)
            if ledger.node == ledger.outside:
                heard_outside(ledger, stage, began, now, str(what.get("fun_name") or "a function"))
                return
            mine = inner.setdefault(ledger.ident, [])
            within = [span for span in mine if span[0] >= began]
            collected = sum(end - start for start, end in ledger.gc_spans if start >= began)
            alone = max(0, now - began - sum(end - start for start, end in within) - collected)
            mine[:] = [span for span in mine[-16:] if span[0] < began] + [(began, now)]
            owner: Any = ledger.call or ledger.loop
            if owner is None or alone == 0:
                return
            ledger.move(ledger.node, owner.stations.compile(stage), alone)
            ledger.counts[owner.stations.compile(stage)] += 1
            if stage == "XLA":
                note(owner, str(what.get("fun_name") or "a function"), alone, user_place(sys._getframe(1)))
        except Exception as error:
            recorder.fail(error)

    monitoring.register_event_duration_secs_listener(heard)

    def forget() -> None:
        from jax._src import monitoring as internal

        unregister: Any = getattr(internal, "unregister_event_duration_listener", None)
        (unregister or internal._unregister_event_duration_listener_by_callback)(heard)

    seams.on_release(forget)
