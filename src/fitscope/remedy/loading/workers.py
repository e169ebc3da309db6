"""Worker processes as the training's process sees them: started, given a source, asked for batches, ended."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import cloudpickle

from fitscope.remedy.loading.batches import Items, Source, name_of
from fitscope.remedy.loading.shared import Channel, Memory, Packed, copy_out, unpack

PATH = "FITSCOPE_WORKER_PATH"
START = (
    f"import json, os, sys; sys.path[:] = json.loads(os.environ.pop({PATH!r})); "
    "from fitscope.remedy.loading.worker import main; main()"
)
SLOTS = 2
"""Batches under way in one process: while one is fetched, the next one is loaded."""
PATIENCE = 0.5


@dataclass
class Outcome:
    """What became of one index: a batch or an exception, and what loading it took."""

    batch: Any = None
    error: BaseException | None = None
    wall: float = 0.0
    processor: float = 0.0
    queued: float = 0.0
    """Seconds without a processor because other threads had them all."""


class UnusableError(Exception):
    """A worker process cannot do this; the training's own process perhaps can."""


class Snapshot:
    """A source by value, in memory that all worker processes share."""

    def __init__(self, packed: Packed) -> None:
        self.memory = Memory()
        self.size = packed.size
        packed.write(self.memory.view(packed.size))

    def is_still(self, packed: Packed) -> bool:
        return packed.equals(self.memory.view(self.size))


def pack(source: Source) -> Packed:
    """A script's own classes go by value, and so does Keras' PyDataset: a worker need not import Keras for it."""
    found = (
        [kind for kind in type(source.items).__mro__ if kind.__name__ == "PyDataset"]
        if isinstance(source, Items)
        else []
    )
    modules = [sys.modules[kind.__module__] for kind in found if kind.__module__.startswith("keras.")]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        return Packed(source, by_value=True)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


class WorkerProcess:
    """One worker process. Its batches come back in the order in which they were asked for."""

    def __init__(self, backend: str, threads: int) -> None:
        if not sys.executable:
            raise UnusableError("this Python does not know its own program (sys.executable)")
        ours, theirs = socket.socketpair()
        held, self._lifeline = os.pipe()
        self._slots = [Memory() for _ in range(SLOTS)]
        descriptors = [theirs.fileno(), held, *(slot.descriptor for slot in self._slots)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, *map(str, (os.getpid(), *descriptors))],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                env=_environment(backend, threads),
            )
        except OSError as error:
            ours.close()
            os.close(self._lifeline)
            raise UnusableError(f"no worker process could be started: {error}") from error
        finally:
            theirs.close()
            os.close(held)
        self._channel = Channel(ours)
        self._asked = 0
        self._closed = False
        self.snapshot: Snapshot | None = None
        """The source as this process has it."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def take(self, snapshot: Snapshot) -> None:
        """Hands over the source; nothing may be under way."""
        self._channel.send("take", snapshot.size)
        self._channel.send_memory(snapshot.memory)
        what, *rest = self._answer()
        if what == "unusable":
            raise UnusableError(f"a worker process cannot make the source from its pickle: {rest[0]}")
        self.snapshot = snapshot

    def check(self, index: int) -> bytes | None:
        """The batch's fingerprint, if a second try gives the same one."""
        self._channel.send("check", index)
        found: bytes | None = self._answer()[1]
        return found

    def ask(self, index: int, seed: tuple[int, ...]) -> None:
        """For at most as many batches as there are slots, before they are fetched."""
        try:
            self._channel.send("load", index, self._asked % SLOTS, seed)
        except OSError:
            pass  # the next answer says why
        self._asked += 1

    def fetch(self) -> Outcome:
        what, *rest = self._answer()
        if what == "raised":
            return Outcome(error=_rebuilt(*rest))
        if what == "unsendable":
            raise UnusableError(f"a batch cannot be sent to the training: {rest[0]}")
        slot, size, wall, processor = rest
        try:
            return Outcome(unpack(copy_out(self._slots[slot].view(size))), None, wall, processor)
        except Exception as error:
            raise UnusableError(f"a batch cannot be received from a worker process: {error}") from error

    def _answer(self) -> tuple[Any, ...]:
        try:
            return self._channel.receive()
        except (EOFError, OSError):
            if self._closed:
                raise UnusableError("the worker processes were ended") from None
            raise UnusableError(f"a worker process {self._ending()}") from None

    def _ending(self) -> str:
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return "hung up"
        return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def close(self) -> None:
        """Ends the process whatever it does; wakes who waits for its answer."""
        if self._closed:
            return
        self._closed = True
        os.close(self._lifeline)
        self._channel.hang_up()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for slot in self._slots:
            slot.close()


def _environment(backend: str, threads: int) -> dict[str, str]:
    each = str(threads)
    return {
        "OMP_NUM_THREADS": each,
        "OPENBLAS_NUM_THREADS": each,
        "MKL_NUM_THREADS": each,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        **{key: value for key, value in os.environ.items() if not key.startswith("FITSCOPE")},
        "KERAS_BACKEND": backend,
        "CUDA_VISIBLE_DEVICES": "",  # the device belongs to the training
        "JAX_PLATFORMS": "cpu",
        PATH: json.dumps([each for each in sys.path if isinstance(each, str)]),
    }


def _rebuilt(sent: bytes | None, words: str) -> BaseException:
    """The exception of a worker process; its own traceback, which cannot travel, as a note."""
    try:
        if sent is None:
            raise pickle.UnpicklingError
        error: BaseException = pickle.loads(sent)
    except Exception:
        error = RuntimeError(words.strip().splitlines()[-1])
    error.add_note("In the worker process:\n" + words.rstrip())
    return error


def unpicklable(source: Source, error: Exception) -> str:
    inner = getattr(source, "items", None) or getattr(source, "function", None)
    return f"{name_of(inner)} cannot be sent to another process ({error})"
