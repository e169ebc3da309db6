"""A run and its file: reads what the recorder wrote, up to the last whole line."""

from __future__ import annotations

import base64
import json
import re
import time
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fitscope.model import (
    SCHEMA,
    TRACE_ENDINGS,
    Called,
    Compile,
    FitscopeError,
    Inside,
    LayerAccount,
    LayerCost,
    MachineSample,
    Mark,
    Node,
    Run,
    Sampled,
    Stage,
    Tick,
    Waits,
    Where,
)

FOLDER = ".fitscope"
PAGE_ENDING = ".html"
"""The page of a run that is opened from the command line stands beside it."""
LAYERS_ENDING = ".layers"
"""What `fitscope layers` has measured."""
MOST_KEPT = 5
"""Of these files, for each script."""
_OUR_NAME = re.compile(r"(?P<script>.+)-\d{8}-\d{6}(-\d+)?\.run")
MOST_TICKS = 2000
"""Of a run of days two neighbors are put together, and again, so that as many remain at most."""


def read(path: Path) -> Run:
    """The run in a file; a sentence for what is no run file."""
    lines = _lines(path)
    header = next(lines, None)
    if not isinstance(header, dict) or "fitscope_run" not in header:
        raise FitscopeError(f"{path} is not a fitscope run file.")
    schema = header["fitscope_run"]
    if not isinstance(schema, int) or schema > SCHEMA:
        raise FitscopeError(
            f"{path} was written by a newer fitscope ({header.get('version', 'unknown version')}): "
            "update fitscope to read it."
        )
    try:
        return _Reader(header, path).read(lines)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, zlib.error) as error:
        raise FitscopeError(f"{path} is damaged and cannot be read ({type(error).__name__}: {error}).") from error


def new_path(script: str, ending: str = ".run") -> Path:
    """A new file in .fitscope/, named by script and time."""
    stem = f"{_safe(script)}-{time.strftime('%Y%m%d-%H%M%S')}"
    path = Path(FOLDER, f"{stem}{ending}")
    number = 2
    while path.exists():
        path = Path(FOLDER, f"{stem}-{number}{ending}")
        number += 1
    return path


def _safe(script: str) -> str:
    return re.sub(r"[^\w.-]+", "_", script) or "run"


def check_replaceable(path: Path) -> None:
    """A run may be written over; anything else is somebody's."""
    with path.open("rb") as file:
        start = file.read(16)
    if start and not start.startswith(b'{"fitscope_run"'):
        raise FitscopeError(f"{path} exists and is not a run file: choose another name for the run.")


def find(name: Path) -> Path:
    """A run by its path, or by its name in .fitscope/ as `fitscope list` prints it."""
    kept = Path(FOLDER, name)
    return kept if not name.exists() and kept.exists() else name


def latest(folder: Path = Path(FOLDER)) -> Path:
    """The run file that was written last."""
    found = files(folder)
    if not found:
        raise FitscopeError(f"there are no runs in {folder}/: record one with `fitscope run train.py`.")
    return found[-1]


def prune(folder: Path, keep: int) -> int:
    """Removes all but the newest runs of each script, of those that fitscope itself gave their names."""
    scripts: dict[str, list[Path]] = {}
    for path in folder.glob("*.run"):
        match = _OUR_NAME.fullmatch(path.name)
        if match is not None:
            scripts.setdefault(match["script"], []).append(path)
    old = [path for found in scripts.values() for path in sorted(found, key=_written)[:-keep]]
    for path in old:
        path.unlink(missing_ok=True)
        for ending in (*TRACE_ENDINGS, PAGE_ENDING):
            path.with_name(path.stem + ending).unlink(missing_ok=True)
    return len(old)


