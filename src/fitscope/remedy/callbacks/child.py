"""A callback in a process of its own: for work that holds Python's interpreter lock.

The process is a fresh one and gets the callback by value. The standard library's own way to start a process would run
an unguarded training script a second time, and a fork is not safe beside a backend's threads.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle


class Child:
    """The training's side: a recipient of hooks, see `courier.Recipient`."""

    def __init__(self, callback: Any, params: Any, backend: str, together: frozenset[str]) -> None:
        self._callback = callback
        self._together = together
        self._name = type(callback).__name__
        try:
            payload = cloudpickle.dumps((callback, params))
        except Exception as error:
            raise ValueError(
                f"Background: {self._name} cannot be sent to another process ({error}); open files and connections "
                "in on_train_begin, or leave out process=True"
            ) from error
        to_child, from_parent = os.pipe(), os.pipe()
        environment = {
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **os.environ,
            "KERAS_BACKEND": backend,
            "CUDA_VISIBLE_DEVICES": "",  # the device belongs to the training
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fitscope.remedy.callbacks.child", str(to_child[0]), str(from_parent[1])],
            pass_fds=(to_child[0], from_parent[1]),
            stdin=subprocess.DEVNULL,
            env=environment,
        )
        os.close(to_child[0])
        os.close(from_parent[1])
        self._to = Connection(to_child[1], readable=False)
        self._from = Connection(from_parent[0], writable=False)
        self._to.send_bytes(cloudpickle.dumps(sys.path))  # needed to read what follows
        self._to.send_bytes(payload)

    def takes_together(self, hook: str) -> bool:
        """As for the callback itself."""
        return hook in self._together

    def call(self, hook: str, args: tuple[Any, ...], weights: Any) -> None:
        """One hook, there."""
        self._ask((hook, args))

    def call_together(self, hook: str, records: list[tuple[Any, ...]]) -> None:
        """Several records of one hook, there."""
        self._ask((plural(hook), tuple(list(column) for column in zip(*records, strict=True))))

    def close(self) -> None:
        """Brings the callback's attributes back and ends the process."""
        try:
            if self._process.poll() is None:
                vars(self._callback).update(self._ask(None))
        finally:
            self._to.close()
            self._from.close()
            self._process.wait()

    def _ask(self, request: Any) -> Any:
        try:
            self._to.send_bytes(cloudpickle.dumps(request))
            return self._answer()
        except (EOFError, BrokenPipeError):
            code = self._process.wait()
            raise RuntimeError(f"the process of {self._name} has ended by itself, with exit code {code}") from None

    def _answer(self) -> Any:
        error, note, value = cloudpickle.loads(self._from.recv_bytes())
        if error is None:
            return value
        error.add_note(note)
        raise error


def plural(hook: str) -> str:
    """The hook that takes several records at once."""
    return hook.replace("_batch_", "_batches_")


def main() -> None:
    """The other side."""
    # Ctrl-C reaches the whole group of processes; what is queued is still to be delivered.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = Connection(int(sys.argv[1]), writable=False), Connection(int(sys.argv[2]), readable=False)
    try:
        sys.path[:] = cloudpickle.loads(requests.recv_bytes())
        payload = requests.recv_bytes()
        callback: Any = None
        answer: tuple[Any, ...]
        while True:
            request = requests.recv_bytes()
            try:
                callback = callback or _unpacked(payload)
                answer = (None, "", _do(callback, request))
            except BaseException as error:
                answer = (error, traceback.format_exc(), None)
            answers.send_bytes(_packed(answer))
    except (EOFError, BrokenPipeError):
        return  # the training has ended


def _unpacked(payload: bytes) -> Any:
    callback, params = cloudpickle.loads(payload)
    callback.set_params(params)
    return callback


def _do(callback: Any, request: bytes) -> Any:
    """Calls a hook, or gives the attributes that can travel."""
    wanted = cloudpickle.loads(request)
    if wanted is not None:
        hook, args = wanted
        getattr(callback, hook)(*args)
        return None
    return {name: value for name, value in vars(callback).items() if name != "_model" and _can_travel(value)}


def _can_travel(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True


def _packed(answer: tuple[Any, ...]) -> bytes:
    error, note, value = answer
    if error is not None and not _can_travel(error):
        error = RuntimeError(f"{type(error).__name__}: {error}")
    packed: bytes = cloudpickle.dumps((error, note, value))
    return packed


if __name__ == "__main__":
    main()
