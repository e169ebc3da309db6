"""The real step, layer by layer: what `fitscope layers` asks for, in a process of its own that trains nothing else.

When the first training is about to make its first step, its compiled step is run again and again on its first batch:
by the clock, and in turns on the backend's own profiler. While the step is traced, every layer's operations get a
scope of their own, so that the profile can be read layer by layer. Then the script is ended.
"""

from __future__ import annotations

import contextlib
import functools
import math
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fitscope import flops
from fitscope.model import SCOPE, TRACE_ENDINGS, UPDATE
from fitscope.observe.backends import Backend
from fitscope.observe.ledger import Ledger
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams
from fitscope.observe.stepping import EnoughRecorded
from fitscope.observe.units import is_whole

ROUNDS = 6
BY_CLOCK, PROFILED = 1.0, 0.6
"""Seconds of each round: by the clock, and on the profiler."""
MOST_STEPS, MOST_PROFILED = 50, 8
"""Steps of each round."""
WARM_UP = 0.5
"""Seconds in which steps run before any is timed."""
IGNORED = ("mask", "attention_mask", "training", "initial_state", "return_attention_scores", "use_causal_mask")
"""Arguments of a layer that are no inputs."""


@dataclass
class Row:
    """A layer as the step called it."""

    number: int
    name: str
    layer: Any
    calls: int = 0
    forward: int | None = 0
    backward: int | None = 0
    activations: int = 0
    moved: int = 0
    """Bytes of inputs and outputs."""
    outputs: list[list[int]] = field(default_factory=list)


