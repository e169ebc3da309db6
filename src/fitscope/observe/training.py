"""Holding Keras' trainers: the calls that train, their epochs, what they save and what they turn into numbers."""

from __future__ import annotations

import functools
import gc
import itertools
import sys
from collections.abc import Iterator
from threading import get_ident
from types import FrameType
from typing import Any

from fitscope.observe import callbacks, interrupts, loops, memory, metrics, padding, settings, stepping
from fitscope.observe.backends import Backend
from fitscope.observe.batches import rows_of
from fitscope.observe.calls import Call, Stations, note_first
from fitscope.observe.contention import Contention
from fitscope.observe.ledger import Ledger, Place, clock
from fitscope.observe.recorder import Region, recorder
from fitscope.observe.seams import Seams, caller, is_library, user_frame

WHOLE = ("fit", "evaluate", "predict")
ON_BATCH = ("train_on_batch", "test_on_batch", "predict_on_batch")
SOURCES = {
    "ArrayDataAdapter": "arrays",
    "TFDatasetAdapter": "tf.data",
    "PyDatasetAdapter": "PyDataset",
    "GeneratorDataAdapter": "generator",
    "TorchDataLoaderAdapter": "DataLoader",
    "GrainDatasetAdapter": "Grain",
}
DEEPEST = 32
"""A call nested below more nodes than this is charged to the call that it is in."""

_stations: dict[int, Stations] = {}


def stations_of(root: int) -> Stations:
    """The stations below a root, made once."""
    found = _stations.get(root)
    if found is None:
        found = _stations[root] = Stations(recorder.tree, root)
    return found


def hold(seams: Seams, backend: Backend) -> None:
    """Holds everything that a training with this backend goes through."""
    trainer = backend.trainer()
    for kind in WHOLE + ON_BATCH:
        seams.hold(trainer, kind, _beginning(kind), _ending(kind, backend), anyone=True)
    can_be_async = backend.name != "tensorflow"
    callbacks.hold(seams, reading_waits=backend.reading_waits, can_be_async=can_be_async, device=backend.device)
    _hold_epochs(seams, backend)
    _hold_saving(seams)
    _hold_garbage_collection(seams)
    _hold_logs(seams, backend)


# --- calls -----------------------------------------------------------------------------------------------


def _beginning(kind: str) -> Any:
    def beginning(ledger: Ledger, model: Any, args: Any, kwargs: Any) -> Any:
        outer = ledger.call if isinstance(ledger.call, Call) else None
        if outer is None:
            where = caller()
            if not loops.contains(ledger, kind):
                call = begin(ledger, kind, where, model)
                if kind == "fit":
                    padding.given(call.root, args[0] if args else kwargs.get("x"))
                return call
            root = ledger.tree.node(ledger.node, "call", kind, where)
        elif kind == "evaluate" and kwargs.get("_use_cached_eval_dataset"):
            root = _validation_root(outer)
        elif len(ledger.tree.path(ledger.node)) > DEEPEST:
            root = outer.root
        else:
            root = ledger.tree.node(ledger.node, "call", kind, caller())
        return _enter(ledger, kind, root, None, model)

    def beginning_batch(ledger: Ledger, model: Any, args: Any, kwargs: Any) -> Any:
        call = beginning(ledger, model, args, kwargs)
        call.batch = (*args, *kwargs.values())
        return call

    return beginning_batch if kind in ON_BATCH else beginning


def begin(ledger: Ledger, kind: str, where: Place, model: Any) -> Call:
    """An outermost call begins: its place in the code is a region."""
    root = recorder.root(ledger, kind, where)
    return _enter(ledger, kind, root, recorder.regions[root], model)


def _enter(ledger: Ledger, kind: str, root: int, region: Region | None, model: Any) -> Call:
    stations = stations_of(root)
    if kind == "train_on_batch" and region is not None:
        loops.charge_between(ledger, stations)
    call = Call(kind, stations, ledger, region, model)
    ledger.call = call
    call.step_began = ledger.enter(stations.step if kind in ON_BATCH else stations.setup)
    if region is not None:
        region.calls += 1
    return call


