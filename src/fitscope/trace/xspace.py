"""XSpace (`.xplane.pb`): what the profilers of TensorFlow and JAX write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from fitscope.trace import wire
from fitscope.trace.captured import MARKER, Captured, Copy, Device, Event, HostEvent, Thread, copy_kind, does

SPACE = {"planes": 1, "hostnames": 4}
PLANE = {"name": 2, "lines": 3, "events": 4, "stats": 5, "own_stats": 6}
LINE = {"name": 2, "timestamp_ns": 3, "events": 4, "display_name": 11}
EVENT = {"metadata": 1, "offset_ps": 2, "duration_ps": 3, "stats": 4}
STAT = {"metadata": 1, "double": 2, "uint64": 3, "int64": 4, "str": 5, "bytes": 6, "ref": 7}

_DEVICE = re.compile(r"^/device:(?!CUSTOM)(\w+):(\d+)$")
_TF_OPERATION = re.compile(r"^[^\s:]+:_?[A-Za-z]\w*$")
_NOISE = re.compile(
    r"^(ThreadpoolListener|Memory(De)?[Aa]llocation|ThreadPoolListener|Buffer|ExecutorPropagate|ExecutorDone|EndToEnd)"
)
_FRAMES = ("$", MARKER)
_SIZE = re.compile(r"\bsize:(\d+)")
_STEP_LINE, _XLA_OPS, _TF_DATA = "Steps", "XLA Ops", "tf_data_iterator_resource"


@dataclass
class Line:
    """One line of a plane: a thread of the host, or a stream of a device."""

    name: str = ""
    began_ps: int = 0
    events: list[memoryview] = field(default_factory=list)


class Plane:
    """One plane: its lines, and the names that events and their stats refer to."""

    def __init__(self, data: memoryview) -> None:
        self.name = ""
        self.lines: list[Line] = []
        self.names: dict[int, str] = {}
        self.stat_names: dict[int, str] = {}
        for number, value in wire.fields(data):
            if isinstance(value, int):
                continue
            if number == PLANE["name"]:
                self.name = _text(value)
            elif number == PLANE["lines"]:
                self.lines.append(_line(value))
            elif number == PLANE["events"]:
                self._define(value, self.names)
            elif number == PLANE["stats"]:
                self._define(value, self.stat_names)

    def _define(self, entry: memoryview, names: dict[int, str]) -> None:
        """One entry of a map from id to name; where the name is the text of an XLA instruction, its short form."""
        identity, name, display = 0, "", ""
        for number, value in wire.fields(entry):
            if number == 1 and isinstance(value, int):
                identity = value
            elif number == 2 and not isinstance(value, int):
                for inner, what in wire.fields(value):
                    if inner == 2 and not isinstance(what, int):
                        name = _text(what)
                    elif inner == 4 and names is self.names and not isinstance(what, int):
                        display = _text(what)
        names[identity] = display if display and " = " in name else name

    def events(self, line: Line) -> Iterator[tuple[str, int, int, memoryview]]:
        """Name, begin and duration (ps) of each event of a line, with its bytes for `stats`."""
        for data in line.events:
            metadata = offset = duration = 0
            for number, value in wire.fields(data):
                if isinstance(value, int):
                    if number == 1:
                        metadata = value
                    elif number == 2:
                        offset = wire.signed(value)
                    elif number == 3:
                        duration = wire.signed(value)
            yield self.names.get(metadata, ""), line.began_ps + offset, max(0, duration), data

    def stats(self, event: memoryview) -> dict[str, object]:
        """What is noted with an event."""
        found: dict[str, object] = {}
        for number, value in wire.fields(event):
            if number != EVENT["stats"] or isinstance(value, int):
                continue
            name = ""
            content: object = None
            for inner, what in wire.fields(value):
                if inner == STAT["metadata"] and isinstance(what, int):
                    name = self.stat_names.get(what, "")
                elif inner == STAT["ref"] and isinstance(what, int):
                    content = self.stat_names.get(what, "")
                elif isinstance(what, int):
                    content = what
                elif inner in (STAT["str"], STAT["bytes"]):
                    content = _text(what)
            found[name] = content
        return found


def planes(data: bytes) -> list[Plane]:
    """The planes in the bytes of a file; raises wire.DamagedError for what holds none."""
    found = []
    for number, value in wire.fields(memoryview(data)):
        if number > 4 or isinstance(value, int):
            raise wire.DamagedError("not an XSpace")
        if number == SPACE["planes"]:
            found.append(Plane(value))
    return found


def read(data: bytes) -> Captured:
    """The trace in the bytes of a file; raises wire.DamagedError for what is none."""
    found = planes(data)
    base = min((start for plane in found for line in plane.lines for _, start, _, _ in plane.events(line)), default=0)
    devices, threads, steps = [], [], []
    for plane in found:
        device = _DEVICE.match(plane.name)
        if device:
            devices.append(_device(plane, f"{device[1]} {device[2]}", base))
        elif plane.name.startswith("/host:"):
            for line in plane.lines:
                marks, thread = _thread(plane, line, base)
                steps += marks
                threads.append(thread)
    return Captured("XSpace", tuple(devices), tuple(threads), tuple(sorted(steps, key=lambda step: step.start)))


def _device(plane: Plane, name: str, base: int) -> Device:
    kernels: list[Event] = []
    copies: list[Copy] = []
    steps: list[Event] = []
    streams = any(line.name.startswith("Stream #") for line in plane.lines)
    for line in plane.lines:
        if line.name == _STEP_LINE:
            steps = [Event(step, (start - base) / 1e12, long / 1e12) for step, start, long, _ in plane.events(line)]
        elif line.name.startswith("Stream #") if streams else line.name == _XLA_OPS:
            for event, start, long, data in plane.events(line):
                if event.startswith("Memset"):
                    continue
                if event.lower().startswith("memcpy"):
                    size = _SIZE.search(str(plane.stats(data).get("memcpy_details", "")))
                    kind = copy_kind(event)
                    copies.append(Copy(kind, (start - base) / 1e12, long / 1e12, int(size[1]) if size else 0))
                else:
                    kernels.append(Event(event, (start - base) / 1e12, long / 1e12))
    return Device(name, "", tuple(kernels), tuple(copies), tuple(steps))


def _thread(plane: Plane, line: Line, base: int) -> tuple[list[Event], Thread]:
    """The step markers of a thread, and the thread with everything else that it did."""
    marks, events = [], []
    for name, start, long, data in plane.events(line):
        if not long or _is_noise(name):
            continue
        at, seconds = (start - base) / 1e12, long / 1e12
        kind = does(name)
        operation = False
        if not kind or kind == "data":
            stats = plane.stats(data)
            if "step_num" in stats:
                marks.append(Event(f"{name} {stats['step_num']}", at, seconds))
                continue
            operation = not kind and (_is_tf_operation(name) or "hlo_op" in stats)
        if not kind and name.startswith(_FRAMES):
            continue  # a frame of Python, or a part of the training: what happens inside is listed itself
        if line.name.startswith(_TF_DATA):
            continue  # the input pipeline works beside the training: that is no wait
        events.append(HostEvent(name, at, seconds, kind, operation))
    return marks, Thread(line.name, tuple(events))


@lru_cache(maxsize=65536)
def _is_noise(name: str) -> bool:
    return _NOISE.match(name) is not None


@lru_cache(maxsize=65536)
def _is_tf_operation(name: str) -> bool:
    return _TF_OPERATION.match(name) is not None and "::" not in name


def _line(data: memoryview) -> Line:
    line = Line()
    for number, value in wire.fields(data):
        if number == LINE["events"] and not isinstance(value, int):
            line.events.append(value)
        elif number == LINE["name"] and not isinstance(value, int):
            line.name = _text(value)
        elif number == LINE["timestamp_ns"] and isinstance(value, int):
            line.began_ps = wire.signed(value) * 1000
    return line


def _text(data: memoryview) -> str:
    return bytes(data).decode("utf-8", "replace")
