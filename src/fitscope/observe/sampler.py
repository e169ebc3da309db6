"""Which lines of the user's code the time goes to, seen by looking at all threads a few times a second."""

from __future__ import annotations

import functools
import gc
import os
import random
import sys
import threading
import time
from collections.abc import Iterable
from itertools import accumulate, chain, islice, repeat, takewhile
from operator import attrgetter, itemgetter
from types import CodeType
from typing import Any

from fitscope.observe import seams
from fitscope.observe.ledger import Ledger
from fitscope.observe.recorder import Recorder
from fitscope.observe.seams import is_user

OFTEN, USUAL, RARELY = 0.02, 0.05, 0.1
"""Seconds between two looks: in the first steps, as what is traced is traced but once; usually; in a long run."""
FIRST_STEPS = 20
BRIEF, LONG = 2.0, 20.0
"""Seconds of training: so long there are many looks at first steps at the most, and from then on few at anything."""
IN_VAIN = 5
"""Looks in a row that found nothing of the user's, after which they are rare until one does: each takes a part of
the steps, however short these are, and lines are told by the looks that found one."""

PROMPT = 100
"""Microseconds after which the sampler asks for the interpreter right before a look; Python's own 5 ms hide shorter
stretches: it would get its turn only where the training lets go of the interpreter by itself, and look there."""
MOST_AFTER = 0.005
"""Such a place is where the sampler wakes up; up to so many seconds later it looks."""

MOST_OUTSIDE = 200
"""Looks between two steps of a loop written by hand that are kept until the next step."""

_IDLE_FILES = {"threading.py", "queue.py", "selectors.py", "socketserver.py", "connection.py", "pool.py"}


class Sampler:
    """A thread that looks at the stacks of all others while something trains."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._in_vain = 0
        self.prompt_turns = PromptTurns()

    def start(self) -> None:
        """Begins to look."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look_on, name="fitscope-sampler", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Looks no more."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2)
            self._thread = None

    def _look_on(self) -> None:
        pause = random.Random(0)
        looked = 0.0
        while True:
            rest = self._pause(looked) * pause.uniform(0.5, 1.5)
            if self._stopped.wait(rest):
                return
            began = time.thread_time_ns()
            try:
                if not self._recorder.ledgers:
                    continue
                with self.prompt_turns:
                    self._stopped.wait(pause.uniform(0, MOST_AFTER))
                    if self.look():
                        looked += rest
            except Exception as error:
                self._recorder.fail(error)
                return
            self._recorder.own.row("sampling")[0] += time.thread_time_ns() - began

    def _pause(self, looked: float) -> float:
        """Seconds until the next look, after so many seconds of training."""
        if looked >= LONG:
            return RARELY
        regions = list(self._recorder.regions.values())
        if looked < BRIEF and any(region.steps < FIRST_STEPS for region in regions):
            return OFTEN
        return RARELY if self._in_vain >= IN_VAIN else USUAL

    def look(self) -> bool:
        """Counts one sample for each thread in the user's code; says whether something trains now."""
        ledgers = self._recorder.ledgers
        busy = {ident: ledger for ident, ledger in list(ledgers.items()) if ledger.node != ledger.outside}
        for ledger in list(ledgers.values()):
            if ledger.ident not in busy and (ledger.last_batch or ledger.last_update):
                _look_outside(ledger)
        if not busy:
            return False
        tree = self._recorder.tree
        root = tree.path(next(iter(busy.values())).node)[0]
        me = threading.get_ident()
        self._in_vain += 1
        for ident, file in innermost_files().items():
            if ident == me:
                continue
            training = busy.get(ident)
            if training is not None:
                node = training.node
                found = _user_line(stack_of(ident), within_training=True)
                if found is not None and training.node == node:
                    self._count(node, found)
            elif ident not in ledgers and not is_idle(file):
                found = _user_line(stack_of(ident), within_training=False)
                if found is not None:
                    self._count(-root, found)
        return True

    def _count(self, node: int, found: tuple[str, int, str, str]) -> None:
        self._recorder.lines.row(node, *found)[0] += 1
        self._in_vain = 0


def _look_outside(ledger: Ledger) -> None:
    """A thread that trains in a loop by hand is between two steps, or the loop is over: the next step will tell."""
    if len(ledger.seen_outside) < MOST_OUTSIDE:
        found = _user_line(stack_of(ledger.ident), within_training=False)
        if found is not None and ledger.node == ledger.outside:
            ledger.seen_outside.append(found)


def _user_line(stack: list[tuple[CodeType, int]], *, within_training: bool) -> tuple[str, int, str, str] | None:
    """The innermost line of the user's own code; on the training thread, inside the training call only.

    With it goes what the line was doing in the libraries it called, as far as their names tell.
    """
    doing = ""
    for code, line in stack:
        if is_user(code.co_filename):
            return code.co_filename, line or code.co_firstlineno, code.co_name, doing
        if within_training and code.co_filename == seams.__file__:
            return None
        doing = what_is_done(code.co_filename, code.co_name) or doing
    return None