def _ending(kind: str, backend: Backend) -> Any:
    def ending(ledger: Ledger, call: Any, result: Any, error: BaseException | None) -> None:
        if isinstance(call, Call):
            if call.region is not None and kind == "train_on_batch" and call.region.steps == 0:
                settings.note(call.root, call.model, backend.device(), batch_size=rows_of(call.batch))
            elif call.region is not None and kind == "fit" and call.region.calls <= 20:
                settings.history(call.root, call.model)
                if error is None or isinstance(error, stepping.EnoughRecorded):
                    metrics.note(ledger, call, backend.device())
                    memory.note(ledger, call)
            end(ledger, call)
            if isinstance(error, SystemExit):
                recorder.left = SystemExit(error.code)
            if recorder.stopped and call.outer is None and error is None:
                raise stepping.EnoughRecorded

    return ending


def end(ledger: Ledger, call: Call) -> None:
    """The call has returned or raised."""
    callbacks.leave_epoch(ledger, call)
    call.close = None
    ledger.call = call.outer
    ledger.hook = None
    now = ledger.back(call.resume)
    if call.region is not None and call.kind in ON_BATCH:
        call.region.step(now - loops.batch_began(ledger, call))
        call.batch = None
        loops.batch_done(ledger, call, now)


def _unheld(ledger: Ledger, frame: FrameType | None) -> Call | None:
    """A call that was looked up before it was held (`fit(callbacks=[Profiler()])`): begun from inside."""
    while frame is not None and is_library(frame.f_code.co_filename):
        code = frame.f_code
        if code.co_name in WHOLE and code.co_filename.endswith("trainer.py"):
            where = user_frame(frame)
            place = Place(where.f_code.co_filename, where.f_lineno) if where is not None else Place("<unknown>", 0)
            call = begin(ledger, code.co_name, place, frame.f_locals[code.co_varnames[0]])
            call.close = functools.partial(end, ledger, call)
            return call
        frame = frame.f_back
    return None


def join() -> None:
    """Begins to record in the middle of a `fit` that is making its list of callbacks."""
    ledger = recorder.ledger()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and ledger.call is None:
        owner: Any = frame.f_locals.get("self")
        if type(owner).__name__ == "CallbackList" and type(owner.callbacks) is list:
            owner.callbacks = callbacks.Watched(owner.callbacks)
            _unheld(ledger, frame)
        frame = frame.f_back


def _validation_root(fit: Call) -> int:
    return recorder.tree.node(fit.root, "validation", "validation")


# --- epochs ----------------------------------------------------------------------------------------------


