"""Recording a whole process, from its first line to its last: begun by `fitscope run` or by FITSCOPE=1."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fitscope.observe import calibrate, capture, dissect, removals, trial
from fitscope.observe.observer import observer
from fitscope.observe.recorder import recorder
from fitscope.observe.runfile import Sink
from fitscope.observe.seams import without_us
from fitscope.version import __version__

RUN = "FITSCOPE_RUN"
"""Environment: the run file to write. Set by `fitscope run`, or derived from FITSCOPE."""
STARTED = "FITSCOPE_STARTED"
PARENT = "FITSCOPE_PARENT"
FOR = "FITSCOPE_FOR"
ARRIVALS = "FITSCOPE_ARRIVALS"
"""Environment: the pipe on which `fitscope run` hears of the signals that arrive here, so as not to repeat them."""
TRACE = "FITSCOPE_TRACE"
"""Environment: a device trace is asked for."""
LAYERS = "FITSCOPE_LAYERS"
"""Environment of `fitscope layers`: the seconds in which the step of the first training is measured."""
SEED = "FITSCOPE_SEED"
"""Environment of an experiment: random numbers begin here in every run, and the weights are noted at the end."""
OVERRIDES = "FITSCOPE_OVERRIDES"
"""Environment of an experiment: settings that take the place of the script's own, as JSON (see overrides.py)."""
STEADY = "FITSCOPE_STEADY"
"""Environment of a sweep: seconds of training, after the first step and without compiling, that are enough."""

_PACKAGES = ("keras", "tensorflow", "jax", "jaxlib", "torch", "numpy", "tf_keras", "grain")


class Process:
    """The recording of this process."""

    def __init__(self) -> None:
        self.path = Path(os.environ[RUN])
        self.started = float(os.environ.get(STARTED) or time.time())
        self.supervised = os.environ.get(PARENT) == str(os.getppid())
        self.pid = os.getpid()
        self.sink: Sink | None = None
        self.exit_code: int | None = None
        self.ended = "completed"
        self._argv, self._folder = list(getattr(sys, "argv", []) or [""]), os.getcwd()
        self._deadline = float(os.environ.get(FOR) or 0)

    def begin(self) -> None:
        """Watches for trainings; the file is made when the first one begins."""
        if SEED in os.environ:
            trial.begin(int(os.environ[SEED]))
        if OVERRIDES in os.environ:
            from fitscope.observe import overrides

            overrides.begin(os.environ[OVERRIDES])
        if STEADY in os.environ:
            from fitscope.observe import point

            point.begin(float(os.environ[STEADY]))
        recorder.on_first_region.append(self._open)
        recorder.ticks.append(self._tick)
        if os.environ.get(TRACE):
            capture.arm(self.path)
            recorder.ticks.append(capture.look)
        if os.environ.get(LAYERS):
            dissect.arm(self.path, float(os.environ[LAYERS]))
        observer.watch()
        os.register_at_fork(after_in_child=self._forked)
        self._note_signals()
        self._note_exceptions()
        atexit.register(self.finish)

    def _open(self) -> None:
        if self.sink is None and os.getpid() == self.pid:
            self.sink = Sink(self.path, self._header(), spare_for(self.path), whole=True)
            recorder.add_sink(self.sink)
            recorder.fact("seam", seconds=calibrate.passage_seconds())
            recorder.fact("versions", versions=versions())

    def _forked(self) -> None:
        """A child may train, too: a fold, a trial. Most are workers that do not, though they may read a dataset."""
        self.sink, self.supervised, self.started = None, False, time.time()
        recorder.on_first_region.append(self._open_in_child)

    def _open_in_child(self) -> None:
        latest = recorder.tree.nodes[next(reversed(recorder.regions))]
        if latest.name == "loop":
            recorder.on_first_region.append(self._open_in_child)
            return
        self.pid = os.getpid()
        self._open()
        observer.look_on()
        exits: Any = sys.modules.get("multiprocessing.util")
        if exits is not None:
            exits.Finalize(None, self.finish, exitpriority=0)  # such children run no exit handlers

    def _header(self) -> dict[str, Any]:
        """With the words and the folder that the script was started with: it may have left both since."""
        found = {**header(self.started), "argv": self._argv[1:], "cwd": self._folder}
        return found if self._argv[0] == "-m" else {**found, "script": self._argv[0]}  # Python finds the module later

    def _tick(self, now: float) -> None:
        if self._deadline and not recorder.stopped and recorder.trained_ns() >= self._deadline * 1e9:
            recorder.fact("stopped", seconds=self._deadline)
            recorder.stopped = True

    def finish(self) -> None:
        """The last words, after the script's own exit handlers; the file was readable before."""
        if os.getpid() != self.pid:
            return
        with contextlib.suppress(KeyboardInterrupt):  # of somebody who cannot wait for it
            self._finish()
        self.pid = 0

    def _finish(self) -> None:
        self._note_unhandled()
        note_legacy()
        capture.finish()
        if self.sink is None and self.supervised and not self.path.is_file():
            self._open()
        if self.sink is None:
            return
        if SEED in os.environ:
            trial.note_weights()
        if STEADY in os.environ:
            from fitscope.observe import point

            point.note()
        recorder.flush()
        end: dict[str, Any] = {"t": self.sink.age(), "exiting": True, "pid": self.pid, "ended": self.ended}
        if self.exit_code is not None:
            end["exit_code"] = self.exit_code
        if not self.supervised:
            end["wall_seconds"] = self.sink.age()
        self.sink.line(end)
        if self.sink.problem:
            sys.stderr.write(f"fitscope: {self.sink.problem}\n")
        if not self.supervised:
            path = self.sink.path
            shown = path.relative_to(self._folder) if path.is_relative_to(self._folder) else path
            sys.stderr.write(f"fitscope: recorded {shown}; read it with `fitscope show {shown}`\n")

    def _note_signals(self) -> None:
        arrivals = os.environ.pop(ARRIVALS, None)
        if arrivals is not None and self.supervised:
            with contextlib.suppress(OSError, ValueError):  # somebody between us has closed it
                os.set_inheritable(int(arrivals), False)
                signal.set_wakeup_fd(int(arrivals), warn_on_full_buffer=False)
                os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))

    def _note_exceptions(self) -> None:
        """Keeps what ended the script; prints the user's exception without our frames in it."""
        before = sys.excepthook

        def excepthook(kind: Any, error: Any, trace: Any) -> None:
            self._note_exception(kind)
            chained, seen = error, set()
            while chained is not None and id(chained) not in seen:
                seen.add(id(chained))
                chained.__traceback__ = without_us(chained.__traceback__)
                chained = chained.__cause__ or chained.__context__
            before(kind, error, without_us(trace))

        sys.excepthook = excepthook
        leave = sys.exit

        def exit(status: Any = None, /) -> Any:
            self._note_exit(status)
            leave(status)

        sys.exit = exit

    def _note_exit(self, status: Any) -> None:
        self.exit_code = 0 if status is None else status if isinstance(status, int) else 1
        self.ended = "exit" if self.exit_code else "completed"

    def _note_exception(self, kind: Any) -> None:
        self.ended = "interrupted" if issubclass(kind, KeyboardInterrupt) else "exception"
        self.exit_code = 130 if self.ended == "interrupted" else 1

    def _note_unhandled(self) -> None:
        """What neither our `sys.excepthook` was told, because the script has its own, nor our `sys.exit`."""
        kind = getattr(sys, "last_type", None)
        if self.exit_code is None and isinstance(kind, type):
            self._note_exception(kind)
        elif self.exit_code is None and recorder.left is not None:
            self._note_exit(recorder.left.code)


