"""Every instant of a training gets exactly one owner: a run becomes parts that add up to its wall time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any

from fitscope.course import course
from fitscope.model import (
    PHASES,
    Account,
    Compile,
    Cost,
    Inside,
    Line,
    MachineSample,
    Node,
    Part,
    Region,
    Run,
    Sampled,
    Stage,
    StepSeconds,
    Use,
    Waits,
    Where,
)

CALLBACKS = ("callback", "progress")
MOST_LINES = 8
MOST_SAMPLES = 600
MOST_COSTS = 30
LEAST_COST = 0.001
USER_CODE = ("callback", "checkpoint", "data")
"""Phases whose time on the training thread is the user's own code wherever a line of it was seen."""


class BooksError(AssertionError):
    """The parts of a region do not add up to its wall time: a mistake in fitscope."""


@dataclass(frozen=True)
class _Key:
    """What makes a part: everything with the same key is one line."""

    phase: str
    name: str
    where: Where | None = None


@dataclass
class _Sum:
    seconds: float = 0.0
    count: int = 0
    samples: list[Sampled] = field(default_factory=list)
    inner: dict[_Key, _Sum] = field(default_factory=dict)


def account(run: Run) -> Account:
    """Where the time of a run went."""
    roots: dict[tuple[str, Where | None], list[int]] = defaultdict(list)
    trains = {fact.get("root") for fact in run.facts if fact["fact"] == "loop-trains"}
    for node in run.nodes.values():
        if node.phase == "region" and (node.name != "loop" or node.id in trains):
            roots[node.name, node.where].append(node.id)
    path_of = _Paths(run)
    members: dict[int, list[Node]] = defaultdict(list)
    for node in run.nodes.values():
        members[path_of(node)[0].id].append(node)
    samples = _by_node(run.sampled)
    regions = [
        _region(run, call, where, ids, [node for root in ids for node in members[root]], samples, path_of)
        for (call, where), ids in roots.items()
    ]
    regions = [region for region in regions if region.wall_seconds > 0]
    overhead = _overhead(run)
    trained = sum(region.wall_seconds for region in regions)
    return Account(
        regions=tuple(sorted(regions, key=lambda region: -region.wall_seconds)),
        overhead_seconds=overhead,
        overhead_share=overhead / trained if trained else 0.0,
        notes=tuple(_notes(run, regions)),
        use=_use(run.samples),
        lines=_costs(regions, trained),
        outside_seconds=max(0.0, run.wall_seconds - trained),
    )


def _region(
    run: Run,
    call: str,
    where: Where | None,
    roots: list[int],
    members: list[Node],
    samples: dict[int, list[Sampled]],
    path_of: _Paths,
) -> Region:
    wall = sum(node.seconds for node in members)
    sums: dict[_Key, _Sum] = {}
    for node in members:
        if node.seconds == 0 and node.count == 0:
            continue
        path = path_of(node)[1:]
        key, inner = _owner(path)
        total = sums.setdefault(key, _Sum())
        total.seconds += node.seconds
        own = inner is None or inner == key
        total.count += node.count if own else 0
        for sample in samples.get(node.id, ()):
            total.samples.append(sample)
        if inner is not None and not own:
            part = total.inner.setdefault(inner, _Sum())
            part.seconds += node.seconds
            part.count += node.count
    parts = sorted((_part(key, total, wall) for key, total in sums.items()), key=lambda part: -part.seconds)
    parts = [part for part in parts if part.seconds > 0 or part.count > 0]
    if abs(sum(part.seconds for part in parts) - wall) > 1e-6 + 1e-9 * wall:
        raise BooksError(f"the parts of {call} add up to {sum(p.seconds for p in parts)}, not to {wall}")
    called = [run.called[root] for root in roots if root in run.called]
    durations = tuple(duration for each in called for duration in each.durations)
    beside = [sample for root in roots for sample in samples.get(-root, ())]
    inside = {node.id for node in members}
    owners = {node.id: _owner(path_of(node)[1:])[0] for node in members}

    def owner(node: int) -> tuple[str, str] | None:
        key = owners.get(node)
        return (key.phase, key.name) if key is not None else None

    return Region(
        call=call,
        where=where,
        calls=sum(each.calls for each in called),
        wall_seconds=wall,
        steps=sum(each.steps for each in called),
        epochs=sum(each.epochs for each in called),
        step_seconds=_step_seconds(durations),
        parts=tuple(parts),
        stages=_stages(run, roots),
        compiles=_compiles(run, inside),
        inside=_called_back(run, inside),
        first_waits=_first_waits(run, roots),
        forced_sync=_facts(run, "forced-sync", inside, "callback"),
        threads=_lines(beside),
        workers=tuple(dict.fromkeys(_workers(run, inside))),
        notes=tuple(_region_notes(run, inside)),
        durations=durations,
        roots=tuple(roots),
        phases=_phases(parts),
        pipeline=_pipeline(run, roots),
        course=course(run, roots, owner, wall),
    )


