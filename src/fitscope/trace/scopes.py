"""Where the time of a step went, scope by scope, from a profile in which layers were traced in scopes of their own.

Every instant of a step goes to what ran in it: if several operations ran at once, in equal parts; if none did, to the
operation that was about to begin. What is before the first operation and after the last is nobody's.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fitscope.model import SCOPE
from fitscope.trace import hlo, kineto, xspace

SHORT = 10e-6
"""Seconds: an operation that takes no longer is mostly the way to it and back."""
LEAST_SEGMENT = 1e-9
Scope = tuple[str, bool]
NOBODY: Scope = ("", False)
_SCOPE = re.compile(re.escape(SCOPE) + r"(\w+)\.")
_BACKWARD = ("gradient_tape/", "transpose(")
_OPERATION = re.compile(r"^[^\s:]+:_?[A-Za-z]\w*$")
_DEVICE = re.compile(r"^/device:(?!CUSTOM)\w+:\d+$")
_ENDED, _GOES_ON = "end: ", "ThunkExecutor::Execute"
_STEP = "ProfilerStep#"
_ENGINE = "autograd::engine::evaluate_function"


class Segment(NamedTuple):
    """A stretch of time that belongs to a scope; `holds`: only as far as nothing else runs."""

    start: float
    end: float
    scope: Scope
    holds: bool
    short: bool
    events: int


@dataclass
class Spent:
    """What a scope took of a step."""

    seconds: float = 0.0
    waiting: float = 0.0
    """Of these: between operations, or in very short ones."""
    events: int = 0


@dataclass
class Step:
    """One step of a profile; what the scopes took adds up to its seconds."""

    seconds: float
    scopes: dict[Scope, Spent] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """Operations that were profiled."""
        return sum(spent.events for spent in self.scopes.values())


def scope_of(name: str) -> Scope | None:
    """The innermost scope in the name of an operation."""
    found = _SCOPE.findall(name)
    return (found[-1], any(mark in name for mark in _BACKWARD)) if found else None


def read(path: Path) -> list[Step]:
    """The steps of a profile."""
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    if data.lstrip()[:1] in (b"{", b"["):
        marks, segments = _kineto(data)
    else:
        marks, segments = _xspace(data)
    return [split(segments, start, end) for start, end in sorted(marks)]


# --- dividing the time ---------------------------------------------------------------------------------------------


def split(segments: Iterable[Segment], start: float, end: float) -> Step:
    """Gives every instant from start to end to a scope."""
    step = Step(end - start)
    inside = [each for each in segments if each.end > start and each.start < end]
    for each in inside:
        step.scopes.setdefault(each.scope, Spent()).events += each.events
    moments = sorted(
        [(max(each.start, start), 1, number) for number, each in enumerate(inside)]
        + [(min(each.end, end), 0, number) for number, each in enumerate(inside)]
    )
    working: set[int] = set()
    holding: set[int] = set()
    at, begun, idle = start, False, 0.0
    for moment, begins, number in moments:
        passed = moment - at
        if passed > 0:
            if working:
                part = passed / len(working)
                for running in working:
                    _charge(step, inside[running].scope, part, waiting=inside[running].short)
            elif holding:
                _charge(step, inside[max(holding, key=lambda each: inside[each].start)].scope, passed, waiting=True)
            else:
                idle += passed
            at = moment
        segment = inside[number]
        if begins and idle:
            # Before the first operation nobody waits for one: that is the call of the step.
            _charge(step, segment.scope if begun else NOBODY, idle, waiting=True)
            idle = 0.0
        begun = begun or bool(begins)
        now = holding if segment.holds else working
        if begins:
            now.add(number)
        else:
            now.discard(number)
    _charge(step, NOBODY, idle + max(0.0, end - at), waiting=True)
    return step


def _charge(step: Step, scope: Scope, seconds: float, *, waiting: bool) -> None:
    spent = step.scopes.setdefault(scope, Spent())
    spent.seconds += seconds
    if waiting:
        spent.waiting += seconds


class Event(NamedTuple):
    """An event of one thread; without a scope it belongs to the event around it."""

    start: float
    end: float
    scope: Scope | None
    holds: bool


def flat(events: list[Event]) -> Iterator[Segment]:
    """The events of one thread, which lie in one another, as stretches that do not."""
    stack: list[tuple[Event, Scope]] = []
    at = 0.0
    for event in sorted(events, key=lambda each: (each.start, -each.end)):
        while stack and stack[-1][0].end <= event.start:
            yield from _stretch(stack[-1], at, stack[-1][0].end)
            at = max(at, stack.pop()[0].end)
        if stack:
            yield from _stretch(stack[-1], at, event.start)
        scope = event.scope or (stack[-1][1] if stack else NOBODY)
        stack.append((event, scope))
        at = event.start
    while stack:
        yield from _stretch(stack[-1], at, stack[-1][0].end)
        at = max(at, stack.pop()[0].end)


def _stretch(owner: tuple[Event, Scope], start: float, end: float) -> Iterator[Segment]:
    event, scope = owner
    if end - start > LEAST_SEGMENT:
        short = event.end - event.start <= SHORT
        yield Segment(start, end, scope, event.holds, short, int(start == event.start))


# --- XSpace ---------------------------------------------------------------------------------------------------


def _xspace(data: bytes) -> tuple[list[tuple[float, float]], list[Segment]]:
    """Steps and operations of a profile of TensorFlow or JAX: those of the devices, or else those of the host."""
    programs = hlo.programs(memoryview(data), scope_of)
    marks: list[tuple[float, float]] = []
    host: list[Segment] = []
    device: list[Segment] = []
    planes = xspace.planes(data)
    base = min((line.began_ps for plane in planes for line in plane.lines if line.events), default=0)
    for plane in planes:
        on_device = _DEVICE.match(plane.name) is not None
        if not on_device and not plane.name.startswith("/host:CPU"):
            continue
        ends = _ends(plane, base)
        for line in plane.lines:
            if line.name.startswith("tf_data") or (on_device and not line.name.startswith(("Stream", "XLA Ops"))):
                continue
            events, tails = [], []
            for name, start_ps, long_ps, raw in plane.events(line):
                start, end = (start_ps - base) / 1e12, (start_ps + long_ps - base) / 1e12
                if long_ps == 0 or name.startswith(_ENDED):
                    continue
                operation = _OPERATION.match(name) is not None and "::" not in name
                stats = {} if operation and not on_device else plane.stats(raw)
                if "step_num" in stats and not on_device:
                    marks.append((start, end))
                    continue
                event = _operation(name if operation else "", stats, programs, start, end)
                if event is None:
                    continue
                events.append(event)
                late = ends.get(stats.get("_p"), 0.0)
                if late > end:  # it went on in other threads
                    tails.append(Segment(end, late, event.scope or NOBODY, event.holds, False, 0))
            (device if on_device else host).extend([*flat(events), *tails])
    return marks, device or host


def _ends(plane: xspace.Plane, base: int) -> dict[object, float]:
    """When what began in one thread was over in another, by the number that both bear.

    The thread that finishes an operation goes on with those that waited for it, and notes the end only after these:
    it was over when they began.
    """
    found: dict[object, float] = {}
    for line in plane.lines:
        events = sorted(plane.events(line), key=lambda event: (event[1] + event[2], -event[1]))
        before: tuple[str, int] = ("", 0)
        for name, start, _, raw in events:
            if not name.startswith(_ENDED):
                before = (name, start)
                continue
            over = before[1] if before[0] == _GOES_ON else start
            found[plane.stats(raw).get("_c")] = (over - base) / 1e12
    return found


def _operation(
    name: str, stats: dict[str, object], programs: dict[str, dict[str, hlo.Placed]], start: float, end: float
) -> Event | None:
    """An operation of TensorFlow, or an instruction of a compiled program; None for everything else."""
    if "hlo_op" in stats:
        module = programs.get(f"{stats.get('hlo_module')}({stats.get('program_id')})", {})
        placed = module.get(str(stats["hlo_op"]))
        if placed is None:
            return Event(start, end, NOBODY, False)
        return Event(start, end, placed.scope or NOBODY, placed.holds)
    for told in (name, str(stats.get("tf_op", ""))):
        if told:
            return Event(start, end, scope_of(told) or NOBODY, told.endswith((":_XlaRun", ":While", ":If")))
    return None


# --- Kineto ---------------------------------------------------------------------------------------------------


def _kineto(data: bytes) -> tuple[list[tuple[float, float]], list[Segment]]:
    """Steps and operations of a profile of torch; an operation of the gradient bears the number of the one before."""
    value = json.loads(data, parse_float=str)
    spans = list(kineto.spans(value["traceEvents"]))
    base = min((start for _, start, _ in spans), default=0)
    marks: list[tuple[float, float]] = []
    threads: dict[Any, list[tuple[Event, str, int | None]]] = {}
    kernels: list[tuple[float, float, Any]] = []
    launches: dict[Any, tuple[Any, float]] = {}
    for event, start_ns, long in spans:
        start, end = (start_ns - base) / 1e9, (start_ns - base + long) / 1e9
        name, category = str(event.get("name", "")), event["cat"]
        if name.startswith(_STEP):
            marks.append((start, end))
        elif category == "user_annotation" and name.startswith(SCOPE):
            threads.setdefault(event.get("tid"), []).append((Event(start, end, scope_of(name), True), "scope", None))
        elif category in kineto.KERNELS:
            kernels.append((start, end, _correlation(event)))
        elif category in kineto.RUNTIME:
            launches[_correlation(event)] = (event.get("tid"), start)
        elif category in kineto.OPERATIONS and long:
            kind = "engine" if name.startswith(_ENGINE) else "operation"
            number = (event.get("args") or {}).get("Sequence number")
            known = number if isinstance(number, int) and number >= 0 else None
            made = Event(start, end, None, kind == "engine")
            threads.setdefault(event.get("tid"), []).append((made, kind, known))
    owners = _numbered(threads.values())
    found = {thread: list(flat(list(_with_owners(events, owners)))) for thread, events in threads.items()}
    if not kernels:
        return marks, [segment for segments in found.values() for segment in segments]
    # What a device runs belongs to what launched it.
    device = []
    for start, end, number in kernels:
        thread, when = launches.get(number, (None, 0.0))
        device.append(Segment(start, end, _at(found.get(thread, []), when), False, end - start <= SHORT, 1))
    return marks, device


def _correlation(event: dict[str, Any]) -> Any:
    arguments = event.get("args")
    return arguments.get("correlation") if isinstance(arguments, dict) else None


def _at(segments: list[Segment], when: float) -> Scope:
    """The scope of a thread at an instant."""
    at = bisect_right(segments, when, key=lambda segment: segment.start) - 1
    return segments[at].scope if at >= 0 and segments[at].end >= when else NOBODY


def _numbered(threads: Iterable[list[tuple[Event, str, int | None]]]) -> dict[int, Scope]:
    """The scope in which a number was given out; the last operation that saw a number is the one that has it."""
    owners: dict[int, Scope] = {}
    for events in threads:
        around: list[Event] = []
        for event, kind, number in sorted(events, key=lambda each: (each[0].start, -each[0].end)):
            around = [each for each in around if each.end > event.start]
            if kind in ("scope", "engine"):
                around.append(event)
            elif number is not None and around and not any(each.scope is None for each in around):
                owners[number] = around[-1].scope or NOBODY
    return owners


def _with_owners(events: list[tuple[Event, str, int | None]], owners: dict[int, Scope]) -> Iterator[Event]:
    """The events with the scopes of those of the gradient; one without a number belongs to the one before it."""
    last: Scope = NOBODY
    for event, kind, number in sorted(events, key=lambda each: (each[0].start, -each[0].end)):
        if kind == "engine":
            found = owners.get(number) if number is not None else None
            last = (found[0], True) if found is not None else last
            yield event._replace(scope=last)
        else:
            yield event