def keep_layers(account: LayerAccount) -> Path | None:
    """Keeps what the layers of a script cost, beside its runs; None where nothing can be written."""
    script = Path(account.script).stem
    path = new_path(script, LAYERS_ENDING)
    named = re.compile(re.escape(_safe(script)) + r"-\d{8}-\d{6}(-\d+)?" + re.escape(LAYERS_ENDING))
    try:
        path.parent.mkdir(exist_ok=True)
        ignore = path.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        path.write_text(json.dumps({"fitscope_layers": SCHEMA, **asdict(account)}))
        mine = [each for each in path.parent.glob(f"*{LAYERS_ENDING}") if named.fullmatch(each.name)]
        for old in sorted(mine, key=_written)[:-MOST_KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return path


def layers_of(run: Run) -> LayerAccount | None:
    """What the layers cost in the training of a run, if it was measured with the same script and arguments."""
    script = Path(run.cwd, run.script)
    changed = script.stat().st_mtime if script.is_file() else None
    for path in sorted(Path(run.path).parent.glob(f"*{LAYERS_ENDING}"), key=_written, reverse=True):
        found = _read_layers(path)
        if found is None or (found.argv, found.backend) != (run.argv, run.backend):
            continue
        if Path(found.cwd, found.script) != script or changed is None:
            continue
        if changed <= min(found.started, run.started):
            return found
    return None


def _read_layers(path: Path) -> LayerAccount | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value.pop("fitscope_layers", SCHEMA + 1) > SCHEMA:
            return None
        layers = tuple(LayerCost(**{**each, "output": tuple(each["output"])}) for each in value.pop("layers"))
        batch = tuple(tuple(shape) for shape in value.pop("batch"))
        return LayerAccount(
            **{**value, "argv": tuple(value["argv"]), "notes": tuple(value["notes"])}, batch=batch, layers=layers
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _written(path: Path) -> tuple[float, str]:
    return path.stat().st_mtime, path.name


def files(folder: Path) -> list[Path]:
    """All run files of a folder, the one that was written last at the end."""
    return sorted((path for path in folder.glob("*.run") if path.is_file()), key=_written)


def runs(folder: Path) -> Iterator[tuple[Path, Run]]:
    """All readable runs of a folder, the file that was written last at the end."""
    for path in files(folder):
        try:
            yield path, read(path)
        except FitscopeError:
            continue


def _lines(path: Path) -> Iterator[Any]:
    """Every whole line; a last line without its end was being written when the script was killed."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError) as error:
                    if number == 0:
                        raise FitscopeError(f"{path} is not a fitscope run file.") from error
                    # What is written is cumulative: without one line the run is still worth reading.
                    yield {"fact": "problem", "says": f"Line {number + 1} of the run file is damaged: left out."}
    except FileNotFoundError:
        raise FitscopeError(f"there is no file {path}: `fitscope list` shows the recorded runs.") from None
    except OSError as error:
        raise FitscopeError(f"{path} cannot be read: {error.strerror}.") from error


class Follower:
    """Reads a run file while it is being written, each line once; durations of steps are left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = 0
        self._reader: _Reader | None = None

    def read(self) -> Run | None:
        """The run up to now; nothing before the first line is there."""
        lines = self._new_lines()
        if self._reader is None:
            if not lines or "fitscope_run" not in lines[0]:
                return None
            self._reader = _Reader(lines[0], self.path)
        return self._reader.read(iter(lines))

    def _new_lines(self) -> list[dict[str, Any]]:
        with self.path.open("rb") as file:
            file.seek(self._at)
            whole, end, _ = file.read().rpartition(b"\n")
        self._at += len(whole) + len(end)
        lines = []
        for text in whole.splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                if "epoch" not in line:
                    line.pop("steps", None)
                lines.append(line)
        return lines


class _Reader:
    """Puts the lines of one file together."""

    def __init__(self, header: dict[str, Any], path: Path) -> None:
        self.header = header
        self.path = path
        self.cwd = str(header.get("cwd", ""))
        self.keys: dict[str, dict[int, list[Any]]] = {}
        self.rows: dict[str, dict[int, list[int]]] = {}
        self.steps: dict[int, array[int]] = {}
        self.facts: list[dict[str, Any]] = []
        self.samples: list[MachineSample] = []
        self.machine: dict[str, Any] = {}
        self.end: dict[str, Any] = {}
        self.last = 0.0
        self.ticks: list[Tick] = []
        self.marks: list[Mark] = []
        self.marked: dict[int, int] = {}

    def read(self, lines: Iterator[Any]) -> Run:
        """The run."""
        for line in lines:
            if "define" in line:
                self.keys.setdefault(line["define"], {})[int(line["id"])] = _plain(line["key"])
            elif "fact" in line:
                self.facts.append(line)
            elif "sample" in line:
                self._sample(line)
            elif "machine" in line:
                self.machine = dict(line["machine"])
            elif "ended" in line or "exit_code" in line:
                self.end.update(line)
            elif "epoch" in line:
                self._mark(line)
            elif "t" in line:
                self._tick(line)
        return self._run()

    def _tick(self, line: dict[str, Any]) -> None:
        self.last = float(line["t"])
        tick = Tick(self.last, {}, {})
        for table, rows in line.items():
            if table == "steps":
                for root, packed in rows.items():
                    values = array("I")
                    values.frombytes(zlib.decompress(base64.b64decode(packed)))
                    self.steps.setdefault(int(root), array("I")).extend(values)
                    tick.steps[int(root)] = len(values)
            elif table != "t":
                target = self.rows.setdefault(table, {})
                for index, row in rows.items():
                    if table == "node":
                        tick.spent[int(index)] = (row[0] - target.get(int(index), [0])[0]) / 1e9
                    target[int(index)] = [int(value) for value in row]
        self.ticks.append(tick)
        if len(self.ticks) > MOST_TICKS:
            self.ticks = [_together(self.ticks[at : at + 2]) for at in range(0, len(self.ticks), 2)]

    def _mark(self, line: dict[str, Any]) -> None:
        spent = {}
        for index, value in line["spent"].items():
            spent[int(index)] = (value - self.marked.get(int(index), 0)) / 1e9
            self.marked[int(index)] = value
        self.marks.append(Mark(int(line["root"]), float(line["t"]), int(line["epoch"]), int(line["steps"]), spent))

    def _sample(self, line: dict[str, Any]) -> None:
        values = line["sample"]
        self.samples.append(
            MachineSample(
                seconds=float(line["t"]),
                cores=tuple(map(float, values["cores"])),
                process_cpu=float(values["cpu"]),
                memory_bytes=int(values["rss"]),
                io_wait=float(values["iowait"]),
                major_faults=int(values["majflt"]),
                swap_bytes=int(values["swap"]),
                gpus=tuple((float(gpu[0]), int(gpu[1])) for gpu in values.get("gpus", ())),
                held_up=None if values.get("held_up") is None else float(values["held_up"]),
            )
        )

    def _run(self) -> Run:
        backend = next((fact for fact in self.facts if fact["fact"] == "backend"), {})
        return Run(
            version=str(self.header.get("version", "")),
            script=str(self.header.get("script", "")),
            argv=tuple(self.header.get("argv", ())),
            cwd=self.cwd,
            started=float(self.header.get("started", 0)),
            wall_seconds=float(self.end.get("wall_seconds", self.last)),
            ended=str(self.end.get("ended", "killed")),
            exit_code=self.end.get("exit_code"),
            backend=backend.get("backend"),
            versions=dict(next((fact["versions"] for fact in self.facts if fact["fact"] == "versions"), {})),
            machine=self.machine,
            nodes=self._nodes(),
            called=self._called(),
            stages=self._stages(),
            compiles=self._compiles(),
            inside=self._inside(),
            first_waits={root: Waits(spent / 1e9, count) for (root,), (spent, count) in self._table("first_waits")},
            sampled=self._sampled(),
            beside={key[0]: row[0] / 1e9 for key, row in self._table("beside")},
            own={key[0]: row[0] / 1e9 for key, row in self._table("own")},
            facts=tuple(self._placed(fact) for fact in self.facts),
            unseparated=frozenset(key[0] for key, _ in self._table("unseparated")),
            samples=tuple(self.samples),
            path=str(self.path),
            git=self.end.get("git"),
            ticks=tuple(self.ticks),
            marks=tuple(self.marks),
        )

    def _table(self, table: str) -> Iterator[tuple[list[Any], list[int]]]:
        for index, row in self.rows.get(table, {}).items():
            yield self.keys[table][index], row

    def _where(self, file: str | None, line: int | None) -> Where | None:
        if not file:
            return None
        path = Path(file)
        if path.is_absolute() and self.cwd and path.is_relative_to(self.cwd):
            file = str(path.relative_to(self.cwd))
        return Where(file, int(line or 0))

    def _placed(self, fact: dict[str, Any]) -> dict[str, Any]:
        """A fact with its place in the code, and those of what it holds, as `where`."""
        placed = dict(fact)
        if "file" in fact:
            placed["where"] = self._where(fact["file"], fact.get("line"))
        if isinstance(fact.get("stages"), list):
            placed["stages"] = [
                {
                    **stage,
                    "where": self._where(stage.get("file"), stage.get("line")),
                    "made": self._where(*(stage.get("made") or (None, None))),
                }
                for stage in fact["stages"]
            ]
        return placed

    def _nodes(self) -> dict[int, Node]:
        rows = self.rows.get("node", {})
        nodes = {}
        for index, (parent, phase, name, file, line, thread) in self.keys.get("node", {}).items():
            if parent >= index:
                raise ValueError(f"node {index} is below node {parent}")
            spent, count = rows.get(index, (0, 0))
            where = self._where(file, line)
            nodes[index] = Node(index, parent, str(phase), str(name), where, thread, spent / 1e9, count)
        return nodes

    def _called(self) -> dict[int, Called]:
        return {
            index: Called(row[0], row[1], row[2], tuple(value / 1e7 for value in self.steps.get(index, ())))
            for index, row in self.rows.get("region", {}).items()
        }

    def _stages(self) -> dict[int, tuple[Stage, ...]]:
        stages: dict[int, list[Stage]] = {}
        for (root, name, file, line), row in self._table("stage"):
            busy, elements, seen, parallelism, buffered, reads, worked = [*row, 0][:7]
            batches = seen or self.rows.get("region", {}).get(root, [0, 0, 0])[1]
            stages.setdefault(root, []).append(
                Stage(
                    name=name,
                    where=self._where(file, line),
                    seconds_per_batch=busy / 1e9 / batches if batches else None,
                    parallelism=round(parallelism / reads) if reads else 1,
                    elements_per_batch=elements / batches if batches else None,
                    buffered=buffered / reads if reads else None,
                    working=worked / busy if worked and busy else None,
                    batches=seen if seen and not worked else None,
                )
            )
        return {
            root: tuple(sorted(found, key=lambda stage: -(stage.seconds_per_batch or 0)))
            for root, found in stages.items()
        }

    def _compiles(self) -> dict[int, tuple[Compile, ...]]:
        compiles: dict[int, list[Compile]] = {}
        for key, (count, spent) in self._table("compile"):
            root, function, cause, detail, file, line = [*key, None, None][:6]
            where = self._where(file, line)
            compiles.setdefault(root, []).append(Compile(function, cause, detail, count, spent / 1e9, where))
        return {root: tuple(sorted(found, key=lambda item: -item.seconds)) for root, found in compiles.items()}

    def _inside(self) -> dict[int, tuple[Inside, ...]]:
        found: dict[int, list[Inside]] = {}
        for (root, name, file, line), (spent, count) in self._table("inside"):
            found.setdefault(root, []).append(Inside(name, self._where(file, line), spent / 1e9, count))
        return {root: tuple(sorted(each, key=lambda item: -item.seconds)) for root, each in found.items()}

    def _sampled(self) -> tuple[Sampled, ...]:
        found = []
        for key, (samples,) in self._table("lines"):
            node, file, line, function, doing = [*key, ""][:5]
            where = self._where(file, line)
            if where is not None:
                found.append(Sampled(node, where, function, samples, doing))
        return tuple(found)


def _plain(key: list[Any]) -> list[Any]:
    """The key of a row, which holds nothing that could not be one."""
    hash(tuple(key))
    return key


def _together(ticks: list[Tick]) -> Tick:
    spent: dict[int, float] = {}
    steps: dict[int, int] = {}
    for tick in ticks:
        for node, seconds in tick.spent.items():
            spent[node] = spent.get(node, 0.0) + seconds
        for root, count in tick.steps.items():
            steps[root] = steps.get(root, 0) + count
    return Tick(ticks[-1].seconds, spent, steps)
