"""The program of a worker process: gets a source by value, loads what it is asked for, hands it over in memory.

The process is a fresh one that imports only what the source needs, and it ends when its parent does, whatever it is
doing at that moment.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from typing import Any

from fitscope.remedy.loading.batches import Source, fingerprint
from fitscope.remedy.loading.shared import Channel, Memory, Packed, unpack


def main() -> None:
    """Arguments: the parent's process id, and the descriptors of the channel, the lifeline and the slots."""
    parent, end, lifeline, *slots = map(int, sys.argv[1:])
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C goes to the whole group; what it means is the parent's business
    threading.Thread(target=watch, args=(parent, lifeline), name="fitscope lifeline", daemon=True).start()
    try:
        Worker(Channel(socket.socket(fileno=end)), [Memory(each) for each in slots]).run()
    except (EOFError, OSError):
        pass  # the parent is gone
    leave()


def watch(parent: int, lifeline: int) -> None:
    """Ends this process with its parent. A fork of the parent may hold the lifeline, too, so its id is looked at."""
    while os.getppid() == parent:
        if select.select([lifeline], [], [], 1.0)[0]:
            break
    leave()


def leave() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a library's thread must not keep this process


class Worker:
    """Does what the parent's messages say, one after the other."""

    def __init__(self, channel: Channel, slots: list[Memory]) -> None:
        self._channel = channel
        self._slots = slots
        self._source: Source | None = None

    def run(self) -> None:
        while True:
            what, *rest = self._channel.receive()
            getattr(self, what)(*rest)

    def take(self, size: int) -> None:
        """A source, or the same one as it is now."""
        memory = self._channel.receive_memory()
        try:
            self._source = unpack(memory.view(size))
        except BaseException as error:
            self._channel.send("unusable", f"{type(error).__name__}: {error}")
        else:
            self._channel.send("taken")
        finally:
            memory.close()

    def load(self, index: int, slot: int, seed: tuple[int, ...]) -> None:
        assert self._source is not None
        sow(seed)
        wall, processor = time.perf_counter(), time.thread_time()
        try:
            batch = self._source.batch(index)
        except BaseException as error:
            self._channel.send("raised", *describe(error))
            return
        wall, processor = time.perf_counter() - wall, time.thread_time() - processor
        try:
            packed = Packed(batch)
            view = self._slots[slot].view(packed.size)
        except Exception as error:
            self._channel.send("unsendable", f"{type(error).__name__}: {error}")
            return
        packed.write(view)
        self._channel.send("batch", slot, packed.size, wall, processor)

    def check(self, index: int) -> None:
        """Whether the same index gives the same batch twice, and which one."""
        assert self._source is not None
        found = []
        try:
            for seed in range(2):
                sow((seed,))
                found.append(fingerprint(self._source.batch(index)))
        except BaseException:
            found = [None]
        self._channel.send("checked", found[0] if len(set(found)) == 1 else None)


def sow(seed: tuple[int, ...]) -> None:
    """Gives each batch random numbers of its own: two workers must not draw the same ones."""
    import random

    import numpy as np

    drawn = np.random.SeedSequence(seed).generate_state(4)
    random.seed(drawn.tobytes())
    np.random.seed(drawn)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(int(drawn[0]))


def describe(error: BaseException) -> tuple[bytes | None, str]:
    """An exception for the parent: itself, if it can travel, and its words."""
    words = "".join(traceback.format_exception(error))
    import cloudpickle

    error.__traceback__ = error.__context__ = None
    try:
        sent: Any = cloudpickle.dumps(error)
        cloudpickle.loads(sent)
    except Exception:
        sent = None
    return sent, words


if __name__ == "__main__":
    main()
