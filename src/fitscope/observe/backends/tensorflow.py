"""TensorFlow: the batch is fetched inside the graph of the step, so the wait for it has to be worked out."""

from __future__ import annotations

import functools
import re
import sys
import weakref
from collections.abc import Callable
from itertools import repeat
from operator import add, sub
from pathlib import Path
from statistics import median
from types import FrameType, ModuleType
from typing import Any, NamedTuple

from fitscope.observe import compiled_steps, cut_graph, inner_loops, tfdata, updates
from fitscope.observe.calls import Call, Waits, note_first
from fitscope.observe.compiles import count
from fitscope.observe.ledger import Ledger, Place, clock
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams, is_library, user_place

name = "tensorflow"
fetches_before_step = False

MOST_GAPS = 100
"""TensorFlow remembers this many gaps between two fetches."""


def trainer_module() -> ModuleType:
    """The module of Keras that holds the trainer."""
    return sys.modules["keras.src.backend.tensorflow.trainer"]


def trainer() -> Any:
    """The class whose `fit` every model inherits."""
    return trainer_module().TensorFlowTrainer


def epoch_iterator() -> Any:
    """The class that goes through the batches of an epoch."""
    return trainer_module().TFEpochIterator


@functools.cache
def reading_waits() -> bool:
    """On a CPU the step is done when it returns; on a device reading the logs waits for it."""
    return device() != "cpu"


def waits(ledger: Ledger, call: Call, iterator: Any) -> Waits | None:
    """How the wait for data inside the step is found."""
    if call.kind == "predict" or getattr(call.model, "run_eagerly", False):
        if not hasattr(iterator, "_iterator_resource"):
            recorder.unseparated.row(call.root)[0] += 1
        return None  # fetched by Python code, which is held in `tfdata`
    known = call.waits
    if isinstance(known, Gaps) and known.iterator() is iterator:
        return known
    by_keras = ledger.tree.nodes[call.stations.data].name == "arrays"
    if not hasattr(iterator, "_iterator_resource") or not (by_keras or tfdata.autotunes(iterator)):
        return Timers(ledger, call)
    return Gaps(ledger, call, iterator, by_keras=by_keras)


def hold(seams: Seams) -> None:
    """Holds the tracing of functions, and the fetch inside graphs that need timers."""
    from tensorflow.python.distribute import input_lib
    from tensorflow.python.eager.polymorphic_function import tracing_compilation

    seams.hold(tracing_compilation, "_create_concrete_function", _tracing, _traced, anyone=True)
    seams.hold(sys.modules["tensorflow"].data.Dataset, "reduce", _going_through, _gone_through)
    compiled_steps.hold(seams)
    inner_loops.hold(seams, sys.modules["tensorflow.python.ops.while_v2"], ["while_loop"], through="map_fn.py")
    for owner in (input_lib.DistributedIteratorBase, sys.modules["tensorflow"].data.Iterator):
        for method in ("get_next", "get_next_as_optional"):
            for kind in (owner, *owner.__subclasses__()):
                if method in vars(kind):
                    seams.replace(kind, method, _timed_fetch(vars(kind)[method]))


def _going_through(ledger: Ledger, dataset: Any, args: Any, kwargs: Any) -> None:
    """What a `for` loop over a dataset becomes inside a compiled function."""


def _gone_through(ledger: Ledger, token: Any, result: Any, error: BaseException | None) -> None:
    if ledger.traces and ledger.traces_update and not sys.modules["tensorflow"].executing_eagerly():
        says = "A training loop over a dataset is compiled as a whole: its waits for data are part of its step."
        recorder.fact("problem", says=says)


@functools.cache
def device() -> str:
    """The kind of device that trains."""
    devices = sys.modules["tensorflow"].config.get_visible_devices()
    kinds = {str(device.device_type).lower() for device in devices}
    return next((kind for kind in ("tpu", "gpu") if kind in kinds), "cpu")


def evaluates() -> bool | None:
    """Nothing tells: gradients are asked for where they are computed."""
    return None


def start_trace(folder: str) -> None:
    """Starts TensorFlow's profiler, without its Python tracer, which would slow the training down."""
    profiler: Any = sys.modules["tensorflow"].profiler.experimental
    options = profiler.ProfilerOptions(host_tracer_level=2, python_tracer_level=0, device_tracer_level=1)
    profiler.start(folder, options=options)


def stop_trace(folder: str) -> str:
    """Stops it; the name of the file that it wrote below the folder."""
    profiler: Any = sys.modules["tensorflow"].profiler.experimental
    profiler.stop()
    return str(next(Path(folder).rglob("*.xplane.pb")))