def _phases(parts: list[Part]) -> tuple[Part, ...]:
    """What each phase took in all, the largest first."""
    found = []
    for phase in PHASES:
        some = [part for part in parts if part.phase == phase]
        if some:
            seconds, share = sum(part.seconds for part in some), sum(part.share for part in some)
            found.append(Part(phase, "", None, seconds, share, max(part.count for part in some)))
    return tuple(sorted(found, key=lambda part: -part.seconds))


def _costs(regions: list[Region], trained: float) -> tuple[Cost, ...]:
    """The lines of the user's code that cost the training time, the dearest first, and the input's functions."""
    found: dict[tuple[Where, str, str], Cost] = {}

    def add(where: Where, function: str, what: str, seconds: float, kind: str) -> None:
        earlier = found.get((where, what, kind))
        total = seconds + (earlier.seconds if earlier is not None else 0.0)
        found[where, what, kind] = Cost(where, function, what, total, total / trained if trained else None, kind)

    for region in regions:
        for part in region.parts:
            if part.phase not in USER_CODE:
                continue
            own = part.seconds - sum(inner.seconds for inner in part.inner)
            for inner in part.inner:
                if inner.where is not None:
                    add(inner.where, inner.name, f"{inner.name} in {part.name}", inner.seconds, "measured")
            for line in part.lines:
                add(line.where, line.function, part.name, own * line.share, "sampled")
            if not part.lines and part.where is not None:
                add(part.where, part.name, part.name, own, "measured")
    costs = [cost for cost in found.values() if cost.share is not None and cost.share >= LEAST_COST]
    beside = {
        (stage.where, stage.name): Cost(
            stage.where, stage.name, stage.name, stage.seconds_per_batch, None, "per batch"
        )
        for region in regions
        for stage in region.stages
        if stage.where is not None and stage.working is not None and stage.seconds_per_batch
    }
    costs.sort(key=lambda cost: -cost.seconds)
    return tuple(costs[:MOST_COSTS]) + tuple(beside.values())[:MOST_COSTS]


class _Paths:
    """From a root down to a node, remembered."""

    def __init__(self, run: Run) -> None:
        self._nodes = run.nodes
        self._paths: dict[int, list[Node]] = {}

    def __call__(self, node: Node) -> list[Node]:
        found = self._paths.get(node.id)
        if found is None:
            parent = self._nodes.get(node.parent)
            found = self._paths[node.id] = [*(self(parent) if parent is not None else []), node]
        return found


def _owner(path: list[Node]) -> tuple[_Key, _Key | None]:
    """Which part a node's time belongs to, and which part inside that part."""
    if not path:
        return _Key("unexplained", "rest"), None
    if path[-1].phase == "gc":
        outer, _ = _owner(path[:-1])
        return _Key("gc", outer.name), None
    for index, node in enumerate(path):
        if node.phase == "validation":
            return _inside(path[index + 1 :])
        if node.phase in CALLBACKS:
            rest = path[index + 1 :]
            own = _Key(node.phase, node.name, node.where)
            if any(below.phase == "checkpoint" for below in rest):
                return _Key("checkpoint", node.name, node.where), None
            calls = [below for below in rest if below.phase == "call"]
            if not calls:
                return own, None
            if rest[-1].phase == "compile":  # once, however often it is called
                return own, _Key("compile", f"compiling for {calls[0].name}", calls[0].where)
            return own, _Key("call", calls[0].name, calls[0].where)
        if node.phase == "checkpoint":
            return _Key("checkpoint", node.name), None
        if node.phase == "call":
            return _Key("step", f"{node.name} inside", node.where), None
    last = path[-1]
    return _Key(last.phase, last.name, last.where), None


