"""PyTorch: the loop fetches the batch before the step; on a CPU the step runs in the calling thread."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from fitscope.observe.calls import Call, Waits
from fitscope.observe.compiles import note
from fitscope.observe.ledger import Ledger
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams, user_place

name = "torch"
fetches_before_step = True


def trainer_module() -> ModuleType:
    """The module of Keras that holds the trainer."""
    return sys.modules["keras.src.backend.torch.trainer"]


def trainer() -> Any:
    """The class whose `fit` every model inherits."""
    return trainer_module().TorchTrainer


def epoch_iterator() -> Any:
    """The class that goes through the batches of an epoch."""
    return trainer_module().TorchEpochIterator


@functools.cache
def reading_waits() -> bool:
    """On a CPU the step is done when it returns; on a device reading the logs waits for it."""
    return device() != "cpu"


def waits(ledger: Ledger, call: Call, iterator: Any) -> Waits | None:
    """The batch was fetched before the step: nothing has to be worked out."""
    return None


def hold(seams: Seams) -> None:
    """Holds torch's compiler, where it is used at all."""
    module: Any = trainer_module()

    def making(ledger: Ledger, model: Any, args: Any, kwargs: Any) -> Any:
        if getattr(model, "jit_compile", False):
            _hear_compiler(seams)

    for mode in ("train", "test", "predict"):
        seams.hold(module.TorchTrainer, f"make_{mode}_function", making, lambda *_: None)


@functools.cache
def device() -> str:
    """The kind of device that trains."""
    from keras.src.backend.torch.core import get_device

    return str(get_device()).split(":")[0].replace("cuda", "gpu")


def evaluates() -> bool | None:
    """Under `torch.no_grad()` and its kin nothing is trained."""
    return not sys.modules["torch"].is_grad_enabled()


def start_trace(folder: str) -> None:
    """Starts torch's profiler on the CPU and on the GPU, where there is one."""
    torch: Any = sys.modules["torch"]
    if torch._C._autograd._profiler_enabled():
        raise RuntimeError("torch.profiler is already in use")
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    profiler = torch.profiler.profile(activities=kinds)
    profiler.start()
    _profilers.append(profiler)


def stop_trace(folder: str) -> str:
    """Stops it; the name of the file that it wrote below the folder."""
    profiler = _profilers.pop()
    profiler.stop()
    path = os.path.join(folder, "trace.pt.trace.json.gz")
    profiler.export_chrome_trace(path)
    return path


def mark(name: str) -> Any:
    """Marks what happens in it on the profiler's timeline."""
    return sys.modules["torch"].profiler.record_function(name)


def mark_step(number: int) -> Any:
    """Marks a step by the name that torch.profiler itself gives it."""
    return mark(f"ProfilerStep#{number}")


def scope(name: str) -> Any:
    """Marks the operations that run in it; those of the gradient are known by their numbers."""
    return mark(name) if _profilers else contextlib.nullcontext()


def repeat_step(model: Any, function: Any, arguments: tuple[Any, ...]) -> tuple[Callable[[], None], Any, list[str]]:
    """The step on its first batch; without torch.compile, which leaves nothing of the layers."""
    torch: Any = sys.modules["torch"]
    (batches,) = arguments
    compiled = bool(getattr(model, "jit_compile", False))
    notes = ["measured without torch.compile, which leaves no layers to tell apart"] if compiled else []

    def step() -> None:
        model.train_step(batches[0]) if compiled else function(batches)
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    return step, batches[0], notes


def compiling() -> Callable[[], bool]:
    """What tells whether a compiler goes through Python code just now that nothing of ours may be in."""
    is_compiling: Callable[[], bool] = sys.modules["torch"].compiler.is_compiling
    return is_compiling


def extent(traced: Any) -> int:
    """How far the trace of a step has come."""
    return 0


def cut(extent: int, given: tuple[Any, ...], variables: list[Any], batch_size: int | None) -> Any:
    """What a step that is being traced computes for some variables since then; None if it cannot be cut out."""
    return None  # steps run eagerly, or are compiled from their code


_profilers: list[Any] = []


_hearing: list[Any] = []


def _hear_compiler(seams: Seams) -> None:
    """Loads torch's compiler, as the model is about to, and is told when it begins and ends."""
    if _hearing:
        return
    from threading import get_ident

    from torch._dynamo.callback import callback_handler as handler

    def begun(*_: Any) -> None:
        ledger = recorder.ledgers.get(get_ident())
        if ledger is not None and isinstance(ledger.call, Call):
            open_nodes.append((ledger, ledger.node))
            ledger.enter(ledger.call.stations.compile("torch.compile"))

    def ended(*_: Any) -> None:
        if open_nodes:
            ledger, node = open_nodes.pop()
            began = ledger.since
            note(ledger.call, "step", ledger.back(node) - began, user_place(sys._getframe(1)))

    open_nodes: list[tuple[Any, int]] = []
    handler.register_start_callback(begun)
    handler.register_end_callback(ended)
    _hearing.append(handler)

    def forget() -> None:
        _hearing.clear()
        handler.remove_start_callback(begun)
        handler.remove_end_callback(ended)

    seams.on_release(forget)
