"""From a trace to what it shows: busy shares, gaps and their causes, copies, kernels, and one sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import median

from fitscope import words
from fitscope.model import Copied, DeviceUse, Gap, Idle, Spent, Timeline
from fitscope.trace.captured import Captured, Copy, Device, Event, HostEvent, Thread, is_communication
from fitscope.trace.intervals import Intervals, both, total, union, without

CAUSES = ("copy", "data", "callback", "compile", "sync", "dispatch", "other")
"""What a device may wait for, in the order in which a gap is charged: data loaded inside a callback is data."""
DOING = {
    "copy": "copies",
    "data": "the host loads data",
    "callback": "the host is in callbacks",
    "compile": "the host compiles",
    "sync": "the host waits for the device",
    "dispatch": "the host launches operations",
    "other": "the host does something that the trace does not name",
}
BUSY = 0.9
"""From this share on a device is called busy."""
NAMED = 0.05
"""A cause that takes less of the window is not named in the verdict."""
TRAILING = 0.01
"""Of the window: a kernel that begins later than this after the last step was not launched by it."""
MOST_GAPS, MOST_NAMES = 20, 20
PURPOSES = ("data", "callback", "compile", "sync")
INPUT_THREADS = "tf_data"
"""Begins the names of the threads of an input pipeline, which work beside the training."""


def timeline(captured: Captured, file: str) -> Timeline:
    """What a trace shows."""
    whole = _whole(captured)
    window = _window(captured.steps, whole)
    hosts = _hosts(captured.threads)
    devices, gaps = [], []
    for device in captured.devices:
        use, found = _use(device, _device_window(device, captured, window), hosts)
        devices.append(use)
        gaps += found
    working = [use for use in devices if use.kernels]
    marked = [device.steps for device in captured.devices]
    steps = captured.steps or max(marked, key=lambda found: sum(step.seconds for step in found), default=())
    host = _host(captured.threads, hosts, window)
    kernels = [kernel for device in captured.devices for kernel in device.kernels]
    operations = () if working else _operations(captured.threads, window)
    cause = _cause(working)
    return Timeline(
        file=file,
        format=captured.format,
        rank=captured.rank,
        seconds=window[1] - window[0],
        steps=len(steps),
        step_seconds=median(step.seconds for step in steps) if steps else None,
        busy_share=sum(use.busy_share for use in working) / len(working) if working else None,
        devices=tuple(devices),
        host=host,
        gaps=tuple(
            _with_host(gap, captured.threads) for gap in sorted(gaps, key=lambda gap: -gap.seconds)[:MOST_GAPS]
        ),
        copies=_copies(copy for device in captured.devices for copy in device.copies),
        kernels=_by_name((kernel.name, kernel.seconds) for kernel in kernels),
        operations=operations,
        verdict=_verdict(devices, host, operations, cause),
        cause=cause,
        notes=_notes(captured, working),
    )


# --- windows -----------------------------------------------------------------------------------------------


def _whole(captured: Captured) -> tuple[float, float]:
    edges = [(step.start, step.end) for step in captured.steps]
    for device in captured.devices:
        edges += [(kernel.start, kernel.end) for kernel in device.kernels]
        edges += [(copy.start, copy.start + copy.seconds) for copy in device.copies]
    for thread in captured.threads:
        edges += [(event.start, event.start + event.seconds) for event in thread.events]
    return (min(start for start, _ in edges), max(end for _, end in edges)) if edges else (0.0, 0.0)


def _window(steps: tuple[Event, ...], whole: tuple[float, float]) -> tuple[float, float]:
    """From the beginning of the first step to the end of the last; the whole trace where no steps are marked."""
    return (steps[0].start, max(step.end for step in steps)) if steps else whole


def _device_window(device: Device, captured: Captured, window: tuple[float, float]) -> tuple[float, float]:
    """Steps marked on the device itself, else those of the host, and what the device still had to do after them."""
    if device.steps:
        return _window(tuple(sorted(device.steps, key=lambda step: step.start)), window)
    busy = union((kernel.start, kernel.end) for kernel in device.kernels)
    if total(both(busy, [window])) < 0.5 * total(busy):
        return _whole(captured)
    start, end = window
    for began, ended in busy:
        if end < ended and began - end < TRAILING * (end - start):
            end = ended
    return start, end


def _share(seconds: float, window: tuple[float, float]) -> float:
    return seconds / (window[1] - window[0]) if window[1] > window[0] else 0.0


# --- the host ----------------------------------------------------------------------------------------------


def _hosts(threads: tuple[Thread, ...]) -> dict[str, Intervals]:
    """When any thread of the host was doing what."""
    spans: dict[str, list[tuple[float, float]]] = {cause: [] for cause in CAUSES}
    for thread in threads:
        for event in thread.events:
            spans[event.does or "dispatch"].append((event.start, event.start + event.seconds))
    return {cause: union(found) for cause, found in spans.items()}


def _host(threads: tuple[Thread, ...], hosts: dict[str, Intervals], window: tuple[float, float]) -> tuple[Spent, ...]:
    """How long the host spent on each purpose, in the whole trace; the share is of the window."""
    events = [event for thread in threads for event in thread.events]
    running = union(
        (event.start, event.start + event.seconds)
        for thread in threads
        if not thread.name.startswith(INPUT_THREADS)
        for event in thread.events
        if event.operation
    )
    spent = {cause: (hosts[cause], sum(event.does == cause for event in events)) for cause in PURPOSES}
    spent["operation"] = (running, sum(event.operation for event in events))
    return tuple(
        Spent(purpose, total(found), _share(total(both(found, [window])), window), count)
        for purpose, (found, count) in spent.items()
        if found
    )


def _operations(threads: tuple[Thread, ...], window: tuple[float, float]) -> tuple[Spent, ...]:
    """The time of each operation without that of the operations inside it."""
    own: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    for thread in threads:
        if thread.name.startswith(INPUT_THREADS):
            continue
        events = [event for event in thread.events if event.operation and window[0] <= event.start <= window[1]]
        open_: list[HostEvent] = []
        for event in sorted(events, key=lambda each: (each.start, -each.seconds)):
            while open_ and open_[-1].start + open_[-1].seconds <= event.start:
                open_.pop()
            if open_:
                own[open_[-1].name][0] -= event.seconds
            own[event.name][0] += event.seconds
            own[event.name][1] += 1
            open_.append(event)
    return _ranked({name: (max(0.0, seconds), int(count)) for name, (seconds, count) in own.items()})


def _with_host(gap: Gap, threads: tuple[Thread, ...]) -> Gap:
    """A gap with the event of the host that covers most of it, of those that are its cause."""
    best, name, end = 0.0, "", gap.start + gap.seconds
    for thread in threads:
        for event in thread.events:
            if (event.does or "dispatch") == gap.cause:
                covered = min(end, event.start + event.seconds) - max(gap.start, event.start)
                if covered > best:
                    best, name = covered, event.name
    return replace(gap, host=name)


# --- devices -----------------------------------------------------------------------------------------------


def _use(device: Device, window: tuple[float, float], hosts: dict[str, Intervals]) -> tuple[DeviceUse, list[Gap]]:
    within = [window]
    busy = both(union((kernel.start, kernel.end) for kernel in device.kernels), within)
    talk = _union_of(device.kernels, is_communication, within)
    compute = _union_of(device.kernels, lambda name: not is_communication(name), within)
    rest = without(within, busy)
    stretches = rest
    copying = union((copy.start, copy.start + copy.seconds) for copy in device.copies)
    causes: dict[str, Intervals] = {}
    for cause in CAUSES:
        spans = union([*copying, *hosts["copy"]]) if cause == "copy" else hosts[cause]
        causes[cause] = both(rest, spans) if cause != "other" else rest
        rest = without(rest, spans)
    idle = tuple(
        Idle(cause, total(found), _share(total(found), window), len(found), max(end - start for start, end in found))
        for cause, found in sorted(causes.items(), key=lambda item: -total(item[1]))
        if found and device.kernels
    )
    largest = sorted(stretches, key=lambda span: span[0] - span[1])[:MOST_GAPS] if device.kernels else []
    gaps = []
    for start, end in largest:
        cause = max(CAUSES, key=lambda each: total(both(causes[each], [(start, end)])))
        gaps.append(Gap(device.name, start, end - start, cause, ""))
    use = DeviceUse(
        name=device.name,
        model=device.model,
        window_start=window[0],
        window_seconds=window[1] - window[0],
        busy_seconds=total(busy),
        busy_share=_share(total(busy), window),
        kernels=len(device.kernels),
        communication_seconds=total(talk),
        exposed_seconds=total(without(talk, compute)),
        idle=idle,
    )
    return use, gaps


def _union_of(kernels: Iterable[Event], wanted: Callable[[str], bool], within: Intervals) -> Intervals:
    return both(union((kernel.start, kernel.end) for kernel in kernels if wanted(kernel.name)), within)


def _copies(copies: Iterable[Copy]) -> tuple[Copied, ...]:
    kinds: dict[str, list[Copy]] = defaultdict(list)
    for copy in copies:
        kinds[copy.kind].append(copy)
    found = [
        Copied(kind, len(each), sum(copy.bytes for copy in each), sum(copy.seconds for copy in each))
        for kind, each in kinds.items()
    ]
    return tuple(sorted(found, key=lambda copied: -copied.seconds))


def _by_name(spent: Iterable[tuple[str, float]]) -> tuple[Spent, ...]:
    names: dict[str, list[float]] = defaultdict(list)
    for name, seconds in spent:
        names[name].append(seconds)
    return _ranked({name: (sum(found), len(found)) for name, found in names.items()})


def _ranked(names: dict[str, tuple[float, int]]) -> tuple[Spent, ...]:
    everything = sum(seconds for seconds, _ in names.values()) or 1.0
    ranked = sorted(names.items(), key=lambda item: -item[1][0])[:MOST_NAMES]
    return tuple(Spent(name, seconds, seconds / everything, count) for name, (seconds, count) in ranked)


# --- in words ----------------------------------------------------------------------------------------------


def _cause(working: list[DeviceUse]) -> str | None:
    """What kept the devices waiting most; nothing where they are busy or no cause is large."""
    if not working or min(use.busy_share for use in working) >= BUSY:
        return None
    shares: dict[str, float] = defaultdict(float)
    for use in working:
        for idle in use.idle:
            shares[idle.cause] += idle.share / len(working)
        shares["communication"] += use.exposed_seconds / use.window_seconds / len(working)
    cause, share = max(shares.items(), key=lambda item: item[1])
    return cause if share >= NAMED else None


def _verdict(
    devices: list[DeviceUse], host: tuple[Spent, ...], operations: tuple[Spent, ...], cause: str | None
) -> str:
    working = [use for use in devices if use.kernels]
    if not working:
        return _host_verdict(host, operations)
    share = sum(use.busy_share for use in working) / len(working)
    name = working[0].name if len(working) == 1 else f"{len(working)} devices"
    one = len(working) == 1
    says = f"{name} {'is' if one else 'are'} busy for {words.share(share)} of the time{'' if one else ' on average'}"
    exposed = sum(use.exposed_seconds / use.window_seconds for use in working) / len(working)
    if cause is None:
        found = f"{says}: what the kernels compute is what takes the time."
    elif cause == "communication":
        return f"{says}; for {words.share(exposed)} of it nothing but communication ran: that is the cause."
    else:
        idle = sum(each.share for use in working for each in use.idle if each.cause == cause) / len(working)
        waits = "it waits" if one else "they wait"
        found = f"{says}. For {words.share(idle)} {waits} while {DOING[cause]}: {CAUSE_SAYS[cause]}."
    if exposed >= NAMED:
        found += f" For {words.share(exposed)} nothing but communication with other devices ran (NCCL and its kin)."
    return found


CAUSE_SAYS = {
    "copy": "copying is the cause",
    "data": "the wait for data is the cause",
    "callback": "callbacks are the cause",
    "compile": "compiling is the cause",
    "sync": "the host waits where it could launch the next step",
    "dispatch": "the kernels are over before the next are launched",
    "other": "host code between the operations is the cause, perhaps Python",
}


def _host_verdict(host: tuple[Spent, ...], operations: tuple[Spent, ...]) -> str:
    shares = {spent.name: spent.share for spent in host}
    running = shares.pop("operation", 0.0)
    purpose = max(shares, key=lambda name: shares[name], default="")
    if purpose and shares[purpose] >= max(NAMED, running):
        return f"For {words.share(shares[purpose])} of the time {DOING[purpose]}."
    if not operations:
        return "No operation of a model ran while this trace was made."
    says = f"Operations run on the CPU for {words.share(running)} of the time"
    if running >= 0.5:
        top = operations[0]
        return f"{says}, and {top.name} takes {words.share(top.share)} of it."
    return f"{says}; what the host did in the rest the trace does not name."


def _notes(captured: Captured, working: list[DeviceUse]) -> tuple[str, ...]:
    notes = []
    if not captured.devices or not working:
        notes.append(
            "There is no device in this trace: nothing can be said of kernels, copies or gaps on a GPU. "
            "What the host did is shown."
        )
    elif len(working) < len(captured.devices):
        silent = [device.name for device in captured.devices if not device.kernels]
        verb = "has" if len(silent) == 1 else "have"
        notes.append(f"{', '.join(silent)} {verb} no kernels in this trace.")
    if not captured.steps and not any(device.steps for device in captured.devices):
        notes.append("No steps are marked in this trace: shares are of its whole length.")
    if working and not any(thread.events for thread in captured.threads):
        notes.append("The trace holds nothing of the host: why the device waits cannot be said.")
    return tuple(notes)