def header(started: float) -> dict[str, Any]:
    """The first line of a run file."""
    argv = list(getattr(sys, "argv", []) or [""])
    return {
        "version": __version__,
        "started": started,
        "script": argv[0],
        "argv": argv[1:],
        "python": sys.version.split()[0],
        "pid": os.getpid(),
        "cwd": os.getcwd(),
    }


def versions() -> dict[str, str]:
    """The versions of what is loaded."""
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in _PACKAGES}
    return {
        "python": sys.version.split()[0],
        **{name: str(version) for name, version in found.items() if version},
    }


def note_legacy() -> None:
    """Legacy Keras trains where nobody of ours looks: the report has to say so."""
    if "tf_keras" in sys.modules or os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True"):
        recorder.fact("legacy-keras")


def spare_for(path: Path) -> Path:
    """Where a run goes that cannot be written where it should be."""
    return Path(tempfile.gettempdir(), f"fitscope-{os.environ.get(PARENT) or os.getpid()}-{path.stem}.run")


_recording: list[Process] = []


def start() -> None:
    """Begins to record this process, if the environment asks for it; says in one line why it cannot."""
    try:
        if removals.PLAN in os.environ:
            removals.begin()
            return
        wish = os.environ.get("FITSCOPE")
        if RUN not in os.environ and wish and wish != "0":
            stem = time.strftime("%Y%m%d-%H%M%S")
            path = f".fitscope/{stem}-{os.getpid()}.run" if wish == "1" else wish
            os.environ[RUN] = os.path.abspath(path)  # the script may go to another folder before it trains
        if RUN in os.environ and not _recording:
            _recording.append(Process())
            _recording[0].begin()
    except Exception as error:
        sys.stderr.write(f"fitscope: this process is not recorded ({type(error).__name__}: {error})\n")
