"""Runs as a comparison reads them, and the small file that keeps some of them as a baseline.

A baseline is JSON and holds a part of what `fitscope show --json` prints of each run, so that output is one, too.
"""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from fitscope import store
from fitscope.account import account
from fitscope.model import SCHEMA, Calmest, FitscopeError, Report, Run, Where
from fitscope.report.to_json import report_value

ONCE = ("compile", "setup")
"""Phases that happen once, or once in a while, and not with every step: they are no part of the time per step."""

NOT_WITH_EVERY_STEP = ("callback", "checkpoint", "epoch", "gc", "validation")
"""Phases that may come with some epochs only: of these the mean counts, of the others the calmest blocks."""
LEAST_BLOCKS = 4
CALMEST, LEAST_CALM = 0.1, 2
"""The part of the blocks, and how many at least, that were least disturbed: those with the shortest steps. What
disturbs a step makes it longer, never shorter. On a shared virtual machine whole runs of one script, 20 seconds each,
differed by 5 to 9 % in the middle of their blocks and by 2 to 3 % in the calmest tenth."""
IRREGULAR = ("data", "callback", "checkpoint", "gc")
FINELY = 0.05
"""Where these phases, which may come with some steps only, take less of a step, stretches of a few steps can be
compared: 20 seconds differed by 1.7 to 2.4 % in the calmest of these, 46 seconds by 1.5 to 1.9 %."""
ALIKE = 0.25
"""Steps that are usually longer than the calmest by more than that are not alike: batches of different lengths …"""
OFF_FOR_A_SECOND = 0.25
"""How far the calmest blocks may be off if a run has one second of blocks, and less the longer it is: in two seconds,
none may be calm. There 2 seconds were off by 10 %, 4 by 5 to 7 %, 8 by 3 to 5 % and 16 by 2 to 5 %."""
OFF_BY_UNREST, OFF_BY_UNREST_FINELY, MOST_UNREST = 0.45, 5.0, 0.15
"""How far even the calmest are off where the others are longer than they by so much, as was seen there: a share of
that in blocks; in stretches, divided by the seconds of the run."""
FOREIGN_CORES = 0.3
"""From so many processors used by other programs on, a block is disturbed."""

_KEPT = ("script", "argv", "backend", "versions", "started", "git", "wall_seconds")
_KEPT_OF_REGIONS = ("call", "where", "steps", "epochs")
_KEPT_OF_PARTS = ("phase", "name", "where", "seconds")
_KEPT_OF_MACHINES = ("platform", "cpu", "cores", "memory_bytes", "gpus")


@dataclass(frozen=True)
class Block:
    """Some steps in a row: seconds of what comes with every step, how busy other programs were, and the rest."""

    regular: float
    steps: int
    foreign_cores: float
    other: float = 0.0
    """Seconds of what does not come with every step."""

    @property
    def per_step(self) -> float:
        """Seconds of what comes with every step, for one of them."""
        return self.regular / self.steps