def _hold_epochs(seams: Seams, backend: Backend) -> None:
    iterator = backend.epoch_iterator()

    def making(ledger: Ledger, epochs: Any, args: Any, kwargs: Any) -> Any:
        call = ledger.call if isinstance(ledger.call, Call) else _unheld(ledger, sys._getframe(2))
        if call is None:
            return None
        if call.kind == "fit" and call.begun:
            node = ledger.node
            ledger.enter(stations_of(_validation_root(call)).setup)
            return epochs, call, node
        return epochs, call, None

    def made(ledger: Ledger, token: Any, result: Any, error: BaseException | None) -> None:
        if token is None:
            return
        epochs, call, node = token
        if node is not None:
            ledger.back(node)
        elif error is None:
            call.stations.source(source_name(epochs))

    seams.hold(iterator, "__init__", making, made, anyone=True)

    if backend.fetches_before_step:
        seams.replace(iterator, "__next__", _fetching(iterator.__next__))
    seams.replace(iterator, "_enumerate_iterator", _enumerating(iterator._enumerate_iterator, backend))

    def reading(ledger: Ledger, model: Any, args: Any, kwargs: Any) -> Any:
        call = ledger.call
        if not isinstance(call, Call) or call.kind in ON_BATCH:
            return None
        if ledger.node == call.stations.step:
            # The step found no more data: what it waited for was the end of the input.
            ledger.rename(call.stations.close)
        callbacks.leave_epoch(ledger, call)
        ledger.enter(call.stations.metrics)
        if call.dispatched is not None:
            call.dispatched.metrics_begin(ledger, call)
        return call

    def read(ledger: Ledger, call: Any, result: Any, error: BaseException | None) -> None:
        if call is not None:
            ledger.back(call.stations.end)

    seams.hold(backend.trainer(), "_get_metrics_result_or_logs", reading, read)

    def resetting(ledger: Ledger, epochs: Any, args: Any, kwargs: Any) -> Any:
        call: Call | None = ledger.call
        if call is None:
            return None
        node = ledger.node
        ledger.enter(call.stations.close)  # drops the iterator of an earlier pass
        return node

    def reset(ledger: Ledger, node: Any, result: Any, error: BaseException | None) -> None:
        if node is not None:
            ledger.back(node)

    seams.hold(iterator, "reset", resetting, reset)


def _enumerating(original: Any, backend: Backend) -> Any:
    """The batches of one epoch: where their iterator is opened, and where it is closed."""

    def opening(ledger: Ledger, call: Call, epochs: Any, batches: Iterator[Any]) -> Iterator[Any]:
        stations = call.stations
        stations.source(source_name(epochs))
        fetches = backend.fetches_before_step
        node = ledger.node
        ledger.enter(stations.data if fetches else stations.open)
        call.executions = 0
        for item in itertools.islice(batches, 1):
            call.in_epoch = True
            try:
                call.batch_size = getattr(getattr(epochs, "data_adapter", None), "batch_size", None)
                call.waits = backend.waits(ledger, call, item[-1])
                call.contention = _contention(ledger, stations, backend)
            except Exception as error:
                recorder.fail(error)
            # The last epoch's iterator dies only when Keras' loop variable is set anew, that is now.
            call.step_began = ledger.back(node if fetches else stations.close)
            yield item

    def closing(ledger: Ledger, call: Call, epochs: Any) -> Iterator[Any]:
        if recorder.ledgers.get(ledger.ident) is ledger:
            try:
                ledger.rename(call.stations.close)
                callbacks.leave_epoch(ledger, call, over=True)
                _drop_extra_steps(call, epochs)
                ledger.back(call.stations.end)
            except Exception as error:
                recorder.fail(error)
        yield from ()

    def passes(epochs: Any) -> Iterator[Iterator[Any]]:
        ledger = recorder.ledgers.get(get_ident())
        call: Call | None = ledger.call if ledger is not None else None
        batches = original(epochs)
        if ledger is None or call is None or not call.begun:
            yield batches
            return
        yield opening(ledger, call, epochs, batches)
        yield batches
        yield closing(ledger, call, epochs)

    @functools.wraps(original)
    def enumerate_iterator(self: Any) -> Iterator[Any]:
        return itertools.chain.from_iterable(passes(self))  # nothing of ours runs between two batches

    return enumerate_iterator


def _contention(ledger: Ledger, stations: Stations, backend: Backend) -> Contention | None:
    """What looks after Python code of the input, where there may be some beside a step on the same processor."""
    if backend.device() != "cpu" or ledger.tree.nodes[stations.data].name == "arrays":
        return None
    return Contention(ledger, stations, in_caller=backend.fetches_before_step)