class Dissection:
    """One measurement, from being asked for to the facts that it leaves."""

    def __init__(self, run: Path, seconds: float) -> None:
        self.run = run
        self.seconds = seconds
        self.done = False
        self.scoped = False
        """Whether layers are told apart now."""
        self.noting = False
        """Whether a pass through the model is noted now."""
        self.model: Any = None
        self.batch_size: int | None = None
        self.rows: dict[int, Row] = {}
        self._path: list[Any] = []
        self._trained = False
        self._thread = 0
        self._owners: dict[int, str] = {}

    # --- what the traced step goes through ---------------------------------------------------------------------

    def begin_pass(self) -> None:
        """The step begins: what earlier passes noted was an earlier trace."""
        if self.noting:
            self._owners.clear()
            self._trained = False
            for row in self.rows.values():
                row.calls = row.activations = row.moved = 0
                row.forward = row.backward = 0
                row.outputs.clear()

    def call(self, original: Any, backend: Backend, layer: Any, args: Any, kwargs: Any) -> Any:
        """A layer is called: its operations get a scope, unless it is a part of a layer that has one."""
        inside = self._path and is_whole(self._path[-1])
        if not self.scoped or threading.get_ident() != self._thread or inside:
            return original(layer, *args, **kwargs)
        row = self._row(layer)
        self._path.append(layer)
        try:
            with backend.scope(f"{SCOPE}{row.number}."):
                outputs = original(layer, *args, **kwargs)
        finally:
            self._path.pop()
        if self.noting:
            try:
                self._note(row, args, kwargs, outputs)
            except Exception:  # a layer of an unusual kind: its time is known all the same
                row.forward = row.backward = None
        return outputs

    def owner(self, variable: Any) -> str:
        """The scope of a variable's update: that of its layer, or else the optimizer's."""
        if not self._owners:
            for row in self.rows.values():
                for each in _own(row.layer, "trainable_variables"):
                    # TensorFlow's optimizers are given the variable inside of Keras'.
                    for known in (each, getattr(each, "_value", each)):
                        self._owners[id(known)] = f"{UPDATE}{row.number}"
        return self._owners.get(id(variable), "optimizer")

    def _row(self, layer: Any) -> Row:
        found = self.rows.get(id(layer))
        if found is None:
            above = [str(each.name) for each in self._path if each is not self.model]
            found = self.rows[id(layer)] = Row(len(self.rows), "/".join([*above, str(layer.name)]), layer)
        return found

    def _note(self, row: Row, args: Any, kwargs: Any, outputs: Any) -> None:
        tree: Any = sys.modules["keras"].tree
        named = [value for name, value in kwargs.items() if name not in IGNORED]
        given = [each for each in tree.flatten([args, named]) if hasattr(each, "shape")]
        made = [each for each in tree.flatten(outputs) if hasattr(each, "shape")]
        inputs, results = [self._shape(each) for each in given], [self._shape(each) for each in made]
        row.calls += 1
        row.outputs = [list(shape) for shape in results if shape is not None][:4]
        trainable = any(math.prod(weight.shape) for weight in row.layer.trainable_variables)
        if _parts(row.layer):
            return  # what it is made of has rows of its own
        sizes = [_bytes(shape, each) for shape, each in zip(results, made, strict=True)]
        row.activations += sum(sizes)
        row.moved += sum(sizes) + sum(_bytes(shape, each) for shape, each in zip(inputs, given, strict=True))
        known = [shape for shape in inputs if shape is not None]
        work = flops.of_layer(row.layer, known) if len(known) == len(inputs) else None
        if work is None or row.forward is None or row.backward is None:
            row.forward = row.backward = None
        else:
            row.forward += work.forward
            row.backward += work.backward(trainable=trainable, inputs=self._trained)
        self._trained = self._trained or trainable

    def _shape(self, tensor: Any) -> tuple[int, ...] | None:
        sizes = list(tensor.shape)
        if sizes and sizes[0] is None:
            sizes[0] = self.batch_size
        return tuple(int(size) for size in sizes) if all(size is not None for size in sizes) else None

    # --- the measurement -----------------------------------------------------------------------------------------

    def measure(self, model: Any, function: Any, arguments: tuple[Any, ...], backend: Backend) -> None:
        """Measures the step that is about to be made."""
        self.done = True
        self.model = model
        self._thread = threading.get_ident()
        if getattr(model, "run_eagerly", False) and backend.name != "torch":
            raise _UnmeasurableError("the model runs eagerly, so there is no compiled step: remove run_eagerly first")
        self.scoped = self.noting = True
        at_once = _scope_updates(model, self, backend)
        step, batch, notes = backend.repeat_step(model, function, arguments)
        sizes = [tuple(each.shape) for each in sys.modules["keras"].tree.flatten(batch) if hasattr(each, "shape")]
        self.batch_size = next((int(size[0]) for size in sizes if size), None)
        steps = max(1, int(getattr(model, "steps_per_execution", 1) or 1))
        _say("compiling the step with its layers told apart")
        began = time.perf_counter()
        step()
        compiled = time.perf_counter() - began
        self.noting = False
        by_clock, traces = self._rounds(step, backend)
        recorder.fact(
            "layers",
            model=str(model.name),
            batch=[list(size) for size in sizes],
            steps_per_execution=steps,
            jit_compile=bool(getattr(model, "jit_compile", False)) and backend.name != "torch",
            device=backend.device(),
            by_clock=by_clock,
            traces=traces,
            first_seconds=compiled,
            notes=notes,
            updates_at_once=at_once,
            rows=[_row_value(row) for row in self.rows.values()],
            optimizer=type(getattr(model, "optimizer", None)).__name__,
            parameters=sum(math.prod(weight.shape) for weight in model.trainable_variables),
        )

    def _rounds(self, step: Callable[[], None], backend: Backend) -> tuple[list[list[float]], list[str]]:
        """Steps by the clock and on the profiler, in turns; gives their seconds, and the files of the traces."""
        began = time.perf_counter()
        usual = _timed(step)
        while time.perf_counter() - began < min(WARM_UP, self.seconds / 10):
            usual = _timed(step)
        by_clock: list[list[float]] = []
        traces: list[str] = []
        for number in range(1, ROUNDS + 1):
            round_began = time.perf_counter()
            _say(f"measuring, round {number}: {usual * 1e3:.1f} ms per step")
            by_clock.append([_timed(step) for _ in range(_number(BY_CLOCK / usual, MOST_STEPS))])
            usual = sorted(by_clock[-1])[len(by_clock[-1]) // 2]
            traces.append(self._profile(step, backend, number, _number(PROFILED / usual, MOST_PROFILED)))
            now = time.perf_counter()
            if now - began + (now - round_began) > self.seconds:
                break
        return by_clock, traces

    def _profile(self, step: Callable[[], None], backend: Backend, number: int, steps: int) -> str:
        folder = tempfile.mkdtemp(prefix="fitscope-layers-")
        try:
            backend.start_trace(folder)
            try:
                if steps > 1:
                    step()  # the first one after a start is slower
                for each in range(steps):
                    with backend.mark_step(each):
                        step()
            finally:
                written = backend.stop_trace(folder)
            ending = next(ending for ending in TRACE_ENDINGS if written.endswith(ending))
            place = self.run.with_name(f"{self.run.stem}-{number}{ending}")
            shutil.move(written, place)
            return place.name
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class _UnmeasurableError(Exception):
    """Why this step cannot be measured."""


_dissections: list[Dissection] = []


def arm(run: Path, seconds: float) -> None:
    """The layers are asked for: traces are put beside this run file."""
    _dissections[:] = [Dissection(run, seconds)]


def hold(seams: Seams, backend: Backend) -> None:
    """Holds what a traced step goes through, and the place where the first one begins; only if it is asked for."""
    if not _dissections:
        return
    from keras.src.layers.layer import Layer
    from keras.src.optimizers.base_optimizer import BaseOptimizer
    from keras.src.trainers.trainer import Trainer

    dissection = _dissections[0]
    original = Layer.__call__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return dissection.call(original, backend, self, args, kwargs)

    seams.replace(Layer, "__call__", call)
    for owner, name, part in (
        (Trainer, "_compute_loss", "loss"),
        (Trainer, "compute_metrics", "metrics"),
        (BaseOptimizer, "apply", "optimizer"),
    ):
        seams.replace(owner, name, _scoped(getattr(owner, name), dissection, backend, part))

    def making(ledger: Ledger, model: Any, args: Any, kwargs: Any) -> Any:
        if not dissection.done and getattr(model, "train_function", None) is None:
            _note_passes(model, dissection)
        return model

    def made(ledger: Ledger, model: Any, result: Any, error: BaseException | None) -> None:
        if error is None and not dissection.done:
            model.train_function = _measuring(model, model.train_function, dissection, backend)

    seams.hold(backend.trainer(), "make_train_function", making, made)


def _note_passes(model: Any, dissection: Dissection) -> None:
    """This process trains nothing: its model may be changed."""
    train_step = model.train_step

    @functools.wraps(train_step)
    def noted(*args: Any, **kwargs: Any) -> Any:
        dissection.begin_pass()
        return train_step(*args, **kwargs)

    model.train_step = noted


def _scope_updates(model: Any, dissection: Dissection, backend: Backend) -> bool:
    """Gives the update of every weight the scope of its layer; True where the optimizer updates all at once."""
    optimizer: Any = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    original = getattr(optimizer, "update_step", None)
    if original is None or hasattr(optimizer, "_parallel_update_step"):
        return True

    @functools.wraps(original)
    def update_step(gradient: Any, variable: Any, *args: Any, **kwargs: Any) -> Any:
        with backend.scope(f"{SCOPE}{dissection.owner(variable)}."):
            return original(gradient, variable, *args, **kwargs)

    optimizer.update_step = update_step
    return False


def _scoped(original: Any, dissection: Dissection, backend: Backend, part: str) -> Any:
    @functools.wraps(original)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        with backend.scope(f"{SCOPE}{part}.") if dissection.scoped else contextlib.nullcontext():
            return original(*args, **kwargs)

    return scoped


def _measuring(model: Any, function: Any, dissection: Dissection, backend: Backend) -> Any:
    def measured(*arguments: Any) -> Any:
        if dissection.done:
            return function(*arguments)
        try:
            dissection.measure(model, function, arguments, backend)
        except Exception as error:
            says = str(error) if isinstance(error, _UnmeasurableError) else f"{type(error).__name__}: {error}"
            recorder.fact("layers", problem=says[:500])
        recorder.fact("stopped", seconds=dissection.seconds)
        recorder.stopped = True
        raise EnoughRecorded

    return measured


def _timed(step: Callable[[], None]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def _number(wanted: float, most: int) -> int:
    return max(1, min(most, int(wanted)))


def _say(text: str) -> None:
    recorder.fact("progress", says=text)
    recorder.flush()


def _bytes(shape: tuple[int, ...] | None, tensor: Any) -> int:
    name = str(sys.modules["keras"].backend.standardize_dtype(tensor.dtype))
    bits = next(
        (int(name[len(kind) :]) for kind in ("float", "bfloat", "int", "uint") if name[len(kind) :].isdigit()), 8
    )
    return math.prod(shape) * bits // 8 if shape is not None else 0


def _row_value(row: Row) -> dict[str, Any]:
    layer = row.layer
    return {
        "number": row.number,
        "name": row.name,
        "kind": flops.kind_of(layer),
        "calls": row.calls,
        "parameters": sum(math.prod(weight.shape) for weight in _own(layer, "weights")),
        "trainable": sum(math.prod(weight.shape) for weight in _own(layer, "trainable_variables")),
        "activation_bytes": row.activations,
        "moved_bytes": row.moved,
        "forward_flops": row.forward,
        "backward_flops": row.backward,
        "outputs": row.outputs,
        "group": bool(_parts(layer)),
    }


def _parts(layer: Any) -> list[Any]:
    """The layers in a layer that have rows of their own."""
    return [] if is_whole(layer) else list(layer._flatten_layers(include_self=False, recursive=False))


def _own(layer: Any, kind: str) -> list[Any]:
    """The weights of a layer that are not those of the layers in it."""
    below = {id(weight) for each in _parts(layer) for weight in getattr(each, kind)}
    return [weight for weight in getattr(layer, kind) if id(weight) not in below]