@dataclass(frozen=True)
class Trained:
    """A place in the code that trained, in one run."""

    call: str
    where: Where | None
    steps: int
    epochs: int
    parts: dict[tuple[str, str], float]
    """Seconds by phase and name."""
    places: dict[tuple[str, str], Where | None]
    blocks: tuple[Block, ...] = ()
    steady: dict[str, float] = field(default_factory=dict)
    """Seconds per step by phase once training is under way; empty where too little is known."""
    calmest: Calmest | None = None
    finely: bool = False
    """Whether `steady` is that of the calmest stretches, not of the calmest blocks."""

    @property
    def seconds(self) -> float:
        """What its steps took, with all that comes with them."""
        return sum(seconds for (phase, _), seconds in self.parts.items() if phase not in ONCE)

    @property
    def per_step(self) -> float:
        """Seconds per step: once training is under way and nobody disturbs, where that is known."""
        return sum(self.steady.values()) or self.seconds / self.steps

    def part_per_step(self, phase: str, seconds: float) -> float:
        """What a part that took so long in all takes per step: its share of the phase."""
        if not self.steady:
            return seconds / self.steps
        whole = sum(each for (other, _), each in self.parts.items() if other == phase)
        return self.steady.get(phase, 0.0) * seconds / whole if whole else 0.0

    @property
    def disturbed(self) -> bool:
        """Whether other programs were busy for most of the time."""
        enough = min(len(self.blocks), max(LEAST_BLOCKS, len(self.blocks) / 4))
        return len(calm(self.blocks)) < enough

    @property
    def unrest(self) -> float | None:
        """By which share steps are usually longer than at their calmest; unknown of few blocks."""
        blocks = self._measured
        if len(blocks) < LEAST_BLOCKS:
            return None
        if self.finely and self.calmest is not None:
            return self.calmest.usual / self.calmest.seconds - 1
        best = fmean(block.per_step for block in calmest(blocks))
        return median(block.per_step for block in blocks) / best - 1 if best else None

    @property
    def doubt(self) -> float | None:
        """How far `per_step` may be off because of what went on in this run, as a share; unknown of few blocks."""
        unrest, blocks = self.unrest, self._measured
        if unrest is None:
            return None
        seconds = sum(block.regular + block.other for block in blocks)
        others = [block.other / block.steps for block in blocks]
        error = stdev(others) / math.sqrt(len(others)) / self.per_step
        each = OFF_BY_UNREST_FINELY / seconds if self.finely else OFF_BY_UNREST
        return math.hypot(each * min(unrest, MOST_UNREST), OFF_FOR_A_SECOND / seconds, error)

    @property
    def is_regular(self) -> bool:
        """Whether the steps are alike enough for stretches of a few of them to tell what all of them take."""
        if self.calmest is None or not self.steady:
            return False
        irregular = sum(self.steady.get(phase, 0.0) for phase in IRREGULAR)
        return irregular < FINELY * self.per_step and self.calmest.usual < (1 + ALIKE) * self.calmest.seconds

    def by_stretches(self) -> Trained:
        """The same, measured by its calmest stretches."""
        regular = sum(seconds for phase, seconds in self.steady.items() if phase not in NOT_WITH_EVERY_STEP)
        if self.calmest is None or not regular:
            return self
        steady = {
            phase: each if phase in NOT_WITH_EVERY_STEP else each * self.calmest.seconds / regular
            for phase, each in self.steady.items()
        }
        return replace(self, finely=True, steady=steady)

    @property
    def _measured(self) -> tuple[Block, ...]:
        return self.blocks if self.disturbed else calm(self.blocks)