class PromptTurns:
    """Threads that wait for the interpreter get it soon; afterwards as before."""

    def __init__(self) -> None:
        self._usual = 0.0

    def __enter__(self) -> None:
        self._usual = sys.getswitchinterval()
        sys.setswitchinterval(PROMPT / 1e6)

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Also for a child that was forked meanwhile. A script that has set its own meanwhile keeps it."""
        usual, self._usual = self._usual, 0.0
        if usual and round(sys.getswitchinterval() * 1e6) == PROMPT:
            sys.setswitchinterval(usual)


# Another thread's stack is safe to walk only while that thread cannot run: a frame that returns in the middle leaves
# its neighbors with a pointer to nothing, and the process dies. The interpreter changes threads between bytecodes.
# So the walk is made of iterators that are written in C and run in one call, without a bytecode in between. And
# nothing may be collected meanwhile: before Python 3.12 a destructor that runs inside `_current_frames` (a tensor's,
# which lets go of the interpreter) can meet a thread that ends, and both wait forever.


def stack_of(ident: int) -> list[tuple[CodeType, int]]:
    """The code and the line of every frame of a thread, innermost first; empty if it has ended."""
    frames = map(itemgetter(ident), iter(sys._current_frames, None))
    walk = accumulate(chain(islice(frames, 1), repeat("f_back")), getattr)
    try:
        return _in_one_call(map(_CODE_AND_LINE, takewhile(bool, walk)))
    except KeyError:
        return []


def innermost_files() -> dict[int, str]:
    """The file of the innermost frame of every thread, by the thread's ident."""
    frames = iter(sys._current_frames, None)
    idents = chain.from_iterable(map(dict.keys, islice(frames, 1)))
    files = map(_FILE, chain.from_iterable(map(dict.values, islice(frames, 1))))
    found = _in_one_call(chain(idents, files))
    return dict(zip(found[: len(found) // 2], found[len(found) // 2 :], strict=True))


def _in_one_call(walk: Iterable[Any]) -> list[Any]:
    collecting = gc.isenabled()
    gc.disable()
    try:
        return list(walk)
    finally:
        if collecting:
            gc.enable()


@functools.lru_cache(maxsize=4096)
def is_idle(file: str) -> bool:
    """Whether a thread whose innermost code is in that file waits for something to do, as most do."""
    return os.path.basename(file) in _IDLE_FILES


_FILE = attrgetter("f_code.co_filename")
_CODE_AND_LINE = attrgetter("f_code", "f_lineno")


@functools.lru_cache(maxsize=4096)
def what_is_done(file: str, function: str) -> str:
    """What a function of a library is for: network, files, a Keras layer … or nothing that tells."""
    path = file.replace(os.sep, "/")
    if "/keras/src/layers/" in path or (path.endswith("/keras/src/models/model.py") and function == "__call__"):
        return "Keras layer"
    return next((doing for part, doing in _DOING if part in path), "")


_DOING = (
    ("/socket.py", "network"),
    ("/ssl.py", "network"),
    ("/http/client.py", "network"),
    ("/urllib/", "network"),
    ("/urllib3/", "network"),
    ("/requests/", "network"),
    ("/httpx/", "network"),
    ("/aiohttp/", "network"),
    ("/botocore/", "network"),
    ("/ftplib.py", "network"),
    ("/grpc/", "network"),
    ("/paramiko/", "network"),
    ("/pymongo/", "network"),
    ("/redis/", "network"),
    ("/smtplib.py", "network"),
    ("/websocket", "network"),
    ("/zmq/", "network"),
    ("/numpy/lib/_npyio", "files"),
    ("/numpy/lib/npyio", "files"),
    ("/numpy/lib/format", "files"),
    ("/numpy/lib/_format", "files"),
    ("/h5py/", "files"),
    ("/bz2.py", "files"),
    ("/gzip.py", "files"),
    ("/lzma.py", "files"),
    ("/nibabel/", "files"),
    ("/pandas/io/", "files"),
    ("/pydicom/", "files"),
    ("/scipy/io/", "files"),
    ("/soundfile.py", "files"),
    ("/tarfile.py", "files"),
    ("/tifffile", "files"),
    ("/zipfile", "files"),
    ("/pickle.py", "files"),
    ("/json/", "files"),
    ("/csv.py", "files"),
    ("/PIL/", "images"),
    ("/matplotlib/", "plots"),
    ("/logging/", "logging"),
    ("/tensorboard/", "summaries"),
    ("/summary_ops", "summaries"),
)
