"""A trace file, whatever its format, or one sentence about why it is none."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

from fitscope.model import FitscopeError, Run, Timeline
from fitscope.trace import kineto, wire, xspace
from fitscope.trace.captured import Captured
from fitscope.trace.timeline import timeline

GZIP = b"\x1f\x8b"
ENDINGS = ("*.xplane.pb", "*.xplane.pb.gz", "*.pt.trace.json", "*.pt.trace.json.gz")


def read(path: Path) -> Timeline:
    """What the trace in a file shows; of a folder, the newest trace below it."""
    file = _newest(path) if path.is_dir() else path
    captured = _captured(file)
    if not any(device.kernels or device.copies for device in captured.devices) and not any(
        thread.events for thread in captured.threads
    ):
        raise FitscopeError(f"{file} is a trace without events: nothing ran while it was made, or it was cut short.")
    return timeline(captured, str(file))


def of_run(run: Run) -> tuple[Timeline | None, str]:
    """The trace that was made with a run; where there should be one and is none, a sentence instead."""
    fact = next((fact for fact in run.facts if fact["fact"] == "trace"), None)
    if fact is None:
        return None, ""
    if "path" not in fact:
        return None, f"No trace was captured: {fact.get('problem', 'the profiler said nothing')}."
    try:
        return read(Path(run.path).parent / str(fact["path"])), ""
    except FitscopeError as error:
        return None, f"The trace of this run cannot be shown: {error}"


def _captured(file: Path) -> Captured:
    data = _bytes(file)
    if not data.strip():
        raise FitscopeError(f"{file} is empty.")
    start = data.lstrip()[:32]
    if start.startswith(b'{"fitscope_run"'):
        raise FitscopeError(f"{file} is a run of fitscope, not a device trace: `fitscope show {file}` reads it.")
    if start[:1] in (b"{", b"["):
        return _json(file, data)
    try:
        return xspace.read(data)
    except wire.DamagedError as error:
        if _begins_as_xspace(data):
            raise FitscopeError(f"{file} is cut off or damaged ({error}): copy the whole file again.") from error
    raise _foreign(file)


def _json(file: Path, data: bytes) -> Captured:
    try:
        return kineto.read(data)
    except kineto.ForeignError as error:
        raise FitscopeError(f"{file} is JSON, but not a trace of torch.profiler: {error}.") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        if b'"ph"' not in data and b'"traceEvents"' not in data:
            raise _foreign(file) from error
        raise FitscopeError(f"{file} is cut off or damaged ({error}): copy the whole file again.") from error
    except (RecursionError, AttributeError, TypeError, OverflowError) as error:
        raise FitscopeError(f"{file} is damaged ({type(error).__name__}: {error}).") from error


def _foreign(file: Path) -> FitscopeError:
    return FitscopeError(
        f"{file} is not a device trace: fitscope reads XSpace (.xplane.pb) of TensorFlow and JAX "
        "and the JSON of torch.profiler."
    )


def _bytes(file: Path) -> bytes:
    try:
        data = file.read_bytes()
        return gzip.decompress(data) if data.startswith(GZIP) else data
    except FileNotFoundError:
        raise FitscopeError(f"there is no file {file}.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FitscopeError(f"{file} is cut off or damaged: copy the whole file again.") from error
    except OSError as error:
        raise FitscopeError(f"{file} cannot be read: {error.strerror or error}.") from error


def _begins_as_xspace(data: bytes) -> bool:
    """Whether the first field is a plane, with its name where a plane has it."""
    try:
        number, plane = next(wire.fields(memoryview(data)), (0, b""))
    except wire.DamagedError:
        number, plane = data[0] >> 3 if data[0] & 7 == wire.BYTES else 0, b""
    return number == 1 and (b"/host:" in data[:200] or b"/device:" in data[:200] or b"/host:" in bytes(plane)[-200:])


def _newest(folder: Path) -> Path:
    found = [path for ending in ENDINGS for path in folder.rglob(ending)]
    if not found:
        raise FitscopeError(f"{folder} is a folder without a device trace (.xplane.pb or .pt.trace.json).")
    return max(found, key=lambda path: path.stat().st_mtime)
