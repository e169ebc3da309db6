"""Running a script under observation: as a child, so that nothing of ours stands between it and its fate."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fitscope import machine, store
from fitscope.live import Line
from fitscope.model import FitscopeError
from fitscope.observe import inject, start
from fitscope.observe.runfile import make_folder

GRACE, LONGEST_GRACE = 10.0, 120.0
"""Seconds that a script may stand still after its last exit handler (TensorFlow can hang there for ever), and seconds
that it may take to exit in all."""
AT_ONCE = 0.1
"""Seconds in which a signal has arrived at the script that was sent to it and to us."""
AT_WORK = 0.02
"""Processors: a process that is exiting and uses more is still at it."""
FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


@dataclass(frozen=True)
class Finished:
    """How a supervised script ended: the exit code to pass on, or the signal that it died of."""

    path: Path
    exit_code: int
    died_of: int | None
    problem: str | None


def supervise(
    command: list[str], path: Path, *, seconds: float | None = None, line: Line | None = None, trace: bool = False
) -> Finished:
    """Runs a command to its end and records the trainings in it to a file; `line` is drawn meanwhile."""
    problem = None
    started = time.time()
    writable, reason = prepare(path)
    if not writable:
        spare = Path(tempfile.gettempdir(), f"fitscope-{os.getpid()}-{path.stem}.run")
        problem = f"cannot write {path} ({reason}); the run is in {spare}"
        path = spare
    environment = recorded(os.environ, path, started, seconds)
    environment["FITSCOPE"] = "1"  # where PYTHONPATH is not read, or set anew, an installed fitscope begins by itself
    if trace:
        environment[start.TRACE] = "1"
    supervisor = _Supervisor(command, environment, path, started, line)
    code, hung = supervisor.run()
    path = supervisor.written()
    died_of = -code if code < 0 and not hung else None
    last = supervisor.last_words()
    if hung:
        code = int(last.get("exit_code") or (0 if last.get("ended") == "completed" else 1))
        problem = "the script was done but its process did not end, as TensorFlow's sometimes does; it was ended"
    exit_code = code if code >= 0 else 128 - code
    ended = _ended(code if not hung else exit_code, last)
    append(
        path,
        {
            "t": round(time.time() - started, 3),
            "ended": ended,
            "exit_code": exit_code,
            "wall_seconds": round(time.time() - started, 3),
            "git": _commit(),
        },
    )
    return Finished(path, exit_code, died_of, problem)


def recorded(
    environment: Mapping[str, str], path: Path, started: float, seconds: float | None = None
) -> dict[str, str]:
    """An environment in which Python records its trainings to a file."""
    found = {
        **environment,
        "PYTHONPATH": os.pathsep.join(
            [str(Path(inject.__file__).parent), *filter(None, [environment.get("PYTHONPATH")])]
        ),
        start.RUN: str(path.absolute()),
        start.STARTED: repr(started),
        start.PARENT: str(os.getpid()),
    }
    return found if seconds is None else {**found, start.FOR: repr(seconds)}


def pass_on(finished: Finished) -> None:
    """Ends this process as the script ended: with its exit code, or of the same signal."""
    if finished.died_of is not None:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(finished.died_of, signal.SIG_DFL)
        sys.stderr.flush()
        sys.stdout.flush()
        os.kill(os.getpid(), finished.died_of)
    sys.exit(finished.exit_code)


def _ended(code: int, last: dict[str, Any]) -> str:
    if code == -signal.SIGINT or last.get("ended") == "interrupted":
        return "interrupted"
    if code == -signal.SIGTERM:
        return "terminated"
    if code < 0:
        return "killed"
    if code == 0:
        return "completed"
    return "exception" if last.get("ended") == "exception" else "exit"


def _commit() -> str | None:
    """The commit that the script belongs to, if it belongs to one."""
    try:
        words = ["git", "rev-parse", "--short", "HEAD"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def prepare(path: Path) -> tuple[bool, str]:
    """Makes way for a new run file: says whether it can be written."""
    try:
        if path.is_dir():
            return False, "it is a folder"
        make_folder(path.parent)
        if path.exists() and path.is_file():
            store.check_replaceable(path)
            path.unlink()
        if not path.exists():
            path.touch()
            path.unlink()
    except OSError as error:
        return False, str(error.strerror or error)
    return True, ""


def append(path: Path, line: dict[str, Any]) -> None:
    """Adds a line to a run; its first one is the recorder's to write."""
    if is_begun(path):
        with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
            file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


def is_begun(path: Path) -> bool:
    """Whether the recorder has written the first line."""
    return path.is_file() and path.stat().st_size > 0


def last_words(path: Path, pid: int) -> dict[str, Any]:
    """The last line of a process in its run file, if it has said that it is about to exit."""
    with contextlib.suppress(OSError, ValueError):
        if path.is_file():
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - 4096))
                for line in reversed(file.read().splitlines()):
                    if line.startswith(b'{"t":') and b'"exiting":true' in line:
                        words: dict[str, Any] = json.loads(line)
                        if words.get("pid") == pid:
                            return words
    return {}


def _cut_torn_line(path: Path) -> None:
    """A script that was killed may have left a line half written: the next one must not be glued to it."""
    if path.is_file():
        with contextlib.suppress(OSError), path.open("rb+") as file:
            _cut(file)