def _inside(path: list[Node]) -> tuple[_Key, _Key | None]:
    """The part of the validation that a node belongs to: a callback's hook with its place, or a phase."""
    key, inner = _owner(path)
    if key.phase in (*CALLBACKS, "checkpoint"):
        return _Key("validation", key.name, key.where), inner
    name = key.phase if key.phase == "unexplained" else f"{key.phase}: {key.name}"
    return _Key("validation", name), None


def _part(key: _Key, total: _Sum, wall: float) -> Part:
    inner = sorted((_part(k, t, wall) for k, t in total.inner.items()), key=lambda part: -part.seconds)
    return Part(
        phase=key.phase,
        name=key.name,
        where=key.where,
        seconds=total.seconds,
        share=total.seconds / wall if wall else 0.0,
        count=total.count,
        lines=_lines(total.samples),
        inner=tuple(inner),
    )


def _lines(samples: list[Sampled]) -> tuple[Line, ...]:
    total = sum(sample.samples for sample in samples)
    by_line: dict[tuple[Where, str], Counter[str]] = defaultdict(Counter)
    for sample in samples:
        by_line[sample.where, sample.function][sample.doing] += sample.samples
    lines = [
        Line(where, function, doing.total(), doing.total() / total, doing.most_common(1)[0][0])
        for (where, function), doing in by_line.items()
    ]
    return tuple(sorted(lines, key=lambda line: -line.samples)[:MOST_LINES])


def _by_node(sampled: Iterable[Sampled]) -> dict[int, list[Sampled]]:
    found: dict[int, list[Sampled]] = defaultdict(list)
    for sample in sampled:
        found[sample.node].append(sample)
    return found


def _step_seconds(durations: tuple[float, ...]) -> StepSeconds | None:
    if not durations:
        return None
    ordered = sorted(durations)
    return StepSeconds(median(ordered), ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))])


def _stages(run: Run, roots: list[int]) -> tuple[Stage, ...]:
    found = [stage for root in roots for stage in run.stages.get(root, ())]
    return tuple(sorted(found, key=lambda stage: -(stage.seconds_per_batch or 0)))


def _pipeline(run: Run, roots: list[int]) -> tuple[Stage, ...]:
    """The stages as they were written, with what was measured of each; Python functions before what calls them."""
    stages = _stages(run, roots)
    functions = [stage for stage in stages if stage.working is not None]
    measured = [stage for stage in stages if stage.working is None]
    written: list[dict[str, Any]] = next(
        (fact["stages"] for fact in run.facts if fact["fact"] == "pipeline" and fact["root"] in roots), []
    )
    found: list[Stage] = []
    for each in reversed(written):
        stage = next((stage for stage in measured if _is_written(stage, each)), None)
        if stage is not None:
            measured.remove(stage)
        if each.get("python"):
            found += functions
            functions = []
        seconds = stage.seconds_per_batch if stage is not None else None
        parallelism = stage.parallelism if stage is not None else max(1, each.get("parallel") or 1)
        buffered = stage.buffered if stage is not None else None
        found.append(Stage(each["kind"], each["where"], seconds, parallelism, buffered=buffered))
    return tuple(functions + found) if written else tuple(functions + measured)


def _is_written(stage: Stage, written: dict[str, Any]) -> bool:
    """Whether tf.data's model of a stage is the one that was written so."""
    kind = stage.name.lower().removeprefix("parallel")
    kinds = ("map",) if kind == "mapandbatch" else (kind,)
    return written["kind"] in kinds and stage.where == written["where"]