def mark(name: str) -> Any:
    """Marks what happens in it on the profiler's timeline."""
    profiler: Any = sys.modules["tensorflow"].profiler.experimental
    return profiler.Trace(name)


def mark_step(number: int) -> Any:
    """Marks a step; without `_r` the tools that read the trace see none."""
    profiler: Any = sys.modules["tensorflow"].profiler.experimental
    return profiler.Trace("train", step_num=number, _r=1)


def scope(name: str) -> Any:
    """Gives operations that are traced in it a name; those of the gradient have it in theirs."""
    return sys.modules["tensorflow"].name_scope(name)


def repeat_step(model: Any, function: Any, arguments: tuple[Any, ...]) -> tuple[Callable[[], None], Any, list[str]]:
    """The step on its first batch, from a dataset that holds nothing else."""
    tf: Any = sys.modules["tensorflow"]
    (iterator,) = arguments
    if isinstance(iterator, tf.distribute.DistributedIterator):
        raise ValueError("a distribution strategy splits the step over devices, which is not read layer by layer yet")
    batch = next(iterator)
    dataset = tf.data.Dataset.from_tensors(batch).repeat()
    given = getattr(iterator, "element_spec", None)
    if given is not None:
        dataset = dataset.map(lambda *parts: _as_loose_as(given, parts if isinstance(given, tuple) else parts[0]))
    batches = iter(dataset.prefetch(1))

    def step() -> None:
        for value in tf.nest.flatten(function(batches))[:1]:
            value.numpy()  # on a device the step is done when its result can be read

    return step, batch, []


def _as_loose_as(given: Any, parts: Any) -> Any:
    """The same tensors with the sizes forgotten that the user's pipeline does not promise: the step is traced so."""
    tf: Any = sys.modules["tensorflow"]

    def loose(spec: Any, tensor: Any) -> Any:
        if not isinstance(spec, tf.TensorSpec) or spec.shape.is_fully_defined():
            return tensor
        return tf.compat.v1.placeholder_with_default(tensor, spec.shape)

    return tf.nest.map_structure(loose, given, parts)


def compiling() -> Callable[[], bool]:
    """What tells whether a compiler goes through Python code just now that nothing of ours may be in."""
    return bool  # never: a graph is traced with whatever Python does meanwhile


def extent(traced: Any) -> int:
    """How far the trace of a step has come."""
    return cut_graph.extent(traced)


def cut(extent: int, given: tuple[Any, ...], variables: list[Any], batch_size: int | None) -> Any:
    """What a step that is being traced computes for some variables since then; None if it cannot be cut out."""
    return cut_graph.cut(extent, given, variables, batch_size)


# --- the wait for data ------------------------------------------------------------------------------------