def calm(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks in which other programs were not busy."""
    return tuple(block for block in blocks if block.foreign_cores < FOREIGN_CORES)


def calmest(blocks: Sequence[Block]) -> list[Block]:
    """The blocks with the shortest steps."""
    return sorted(blocks, key=lambda block: block.per_step)[: max(LEAST_CALM, round(CALMEST * len(blocks)))]


def steady(pieces: Sequence[tuple[Block, dict[str, float]]]) -> dict[str, float]:
    """Seconds per step by phase, of the blocks that nobody disturbed.

    Of what comes with every step only the calmest blocks count; of the rest, which may come with every fifth epoch,
    the mean.
    """
    usable = [piece for piece in pieces if piece[0] in calm([piece[0]])] or list(pieces)
    if len(usable) < LEAST_BLOCKS:
        return {}
    best = calmest([block for block, _ in usable])
    few = [piece for piece in usable if any(piece[0] is block for block in best)]
    found = {}
    for phase in dict.fromkeys(phase for _, phases in usable for phase in phases):
        some = usable if phase in NOT_WITH_EVERY_STEP else few
        found[phase] = sum(phases.get(phase, 0.0) for _, phases in some) / sum(block.steps for block, _ in some)
    return found


@dataclass(frozen=True)
class Digest:
    """What a comparison needs of one run."""

    name: str
    script: str
    argv: tuple[str, ...]
    backend: str | None
    versions: dict[str, str]
    machine: dict[str, Any]
    started: float
    git: str | None
    wall_seconds: float
    foreign_cores: float
    """Processors that other programs used meanwhile."""
    regions: tuple[Trained, ...]


def gather(name: str) -> list[Digest]:
    """The runs that a name stands for: a run, a folder or a pattern of runs, a baseline, output of `show --json`."""
    return [_digest(value, path) for path, value in _values(name)]


def digest(run: Run) -> Digest:
    """What a comparison needs of a run."""
    return _digest(report_value(Report(run, account(run))), Path(run.path))


def save(path: Path, names: Sequence[str]) -> int:
    """Writes a baseline of these runs; says how many there are."""
    found = [each for name in names for each in _values(name)]
    for source, value in found:
        _digest(value, source)  # says so if it cannot be read
    values = [_kept(value) for _, value in found]
    lines = ",\n".join(json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values)
    try:
        if path.exists() and not path.read_text(encoding="utf-8").startswith('{"fitscope_baseline"'):
            raise FitscopeError(f"{path} exists and is not a baseline: choose another name.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{"fitscope_baseline":{SCHEMA},"runs":[\n{lines}\n]}}\n', encoding="utf-8")
    except UnicodeDecodeError:
        raise FitscopeError(f"{path} exists and is not a baseline: choose another name.") from None
    except OSError as error:
        raise FitscopeError(f"{path} cannot be written: {error.strerror}.") from error
    return len(values)


def _values(name: str) -> list[tuple[Path, dict[str, Any]]]:
    path = store.find(Path(name))
    if path.is_dir():
        found = sorted(path.glob("*.run"))
        if not found:
            raise FitscopeError(
                f"there are no runs in {path}/: record one with `fitscope run -o {path}/1.run train.py`."
            )
    elif not path.exists() and glob.has_magic(name):
        found = sorted(Path(each) for each in glob.glob(name))  # noqa: PTH207
        if not found:
            raise FitscopeError(f"no file is named like {name}.")
    else:
        found = [path]
    return [(each, value) for each in found for value in _file(each)]


def _file(path: Path) -> Iterable[dict[str, Any]]:
    """The runs in a file, as `show --json` has them."""
    value = _json(path)
    if value is None:
        run = store.read(path)
        return [report_value(Report(run, account(run)))]
    if "fitscope_baseline" in value:
        schema, runs = value["fitscope_baseline"], value.get("runs")
    else:
        schema, runs = value.get("schema"), [value]
    if not isinstance(schema, int) or not isinstance(runs, list) or not runs:
        raise FitscopeError(f"{path} is neither a run nor a baseline.")
    if schema > SCHEMA:
        raise FitscopeError(f"{path} was written by a newer fitscope: update fitscope to read it.")
    return runs


def _json(path: Path) -> dict[str, Any] | None:
    """The one JSON object in a file; a run file has one in each line."""
    try:
        with path.open("rb") as file:
            if file.read(15).startswith(b'{"fitscope_run"'):
                return None
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FitscopeError(f"there is no file {path}: `fitscope list` shows the recorded runs.") from None
    except OSError as error:
        raise FitscopeError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError):
        raise FitscopeError(f"{path} is neither a run nor a baseline.") from None
    if not isinstance(value, dict):
        raise FitscopeError(f"{path} is neither a run nor a baseline.")
    return value


def _kept(value: dict[str, Any]) -> dict[str, Any]:
    """The part of a run's JSON that a comparison reads."""
    machine = value["machine"]
    use = machine.get("use") or {}
    samples = use.get("over_time") or []
    return {
        **{key: value.get(key) for key in _KEPT},
        "machine": {
            **{key: machine.get(key) for key in _KEPT_OF_MACHINES},
            "use": {key: use[key] for key in ("cores_busy", "process_cpu") if key in use},
        },
        "regions": [
            {
                **{key: region[key] for key in _KEPT_OF_REGIONS},
                "parts": [{key: part[key] for key in _KEPT_OF_PARTS} for part in region["parts"]],
                "blocks": [[round(number, 6) for number in astuple(block)] for block in trained.blocks],
                "steady": trained.steady,
                "calmest": asdict(trained.calmest) if trained.calmest is not None else None,
            }
            for region in value["regions"]
            for trained in [_trained(region, samples)]
        ],
    }


def _digest(value: Any, path: Path) -> Digest:
    try:
        use = value["machine"].get("use") or {}
        return Digest(
            name=str(path),
            script=str(value["script"]),
            argv=tuple(map(str, value["argv"])),
            backend=value["backend"],
            versions=dict(value["versions"]),
            machine=value["machine"],
            started=float(value["started"]),
            git=value.get("git"),
            wall_seconds=float(value["wall_seconds"]),
            foreign_cores=max(0.0, float(use.get("cores_busy", 0)) - float(use.get("process_cpu", 0))),
            regions=tuple(
                _trained(region, use.get("over_time") or []) for region in value["regions"] if region["steps"]
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FitscopeError(f"{path} is damaged and cannot be read ({type(error).__name__}: {error}).") from error


def _trained(value: dict[str, Any], samples: list[dict[str, Any]]) -> Trained:
    parts: dict[tuple[str, str], float] = {}
    places: dict[tuple[str, str], Where | None] = {}
    for part in value["parts"]:
        key = (str(part["phase"]), str(part["name"]))
        parts[key] = parts.get(key, 0.0) + float(part["seconds"])
        places.setdefault(key, _where(part["where"]))
    if "blocks" in value:  # in a baseline
        blocks, found = [Block(*block) for block in value["blocks"]], dict(value["steady"])
        stretches = value.get("calmest")
    else:
        stretches = (value.get("course") or {}).get("calmest")
        pieces = list(_pieces(value, samples))
        blocks, found = [block for block, _ in pieces], steady(pieces)
    return Trained(
        call=str(value["call"]),
        where=_where(value["where"]),
        steps=int(value["steps"]),
        epochs=int(value["epochs"]),
        parts=parts,
        places=places,
        blocks=tuple(blocks),
        steady=found,
        calmest=Calmest(**stretches) if stretches else None,
    )


def _pieces(region: dict[str, Any], samples: list[dict[str, Any]]) -> Iterator[tuple[Block, dict[str, float]]]:
    """A region cut at the ends of its epochs or, where it has few, by the clock; without its first piece.

    The first epoch fills caches and starts threads; what comes after is what training is like.
    """
    course = region.get("course") or {}
    cut = course.get("epochs", [])[1:]
    if len(cut) < LEAST_BLOCKS:
        intervals = course.get("intervals", [])
        first = next((at for at, each in enumerate(intervals) if each.get("steps")), len(intervals))
        cut = intervals[first + 1 :]
    phases: dict[str, float] = {}
    began: float | None = None
    for piece in cut:
        ended = float(piece["ended"])
        if began is None:
            began = float(piece["began"]) if "began" in piece else ended - float(piece["wall_seconds"])
        for phase, seconds in piece["phases"].items():
            if phase not in ONCE:
                phases[phase] = phases.get(phase, 0.0) + float(seconds)
        if piece["steps"]:  # a validation, or a step of seconds, goes with the step that ends next
            regular = sum(seconds for phase, seconds in phases.items() if phase not in NOT_WITH_EVERY_STEP)
            foreign, other = _foreign_cores(samples, began, ended), sum(phases.values()) - regular
            yield Block(regular, int(piece["steps"]), foreign, other), phases
            phases, began = {}, None


def _foreign_cores(samples: list[dict[str, Any]], began: float, ended: float) -> float:
    """The processors that other programs used between two instants, as far as somebody looked."""
    seen = used = 0.0
    for before, sample in pairwise(samples):
        overlap = min(ended, sample["seconds"]) - max(began, before["seconds"])
        if overlap > 0:
            seen += overlap
            used += overlap * max(0.0, sum(sample["cores"]) - sample["process_cpu"])
    return used / seen if seen else 0.0


def _where(value: dict[str, Any] | None) -> Where | None:
    return None if value is None else Where(str(value["file"]), int(value["line"]))