def _compiles(run: Run, inside: set[int]) -> tuple[Compile, ...]:
    found: dict[tuple[Any, ...], Compile] = {}
    for root in inside:
        for item in run.compiles.get(root, ()):
            key = (item.function, item.cause, item.detail, item.where)
            if key in found:
                earlier = found[key]
                item = replace(item, count=item.count + earlier.count, seconds=item.seconds + earlier.seconds)
            found[key] = item
    return tuple(sorted(found.values(), key=lambda item: -item.seconds))


def _called_back(run: Run, inside: set[int]) -> tuple[Inside, ...]:
    found = [item for root in inside for item in run.inside.get(root, ())]
    return tuple(sorted(found, key=lambda item: -item.seconds))


def _first_waits(run: Run, roots: list[int]) -> Waits:
    found = [run.first_waits[root] for root in roots if root in run.first_waits]
    return Waits(sum(each.seconds for each in found), sum(each.count for each in found))


def _facts(run: Run, kind: str, inside: set[int], field_name: str) -> tuple[str, ...]:
    found = [str(fact[field_name]) for fact in run.facts if fact["fact"] == kind and fact.get("root") in inside]
    return tuple(dict.fromkeys(found))


def _workers(run: Run, inside: set[int]) -> Iterable[str]:
    for fact in run.facts:
        if fact["fact"] == "workers" and fact.get("root") in inside:
            yield f"{fact['source']}: {fact['workers']} worker {'processes' if fact['processes'] else 'threads'}"


def _region_notes(run: Run, inside: set[int]) -> Iterable[str]:
    if run.unseparated & inside:
        yield "The wait for data could not be told from the step for a part of this region."


def _overhead(run: Run) -> float:
    """What fitscope itself took: what it timed directly, and its passages through the seams."""
    direct = sum(run.own.values()) + sum(n.seconds for n in run.nodes.values() if n.name == "fitscope itself")
    passage = next((fact["seconds"] for fact in run.facts if fact["fact"] == "seam"), 0.0)
    return direct + passage * sum(node.count for node in run.nodes.values())


def _use(samples: tuple[MachineSample, ...]) -> Use | None:
    if not samples:
        return None
    with_gpus = [sample.gpus for sample in samples if sample.gpus]
    held_up = [sample.held_up for sample in samples if sample.held_up is not None]
    return Use(
        cores_busy=fmean(sum(sample.cores) for sample in samples),
        process_cpu=fmean(sample.process_cpu for sample in samples),
        memory_peak_bytes=max(sample.memory_bytes for sample in samples),
        memory_grown_bytes=samples[-1].memory_bytes - samples[0].memory_bytes,
        io_wait=fmean(sample.io_wait for sample in samples),
        major_faults=sum(sample.major_faults for sample in samples),
        swap_bytes=max(sample.swap_bytes for sample in samples),
        gpu_utilization=tuple(fmean(gpu[0] for gpu in each) for each in zip(*with_gpus, strict=True)),
        gpu_memory_peak_bytes=tuple(max(gpu[1] for gpu in each) for each in zip(*with_gpus, strict=True)),
        over_time=samples[:: -(-len(samples) // MOST_SAMPLES)],
        held_up=fmean(held_up) if held_up else None,
    )


def _notes(run: Run, regions: list[Region]) -> Iterable[str]:
    for fact in run.facts:
        if fact["fact"] == "failure":
            yield f"Recording stopped: {fact['says']}. The training went on unobserved."
        elif fact["fact"] == "keras-too-old":
            yield f"The script uses Keras {fact['version']}: fitscope sees Keras 3 only."
        elif fact["fact"] == "legacy-keras":
            yield "The script uses legacy tf.keras (the tf_keras package): fitscope sees Keras 3 only."
        elif fact["fact"] == "backend-unknown":
            yield f"The Keras backend {fact['backend']} is unknown to fitscope: TensorFlow, JAX and torch are seen."
        elif fact["fact"] == "grain-unknown":
            yield f"This Grain is unknown to fitscope ({fact['says']}): its stages are not listed."
        elif fact["fact"] == "problem":
            yield str(fact["says"])
        elif fact["fact"] == "stopped":
            yield f"The script was ended after {fact['seconds']:g} s of training, as asked with --for."
