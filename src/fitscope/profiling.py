"""Recording from inside a program: `with fitscope.profile()`, and what the callback and the notebook share."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

from fitscope import machine, store
from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.model import Account, Finding, FitscopeError, Report, Run
from fitscope.observe import calibrate, start
from fitscope.observe.observer import observer
from fitscope.observe.recorder import recorder
from fitscope.observe.runfile import Sink
from fitscope.report import to_json, to_terminal


class Profile:
    """A recording of this process: what `profile()` gives, readable once the block has ended."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._started = time.time()
        wanted = Path(path) if path is not None else _new_path()
        if wanted.is_file():
            store.check_replaceable(wanted)
        spare = Path(tempfile.gettempdir(), f"fitscope-{os.getpid()}-{wanted.stem}.run")
        self._sink = Sink(wanted, start.header(self._started), spare)
        self._open = False
        self._lock = threading.Lock()
        self._meter: machine.Meter | None = None

    @property
    def path(self) -> Path:
        """The run file."""
        return self._sink.path

    def begin(self) -> None:
        """Starts to record."""
        with self._lock:
            if self._open:
                return
            self._open = True
        self._sink.line({"machine": machine.describe()})
        self._meter = machine.Meter(os.getpid(), self._started, self._sink.line)
        recorder.ticks.append(self._tick)
        recorder.add_sink(self._sink)
        observer.watch()
        recorder.fact("seam", seconds=calibrate.passage_seconds())

    def finish(self, error: BaseException | None = None) -> None:
        """Stops recording; everything that was held is put back when nobody else records."""
        with self._lock:
            if not self._open:
                return
            self._open = False
        try:
            recorder.fact("versions", versions=start.versions())
            recorder.ticks.remove(self._tick)
            self._tick(time.time())
            recorder.remove_sink(self._sink)
            self._sink.line({"t": self._sink.age(), "wall_seconds": self._sink.age(), **_ending(error)})
            self._sink.close()
        finally:
            observer.unwatch()
        if self._sink.problem:
            sys.stderr.write(f"fitscope: {self._sink.problem}\n")

    @cached_property
    def run(self) -> Run:
        """What was recorded."""
        if self._open:
            raise FitscopeError("the recording is still going on: read it after the block has ended.")
        return store.read(self.path)

    @cached_property
    def account(self) -> Account:
        """Where the time went."""
        return account(self.run)

    @cached_property
    def report(self) -> Report:
        """All that is said of it."""
        from fitscope.patches import with_patches

        return with_patches(diagnose(self.run, self.account))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, dearest first."""
        return self.report.findings

    def show(self) -> None:
        """Prints the report to stderr."""
        to_terminal.to_terminal(self.report, to_terminal.console())

    def to_json(self) -> str:
        """The report as JSON."""
        return to_json.to_json(self.report)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as a page."""
        from fitscope.report.to_html import write

        write(self.report, Path(path))

    def to_markdown(self) -> str:
        """The report as Markdown."""
        from fitscope.report.to_markdown import to_markdown

        return to_markdown(self.report)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace for ui.perfetto.dev; compressed if the name ends in .gz."""
        from fitscope.report.to_perfetto import write

        write(self.report, Path(path))

    def to_tensorboard(self, folder: str | os.PathLike[str]) -> None:
        """Writes step times and shares as scalars into a TensorBoard log folder."""
        from fitscope.report.to_tensorboard import write

        write(self.report, Path(folder))

    def log(self) -> list[str]:
        """Adds a summary to the MLflow or W&B run that is active in this program; says which."""
        from fitscope.report.to_trackers import log

        return log(self.report)

    def __str__(self) -> str:
        if self._open:
            return f"a recording that is going on, to {self.path}"
        text = StringIO()
        to_terminal.to_terminal(self.report, to_terminal.console(text))
        return text.getvalue()

    def __repr__(self) -> str:
        return f"<fitscope profile {self.path}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str | None:
        """In a notebook: the page, in a frame that may run nothing and ask for nothing."""
        if self._open:
            return None
        from fitscope.report.to_html import in_a_frame

        return in_a_frame(self.report)

    def _tick(self, now: float) -> None:
        if self._meter is not None:
            self._meter.read()


@contextmanager
def profile(path: str | os.PathLike[str] | None = None) -> Iterator[Profile]:
    """Records the trainings in a block.

    with fitscope.profile() as run:
        model.fit(...)
    run.show()
    """
    recording = Profile(path)
    recording.begin()
    try:
        yield recording
    except BaseException as error:
        recording.finish(error)
        raise
    else:
        recording.finish()


def _ending(error: BaseException | None) -> dict[str, Any]:
    if error is None:
        return {"ended": "completed", "exit_code": 0}
    if isinstance(error, KeyboardInterrupt):
        return {"ended": "interrupted", "exit_code": 130}
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        return {"ended": "exit" if code else "completed", "exit_code": code}
    return {"ended": "exception", "exit_code": 1}


def _new_path() -> Path:
    script = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] else "python"
    return store.new_path(script)
