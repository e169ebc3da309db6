"""Kineto's JSON: what `torch.profiler` writes, in the categories of 2021 and in those of today.

Times are microseconds, with up to three digits behind the point. A year-long stamp with nanoseconds does not fit into
a float, so numbers stay text until the beginning of the trace has been subtracted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from fitscope.trace.captured import Captured, Copy, Device, Event, HostEvent, Thread, copy_kind, does

KERNELS = {"kernel", "Kernel"}
COPIES = {"gpu_memcpy", "Memcpy"}
RUNTIME = {"cuda_runtime", "cuda_driver", "Runtime", "hip_runtime"}
OPERATIONS = {"cpu_op", "Operator", "cpu_instant_event"}
NOTES = {"user_annotation", "python_function"}
KNOWN = KERNELS | COPIES | RUNTIME | OPERATIONS | NOTES
BLOCKING = 100_000
"""Nanoseconds: a call that copies and takes longer than this is not launching a copy, it is copying."""
_STEP = re.compile(r"^ProfilerStep#?\s*\d*")


class ForeignError(ValueError):
    """JSON, but no trace of this kind."""


def read(text: bytes) -> Captured:
    """The trace in the JSON of a file."""
    value = json.loads(text, parse_float=str)
    events = value.get("traceEvents") if isinstance(value, dict) else value
    if not isinstance(events, list):
        raise ForeignError("it holds no traceEvents")
    found = list(spans(events))
    if not found:
        raise ForeignError("it holds no events of torch.profiler")
    base = min(start for _, start, _ in found)
    devices: dict[int, tuple[list[Event], list[Copy]]] = {}
    threads: dict[tuple[Any, Any], list[HostEvent]] = {}
    steps: dict[tuple[Any, Any], list[Event]] = {}
    for event, start, long in found:
        category, name = event["cat"], str(event.get("name", ""))
        at, seconds = (start - base) / 1e9, long / 1e9
        if category in KERNELS or category in COPIES:
            kernels, copies = devices.setdefault(_device(event), ([], []))
            if category in KERNELS:
                kernels.append(Event(name, at, seconds))
            else:
                copies.append(Copy(copy_kind(name), at, seconds, _bytes(event)))
            continue
        thread = (event.get("pid"), event.get("tid"))
        if _STEP.match(name):
            steps.setdefault(thread, []).append(Event(name, at, seconds))
            continue
        kind = does(name)
        if not kind and long > BLOCKING and category in RUNTIME and "emcpy" in name:
            kind = "copy"
        operation = category in OPERATIONS and not kind
        if category in NOTES and not kind:
            continue
        threads.setdefault(thread, []).append(HostEvent(name, at, seconds, kind, operation))
    properties = value.get("deviceProperties", []) if isinstance(value, dict) else []
    models = {each.get("id"): str(each.get("name", "")) for each in properties if isinstance(each, dict)}
    marks = max(steps.values(), key=len, default=[])
    return Captured(
        "Kineto",
        tuple(
            Device(f"GPU {number}", models.get(number, ""), tuple(kernels), tuple(copies))
            for number, (kernels, copies) in sorted(devices.items())
        ),
        tuple(Thread(f"thread {tid}", tuple(each)) for (_, tid), each in threads.items()),
        tuple(sorted(marks, key=lambda step: step.start)),
        _rank(value),
    )


def spans(events: list[Any]) -> Iterator[tuple[dict[str, Any], int, int]]:
    """The events that took time, with begin and duration in nanoseconds."""
    for event in events:
        if not isinstance(event, dict) or event.get("ph") != "X" or event.get("cat") not in KNOWN:
            continue
        try:
            yield event, _nanoseconds(event["ts"]), max(0, _nanoseconds(event.get("dur", 0)))
        except (KeyError, ValueError):
            continue


def _nanoseconds(microseconds: Any) -> int:
    """From an integer or the text of a decimal number."""
    if isinstance(microseconds, int):
        return microseconds * 1000
    whole, _, rest = str(microseconds).partition(".")
    if not rest.isdigit():
        return round(float(microseconds) * 1000)
    return int(whole) * 1000 + int(rest[:3].ljust(3, "0"))


def _device(event: dict[str, Any]) -> int:
    arguments = event.get("args")
    number = arguments.get("device") if isinstance(arguments, dict) else None
    return number if isinstance(number, int) else event["pid"] if isinstance(event.get("pid"), int) else 0


def _bytes(event: dict[str, Any]) -> int:
    arguments = event.get("args")
    size = arguments.get("bytes", arguments.get("Bytes", 0)) if isinstance(arguments, dict) else 0
    return size if isinstance(size, int) else 0


def _rank(value: Any) -> str:
    info = value.get("distributedInfo") if isinstance(value, dict) else None
    if not isinstance(info, dict) or not isinstance(info.get("world_size"), int) or info["world_size"] < 2:
        return ""
    return f"rank {info.get('rank')} of {info['world_size']}"