def _fetching(original: Any) -> Any:
    """The fetch of a batch by the loop itself, before the step."""
    ledgers = recorder.ledgers

    @functools.wraps(original)
    def fetch(self: Any) -> Any:
        ledger = ledgers.get(get_ident())
        call: Call | None = ledger.call if ledger is not None else None
        if ledger is None or call is None:
            return original(self)
        stations = call.stations
        if not call.begun:
            ledger.enter(stations.first_batch)
            try:
                return original(self)
            finally:
                ledger.back(stations.setup)
        # In every step: written out what Ledger.enter and Ledger.back do.
        spent, data, began = ledger.spent, stations.data, clock()
        spent[ledger.node] += began - ledger.since
        ledger.counts[data] += 1
        ledger.node, ledger.since = data, began
        item = original(self)
        now = clock()
        spent[ledger.node] += now - ledger.since
        ledger.node = stations.step if call.stepping is not None else stations.loop
        ledger.since = now
        if call.executions < padding.BATCHES and call.region is not None:
            if call.executions == 0:
                note_first(call.root, now - began)
            padding.looped(call.root, item)
        return item

    return fetch


def _drop_extra_steps(call: Call, epochs: Any) -> None:
    """The last execution of an epoch may have found fewer batches than `steps_per_execution`."""
    batches = epochs.num_batches
    if call.region is not None and call.each > 1 and batches:
        call.region.steps -= max(0, call.executions * call.each - batches)


def source_name(epochs: Any) -> str:
    """What the training is fed from, in the user's words."""
    adapter = type(getattr(epochs, "data_adapter", None)).__name__
    return SOURCES.get(adapter, adapter)


# --- saving, collecting garbage, reading logs ----------------------------------------------------------------


def _hold_saving(seams: Seams) -> None:
    from keras.src.models.model import Model

    first = True

    def saving(ledger: Ledger, model: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(ledger.call, Call):
            return None
        node = ledger.node
        if ledger.tree.nodes[node].phase != "checkpoint":
            ledger.enter(ledger.tree.node(node, "checkpoint", "saving"))
        return node, clock()

    def saved(ledger: Ledger, token: Any, result: Any, error: BaseException | None) -> None:
        nonlocal first
        if token is None:
            return
        node, began = token
        now = ledger.back(node)
        if first and ledger.call is not None:
            first = False  # Keras loads what it saves with: that is paid once, however often is saved
            recorder.fact("first-save", root=ledger.call.top.root, seconds=(now - began) / 1e9)

    for name in ("save", "save_weights", "export"):
        seams.hold(Model, name, saving, saved)


def _hold_garbage_collection(seams: Seams) -> None:
    ledgers = recorder.ledgers

    def collecting(phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 0:
            return  # those of the youngest objects take microseconds, many times a second
        ledger = ledgers.get(get_ident())
        if ledger is None:
            return
        if phase == "start":
            if ledger.node != ledger.outside:
                node = ledger.node
                ledger.enter(ledger.tree.node(node, "gc", "collecting garbage"))
        elif ledger.tree.nodes[ledger.node].phase == "gc":
            began = ledger.since
            now = ledger.back(ledger.tree.nodes[ledger.node].parent)
            ledger.gc_spans = [*ledger.gc_spans[-31:], (began, now)]

    interrupts.rescue(
        seams,
        lambda function: (
            function is collecting
            or isinstance(function, loops.Abandoned)
            or isinstance(getattr(function, "__self__", None), loops.Validation)
        ),
    )
    gc.callbacks.append(collecting)
    seams.on_release(lambda: gc.callbacks.remove(collecting))


def _hold_logs(seams: Seams, backend: Backend) -> None:
    """`…_on_batch` and `evaluate` read the logs outside the list of callbacks."""
    module = backend.trainer_module()

    def reading(ledger: Ledger, logs: Any, args: Any, kwargs: Any) -> Any:
        call = ledger.call
        if not isinstance(call, Call):
            return None
        node = ledger.node
        ledger.enter(call.stations.wait if backend.reading_waits() else call.stations.logs)
        return node

    def read(ledger: Ledger, node: Any, result: Any, error: BaseException | None) -> None:
        if node is not None:
            ledger.back(node)

    seams.hold(module, "pythonify_logs", reading, read)