def _cut(file: BinaryIO) -> None:
    end = file.seek(0, os.SEEK_END)
    while end:
        start_ = max(0, end - 65536)
        file.seek(start_)
        found = file.read(end - start_).rfind(b"\n")
        if found >= 0:
            end = start_ + found + 1
            break
        end = start_
    if end != file.seek(0, os.SEEK_END):
        file.truncate(end)


class _Ending:
    """A process that has said its last words: does it get on with exiting, or does it stand still?"""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began: float | None = None
        self._still_since = 0.0
        self._looked = 0.0
        self._worked = 0.0

    def hangs(self) -> bool:
        """Asked once in a while from the last words on."""
        now, worked = time.monotonic(), machine.processor_seconds(self._pid)
        if self._began is None:
            self._began = self._still_since = now
        elif worked - self._worked > AT_WORK * (now - self._looked):
            self._still_since = now
        self._looked, self._worked = now, worked
        return now - self._still_since > GRACE or now - self._began > LONGEST_GRACE


class _Supervisor:
    """The child, its signals and its pulse."""

    def __init__(
        self, command: list[str], environment: dict[str, str], path: Path, started: float, line: Line | None
    ) -> None:
        self.path = path
        self._line = line
        self.started = started
        self._forwarded = {getattr(signal, name) for name in FORWARDED if hasattr(signal, name)}
        self._waited = {*self._forwarded, signal.SIGCHLD}
        if line is not None:
            self._waited |= {signal.SIGWINCH, signal.SIGTSTP}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)
        self._arrivals, arrives = os.pipe()
        os.set_blocking(arrives, False)
        os.set_inheritable(arrives, True)
        environment = {**environment, start.ARRIVALS: str(arrives)}
        try:
            # With the files that were left open for it: `mpirun` and `make` speak to what they start through such.
            self._child = subprocess.Popen(command, env=environment, preexec_fn=self._unblock, close_fds=False)
        except OSError as error:
            os.close(self._arrivals)
            self._restore()
            raise FitscopeError(f"{command[0]} cannot be started: {error.strerror}.") from error
        finally:
            os.close(arrives)
        self._described: Path | None = None
        self._words: dict[str, Any] = {}
        self._meter: machine.Meter | None = None

    def run(self) -> tuple[int, bool]:
        """Waits for the child; returns its code and whether it hung at its end."""
        try:
            self._show()
            self._meter = self._make_meter()
            ending = _Ending(self._child.pid)
            while True:
                self._wait(1.0)
                code = self._child.poll()
                if code is not None:
                    _cut_torn_line(self.written())
                    self._measure()
                    return code, False
                self._measure()
                self._show()
                if self.last_words().get("exiting") and ending.hangs():
                    self._child.kill()
                    self._child.wait()
                    return -signal.SIGKILL, True
        finally:
            if self._line is not None:
                self._line.close()
            os.close(self._arrivals)
            self._restore()

    def written(self) -> Path:
        """The file that the recorder wrote in the end."""
        spare = Path(tempfile.gettempdir(), f"fitscope-{os.getpid()}-{self.path.stem}.run")
        return spare if spare.is_file() else self.path

    def last_words(self) -> dict[str, Any]:
        """The child's last line, if it has said that it is about to exit."""
        self._words = self._words or last_words(self.written(), self._child.pid)
        return self._words

    def _wait(self, seconds: float) -> None:
        """Until a signal comes or the time is over; signals sent to us alone are passed on."""
        if not hasattr(signal, "sigtimedwait"):
            time.sleep(min(seconds, 0.1))
            return
        info = signal.sigtimedwait(self._waited, seconds)
        if info is not None and info.si_signo == signal.SIGTSTP and self._line is not None:
            self._line.close()  # the shell gets the terminal back as it was; the line is drawn again afterwards
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
            os.kill(os.getpid(), signal.SIGTSTP)  # not SIGSTOP: without a shell that could wake us, nothing stops
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
        if info is None or info.si_signo not in self._forwarded:
            self._arrives()
            return
        from_terminal = info.si_code > 0  # sent by the kernel: the whole foreground group has it
        if not from_terminal and not self._arrives(info.si_signo):
            self._child.send_signal(info.si_signo)
            self._arrives(info.si_signo)

    def _arrives(self, number: int | None = None) -> bool:
        """Whether the script gets a signal, and not from us: `timeout` and Slurm tell every process of a job."""
        until = time.monotonic() + AT_ONCE if number is not None else 0.0
        while select.select([self._arrivals], [], [], max(0.0, until - time.monotonic()))[0]:
            numbers = os.read(self._arrivals, 4096)
            if not numbers or number in tuple(numbers):
                return bool(numbers)
        return False

    def _make_meter(self) -> machine.Meter | None:
        with contextlib.suppress(Exception):
            return machine.Meter(self._child.pid, self.started, lambda line: append(self.written(), line))
        return None

    def _measure(self) -> None:
        path = self.written()
        if not is_begun(path):
            return
        if self._described != path:
            self._described = path
            append(path, {"machine": machine.describe()})
        if self._meter is not None:
            self._meter.read()

    def _show(self) -> None:
        if self._line is None:
            return
        try:
            self._line.update(self.written())
        except Exception as error:  # a mistake of ours costs the line, never the run
            self._line.close()
            self._line = None
            sys.stderr.write(f"fitscope: the live line was given up ({type(error).__name__}: {error})\n")

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _restore(self) -> None:
        """What is still to be passed on has nobody to go to any more: `timeout`, for one, tells us and our group."""
        while hasattr(signal, "sigtimedwait") and signal.sigtimedwait(self._forwarded, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