class Gaps:
    """From the gaps that tf.data itself records between the end of one fetch and the start of the next.

    A gap holds what the step did after its fetch and what happened until the next fetch began; the latter is
    known here, so the former is, and the rest of the step call was the wait.
    """

    def __init__(self, ledger: Ledger, call: Call, iterator: Any, *, by_keras: bool) -> None:
        self.ledger = ledger
        self.stations = call.stations
        self.iterator = weakref.ref(iterator)
        self.each = call.each
        self.limit = max(2, (MOST_GAPS - 1) // self.each)
        mine = call.region is not None and not by_keras  # the stages that Keras makes of arrays are nobody's code
        self.stages = tfdata.Stages(call.top.root, iterator) if mine else None
        self.begun: list[int] = []
        self.own: list[int] = []
        self.ended_at: list[int] = []
        self.traced: list[bool] = []
        self.typical: int | None = None
        self._fetched = 0
        self._charged = False
        self._busy = 0
        self._traces = ledger.counts[call.stations.trace]
        self._before = 0

    def began(self, now: int) -> None:
        """A step call begins; from now on the step owns the time."""
        self.begun.append(now)
        self._before = self.ledger.spent[self.stations.step]

    def took(self, returned: list[int], owned: list[int], begun: list[int]) -> None:
        """Step calls have returned; of those that one is told of together only the last can have been traced."""
        traces = self.ledger.counts[self.stations.trace]
        self.ended_at += returned
        self.own += map(sub, owned, [self._before, *owned])
        self.traced += [False] * (len(returned) - 1) + [traces != self._traces]
        self.begun += begun[:-1]
        self._traces = traces
        fetched, self._fetched = self._fetched, self._fetched + self.each * len(returned)
        if len(self.ended_at) >= self.limit:
            self._settle(final=False)
        elif self.stages is not None and any(fetched < look <= self._fetched for look in tfdata.LOOKS):
            node = self.ledger.node
            self.ledger.enter(self.stations.own)
            proto = tfdata.model_of(self.iterator())
            if proto is not None:
                self.stages.read(proto, self._fetched)
            self.ledger.back(node)
        self.begun += begun[-1:]
        self._before = self.ledger.spent[self.stations.step]

    def room(self) -> int:
        """After how many more calls gaps would be forgotten, or the stages are to be read."""
        left = [self.limit - len(self.ended_at)]
        if self.stages is not None:
            left += [-(-(look - self._fetched) // self.each) for look in tfdata.LOOKS if look > self._fetched]
        return max(1, min(left))

    def finish(self) -> None:
        """The input is at its end, or is left."""
        if self.ended_at:
            self._settle(final=True)
        self.begun.clear()

    def _settle(self, *, final: bool) -> None:
        ledger, stations = self.ledger, self.stations
        node = ledger.node
        ledger.enter(stations.own)
        iterator = self.iterator()
        proto = tfdata.model_of(iterator) if iterator is not None else None
        if proto is not None:
            if self.stages is not None:
                self.stages.read(proto, self._fetched)
            busy = tfdata.busy(proto)
            known = busy is not None and busy >= self._busy
            self._charge([gap * 1000 for gap in proto.gap_times], final, (busy or 0) - self._busy if known else None)
            self._busy = busy or 0
        else:
            recorder.unseparated.row(stations.root)[0] += 1
        keep = 0 if final or proto is None else 1
        for column in (self.begun, self.own, self.ended_at, self.traced):
            del column[: len(column) - keep]
        ledger.back(node)

    def _charge(self, gaps: list[int], final: bool, busy: int | None) -> None:
        """Moves what was waited from the step to the data.

        The first call of a traced function prepares its graph before it fetches: it cannot have waited for
        longer than the pipeline was busy.
        """
        total = len(self.ended_at)
        failed = len(self.begun) > total  # a last call found no more data, after one more gap
        known = (total - 1) * self.each + (self.each - 1) + (1 if failed else 0)
        tail = gaps[-known:] if known else []
        if len(tail) < known:
            return
        steps = self._steps(tail)
        usual = [step for step, traced in zip(steps, self.traced, strict=False) if not traced]
        if usual:
            self.typical = int(median(usual))
        number = total if final else total - 1
        if number > len(steps):  # nothing was fetched after the last call, so there is no gap behind it
            steps.append(self.typical if self.typical is not None else self.own[-1])
        waited = list(map(sub, self.own[:number], map(min, steps, self.own)))
        if number and not self._charged:
            self._charged = True
            if not self.traced[0]:
                note_first(self.stations.root, waited[0])
        for index in [index for index, traced in enumerate(self.traced[:number]) if traced]:
            waited[index] = waited[index] if busy is None else min(waited[index], busy)
            own = self.own[index] - waited[index]
            prepared = own - (self.typical if self.typical is not None else own)
            if prepared > 0:
                self.ledger.move(self.stations.step, self.stations.first_run, prepared)
                self.ledger.counts[self.stations.first_run] += 1
        self.ledger.move(self.stations.step, self.stations.data, sum(waited))
        self.ledger.counts[self.stations.data] += self.each * number

    def _steps(self, gaps: list[int]) -> list[int]:
        """What each call did beside fetching, for those that have a gap behind them.

        Hundreds of calls a second pass through here: loops that run in C.
        """
        outside = map(sub, self.begun[1:], self.ended_at)
        after = map(max, map(sub, gaps[self.each - 1 :: self.each], outside), repeat(0))
        if self.each == 1:
            return list(after)
        inner = (sum(gaps[first : first + self.each - 1]) for first in range(0, len(gaps), self.each))
        return list(map(add, inner, after))


class Timers:
    """From two clock operations around the fetch inside the graph, where tf.data keeps no gaps."""

    current: Any = None
    """The variable that graphs which are traced now add their waits to."""

    def __init__(self, ledger: Ledger, call: Call) -> None:
        tf = sys.modules["tensorflow"]
        self.ledger = ledger
        self.stations = call.stations
        if Timers.current is None:
            with tf.init_scope(), tf.device("CPU:0"):
                Timers.current = tf.Variable([0.0, 0.0], dtype="float64", trainable=False, name="fitscope_wait")
        self._seen = Timers.current.numpy()
        self._loading = recorder.loading.wall
        self._calls = 0
        self._own = 0
        self._traces = ledger.counts[call.stations.trace]
        self._first: int | None = None
        self._before = 0
        self.begun: list[int] = []

    def began(self, now: int) -> None:
        """A step call begins; from now on the step owns the time."""
        self.begun = [now]
        self._before = self.ledger.spent[self.stations.step]

    def took(self, returned: list[int], owned: list[int], begun: list[int]) -> None:
        """Step calls have returned; of those that one is told of together only the last can have been traced."""
        traces, self._traces = self._traces, self.ledger.counts[self.stations.trace]
        own = list(map(sub, owned, [self._before, *owned]))
        self._calls += len(own)
        self._own += sum(own)
        if self._traces != traces:
            self._read(self._own)
            self._first = own[-1]
        elif self._calls >= MOST_GAPS:
            self._read(self._own)
        self.begun = begun[-1:]
        self._before = self.ledger.spent[self.stations.step]

    def room(self) -> int:
        """After how many more calls the waits are read."""
        return max(1, MOST_GAPS - self._calls)

    def finish(self) -> None:
        """The input is at its end, or is left."""
        if self._calls:
            self._read(self._own)

    def _read(self, own: int) -> None:
        ledger, node = self.ledger, self.ledger.node
        ledger.enter(self.stations.own)
        value = Timers.current.numpy()
        waited, fetches = int((value[0] - self._seen[0]) * 1e9), int(value[1] - self._seen[1])
        self._seen = value
        loading, self._loading = recorder.loading.wall - self._loading, recorder.loading.wall
        if not fetches and not loading:
            recorder.unseparated.row(self.stations.root)[0] += 1
        else:
            # A graph that was traced before anybody watched has no timers. Without autotuning nothing is
            # prefetched either: the fetch runs the pipeline's Python code, whose time is known.
            waited = min(waited if fetches else loading, own)
            ledger.move(self.stations.step, self.stations.data, waited)
            ledger.counts[self.stations.data] += fetches or self._calls
            if self._first is not None and self._calls > 1:
                usual = (own - waited) // max(1, self._calls - 1)
                if self._first > usual:
                    ledger.move(self.stations.step, self.stations.first_run, self._first - usual)
                    ledger.counts[self.stations.first_run] += 1
                self._first = None
        self._calls = 0
        self._own = 0
        ledger.back(node)


def _timed_fetch(original: Any) -> Any:
    """The fetch as it is, unless a graph is being traced for a call that needs timers."""

    def fetch(self: Any, *args: Any, **kwargs: Any) -> Any:
        tf = sys.modules["tensorflow"]
        variable = Timers.current
        if variable is None or tf.executing_eagerly() or not _needs_timers(self):
            return original(self, *args, **kwargs)
        began = tf.timestamp()
        Timers.current = None  # the iterators of the single devices are inside this fetch
        try:
            with tf.control_dependencies([began]):
                batch = original(self, *args, **kwargs)
        finally:
            Timers.current = variable
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
            waited = tf.timestamp() - began
            with tf.control_dependencies([variable.assign_add(tf.stack([waited, tf.ones_like(waited)]))]):
                return tf.nest.map_structure(tf.identity, batch, expand_composites=True)

    return fetch


def _needs_timers(iterator: Any) -> bool:
    from threading import get_ident

    ledger = recorder.ledgers.get(get_ident())
    call = ledger.call if ledger is not None else None
    return isinstance(call, Call) and isinstance(call.waits, Timers)


# --- tracing ----------------------------------------------------------------------------------------------

_types: dict[tuple[Any, ...], tuple[Callable[[], Any], Any]] = {}
"""By its place in the code: the function that was traced there last, if it is still alive, and its signature."""
_LITERAL = re.compile(r"Literal\[([^\]]*)\]")
"""A Python value in the signature of a function, as TensorFlow prints it."""


def _tracing(ledger: Ledger, function_type: Any, args: Any, kwargs: Any) -> Any:
    owner: Any = ledger.call or ledger.loop
    if owner is None or ledger.node == ledger.outside:
        return _tracing_outside(ledger, function_type, args, kwargs) if owner is None else None
    node = ledger.node
    if node == owner.stations.setup:
        return None  # Keras makes a pipeline of its own for this call: part of preparing, not of the step
    outermost = ledger.tree.nodes[node].phase != "compile"
    ledger.enter(owner.stations.trace) if outermost else None
    options = args[2] if len(args) > 2 else kwargs.get("tracing_options")
    called = _called(sys._getframe(1)) if outermost and ledger.call is None else None
    place = user_place(sys._getframe(1))
    return owner, node, outermost, ledger.since, options, function_type, place, called, ledger.updates_traced


def _traced(ledger: Ledger, token: Any, result: Any, error: BaseException | None) -> None:
    if token is None:
        return
    if isinstance(token, _Outside):
        _traced_outside(ledger, token)
        return
    owner, node, outermost, began, options, function_type, where, called, updates_before = token
    if not outermost:
        return
    now = ledger.back(node)
    if ledger.updates_traced > updates_before:  # another loop may call it, too, where nothing is traced any more
        compiled_steps.watch(called, dispatched=reading_waits())
    function = getattr(options, "python_function", None)
    name = str(getattr(options, "name", "a function"))
    cause, detail = _cause((owner.root, name), function, function_type)
    count(owner.root, name, cause, detail, now - began, where)


class _Outside(NamedTuple):
    """A trace that no call and no loop asked for, as far as is known."""

    began: int
    options: Any
    function_type: Any
    where: Place | None
    function: Any
    """The `tf.function` that is called."""


def _tracing_outside(ledger: Ledger, function_type: Any, args: Any, kwargs: Any) -> _Outside:
    if ledger.traces == 0:
        ledger.traces_update = False
    ledger.traces += 1
    options = args[2] if len(args) > 2 else kwargs.get("tracing_options")
    return _Outside(clock(), options, function_type, user_place(sys._getframe(2)), _called(sys._getframe(2)))


def _called(frame: FrameType | None) -> Any:
    """The `tf.function` for whose call something is traced; None if it is not traced for a call."""
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

    code = Function._call.__code__
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back if is_library(frame.f_code.co_filename) else None
    return frame.f_locals["self"] if frame is not None else None


def _traced_outside(ledger: Ledger, trace: _Outside) -> None:
    ledger.traces -= 1
    if ledger.traces:
        return
    if not ledger.traces_update:
        recorder.dismiss(ledger)
        return
    function = getattr(trace.options, "python_function", None)
    name = str(getattr(trace.options, "name", "a function"))
    cause, detail = _cause((trace.where, name), function, trace.function_type)
    updates.traced(ledger, trace.where, updates.Trace(clock() - trace.began, name, cause, detail))
    compiled_steps.watch(trace.function, dispatched=reading_waits())


def _cause(key: tuple[Any, ...], function: Any, function_type: Any) -> tuple[str, str]:
    """Compares the signature that is traced with the last one of the same function."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    key += (code.co_filename, code.co_firstlineno) if code is not None else (str(function),)
    before = _types.get(key)
    known, same = before[0]() if before is not None else None, _identity(function)
    _types[key] = (same, function_type)
    if before is None:
        return "first", ""
    for parameter, now in function_type.parameters.items():
        was = before[1].parameters.get(parameter)
        if was is None or was.type_constraint == now.type_constraint:
            continue
        old, new = was.type_constraint, now.type_constraint
        if "Literal" in type(new).__name__ or "Literal" in type(old).__name__:
            return "Python scalar", f"{parameter}: {_plain(old)} -> {_plain(new)}"
        if _LITERAL.sub("", str(old)) == _LITERAL.sub("", str(new)):  # in a dictionary or a list
            pairs = zip(_LITERAL.findall(str(old)), _LITERAL.findall(str(new)), strict=True)
            return "Python scalar", next(f"{parameter}: {a} -> {b}" for a, b in pairs if a != b)
        return "changed shape", f"{parameter}: {_plain(old)} -> {_plain(new)}"
    if known is None or known is not same():
        return "new function", "the function or the model was made anew"
    return "variables created", "the first call of a function that creates variables traces twice"


def _identity(function: Any) -> Callable[[], Any]:
    """Gives the function (of a method its object) while it lives: a new one may have the address of a dead one."""
    try:
        return weakref.ref(getattr(function, "__self__", function))
    except TypeError:  # of a few built-in kinds there are no weak references
        return lambda: type(function)


def _plain(constraint: Any) -> str:
    """A type in few words: its value, or the shapes in it."""
    shapes = re.findall(r"TensorSpec\(shape=(\([^)]*\))", str(constraint))
    if shapes:
        return " ".join(shapes)
    value = getattr(constraint, "value", None)
    if value is not None:
        return str(value)
    shape = getattr(constraint, "shape", None)
    if shape is not None:
        return f"{tuple(shape)} {getattr(getattr(constraint, 'dtype', None), 'name', '')}".strip()
    return str(constraint)
