"""The run file as it is written: JSON lines, appended whole, readable up to the last one after a kill.

The first line is the header. `define` lines give names to ids; tick lines carry the new cumulative values of
the rows that changed. A reader can stop anywhere: the last value of a row is its value.
"""

from __future__ import annotations

import base64
import json
import os
import time
import zlib
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fitscope.model import SCHEMA
from fitscope.observe.ledger import clock

if TYPE_CHECKING:
    from fitscope.observe.recorder import Fresh, Mark, Recorder

FOLDER = ".fitscope"
MOST_STEPS = 4_000_000
"""Past this many steps only every so-many-th step duration is kept: the file stays below 20 MB."""


class Sink:
    """One run file that is being written."""

    def __init__(self, path: Path, header: dict[str, Any], spare: Path, *, whole: bool = False) -> None:
        """`spare` is written when `path` cannot be.

        `whole`: the recording of a whole process, with all facts since its start; a file that exists already
        belongs to another process of the same job.
        """
        self.path = path
        self.problem: str | None = None
        self._header = {"fitscope_run": SCHEMA, **header}
        self._spare: Path | None = spare
        self._began = clock() - int((time.time() - header["started"]) * 1e9)
        self._base: dict[str, list[list[int]]] = {}
        self._last: dict[str, list[list[int]]] = {}
        self._first_fact = 0
        self._lasting: list[dict[str, Any]] = []
        self._facts = 0
        self._steps: dict[int, int] = {}
        self._marked: dict[int, dict[str, int]] = {}
        self._file = -1
        self._whole = whole
        self._open(os.O_EXCL if whole else os.O_TRUNC)

    def start_from(self, recorder: Recorder) -> None:
        """What was measured before this sink was opened is not part of its run."""
        self._base = {} if self._whole else _rows(recorder)
        self._first_fact = 0 if self._whole else len(recorder.facts)
        self._lasting = [] if self._whole else list(recorder.lasting.values())
        self._forget()

    def write(self, recorder: Recorder, fresh: Fresh) -> None:
        """Appends definitions of new ids, facts, and the rows that changed; all of it anew in a spare file."""
        path = self.path
        self._write(recorder, fresh)
        if self.path != path:
            self._forget()
            self._write(recorder, fresh)

    def _forget(self) -> None:
        """Nothing has been written yet: everything is, the next time."""
        self._last = {table: [list(row) for row in rows] for table, rows in self._base.items()}
        self._facts = 0
        self._marked = {}

    def _write(self, recorder: Recorder, fresh: Fresh) -> None:
        definitions: list[dict[str, Any]] = []
        tick: dict[str, Any] = {}
        now = _rows(recorder)
        keys = _keys(recorder)
        for table, rows in now.items():
            last = self._last.setdefault(table, [])
            base = self._base.setdefault(table, [])
            changed: dict[str, list[int]] = {}
            for index, row in enumerate(rows):
                if index >= len(last):
                    last.append([0] * len(row))
                if row == last[index]:
                    continue
                zero = base[index] if index < len(base) else [0] * len(row)
                if last[index] == zero:
                    key = list(keys[table](index))
                    definitions += self._ancestors(recorder, table, index)
                    definitions.append({"define": table, "id": index, "key": key})
                changed[str(index)] = [a - b for a, b in zip(row, zero, strict=True)]
                last[index] = list(row)
            if changed:
                tick[table] = changed
        steps = {str(root): self._pack(root, taken) for root, taken in fresh.durations.items()}
        if steps:
            tick["steps"] = {root: packed for root, packed in steps.items() if packed}
        for definition in definitions:
            self.line(definition)
        facts = self._lasting + recorder.facts[self._first_fact :]
        for fact in facts[self._facts :]:
            self.line(fact)
        self._facts = len(facts)
        for root, marks in fresh.marks.items():
            below = _below(recorder, root)
            for mark in marks:
                self._mark(root, mark, below)
        if tick:
            self.line({"t": self.age(), **tick})

    def _mark(self, root: int, mark: Mark, below: list[int]) -> None:
        """The end of an epoch, with the nodes of its region that own more than at the mark before."""
        nodes, regions = self._base.get("node", []), self._base.get("region", [])
        _, steps, epochs = regions[root] if root < len(regions) else (0, 0, 0)
        if mark.epochs <= epochs:
            return  # it ended before this sink was opened
        spent = {
            str(node): mark.spent[node] - (nodes[node][0] if node < len(nodes) else 0)
            for node in below
            if node < len(mark.spent)
        }
        known = self._marked.setdefault(root, {})
        changed = {node: value for node, value in spent.items() if value != known.get(node, 0)}
        known.update(changed)
        self.line(
            {
                "epoch": mark.epochs - epochs,
                "root": root,
                "t": self._age(mark.instant),
                "steps": mark.steps - steps,
                "spent": changed,
            }
        )

    def age(self) -> float:
        """Seconds since the sink was opened."""
        return self._age(clock())

    def _age(self, instant: int) -> float:
        return round((instant - self._began) / 1e9, 3)

    def line(self, value: dict[str, Any]) -> None:
        """Appends one line; a disk that is full stops the recording there, never the training."""
        if self._file < 0:
            return
        data = json.dumps(value, separators=(",", ":"), default=str).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Nothing more is written."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _ancestors(self, recorder: Recorder, table: str, index: int) -> list[dict[str, Any]]:
        """A node may own no time itself and yet stand between the root and one that does."""
        if table != "node":
            return []
        path = recorder.tree.path(index)[:-1]
        return [{"define": "node", "id": node, "key": _node_key(recorder, node)} for node in path]

    def _pack(self, root: int, durations: list[int]) -> str:
        """Step durations in units of 100 ns, as base64 of compressed 32-bit integers."""
        seen = self._steps.get(root, 0)
        self._steps[root] = seen + len(durations)
        stride = 1 + seen // MOST_STEPS * 99
        values = array("I", (min(duration // 100, 0xFFFFFFFF) for duration in durations[::stride]))
        return base64.b64encode(zlib.compress(values.tobytes(), 1)).decode()

    def _open(self, flag: int) -> None:
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        try:
            make_folder(self.path.parent)
            if self.path.exists() and not self.path.is_file():
                flag = 0  # a device: nobody else's run
            self._file = os.open(self.path, flags | flag, 0o644)
        except OSError as error:
            if flag == os.O_EXCL and isinstance(error, FileExistsError) and self.path.is_file():
                self.path = self.path.with_suffix(f".{os.getpid()}.run")  # another process of this job has it
                self._open(os.O_TRUNC)
            else:
                self._give_up(error)
            return
        self.line(self._header)

    def _give_up(self, error: OSError) -> None:
        """Goes on in the spare file, from the start: what is written is cumulative, so little is lost."""
        self.close()
        reason = error.strerror or error
        if self._spare is None:
            self.problem = f"cannot write the run: {reason}; nothing more is recorded"
            return
        self.problem = f"cannot write {self.path} ({reason}); the run is in {self._spare}"
        self.path, self._spare = self._spare, None
        self._forget()
        self._open(os.O_TRUNC)


def make_folder(folder: Path) -> None:
    """Makes the folder of a run; the one that fitscope itself chooses is nothing for a repository."""
    folder.mkdir(parents=True, exist_ok=True)
    if folder.name == FOLDER and not (folder / ".gitignore").exists():
        (folder / ".gitignore").write_text("*\n")


def _rows(recorder: Recorder) -> dict[str, list[list[int]]]:
    """All cumulative values now, the time of nodes that are open included."""
    tree = recorder.tree
    count = len(tree.nodes)
    nodes = [list(pair) for pair in zip(tree.spent[:count], tree.counts[:count], strict=True)]
    for ledger in list(recorder.ledgers.values()):
        since, node = ledger.since, ledger.node
        if node < count:
            nodes[node][0] += max(0, clock() - since)
    for index in range(count):
        if tree.nodes[index].phase == "outside":
            nodes[index] = [0, 0]
    regions = [[0, 0, 0] for _ in range(count)]
    for root, region in list(recorder.regions.items()):
        if root < count:
            regions[root] = [region.calls, region.steps, region.epochs]
    return {
        "node": nodes,
        "region": regions,
        "stage": [list(row) for row in recorder.stages.rows],
        "compile": [list(row) for row in recorder.compiles.rows],
        "inside": [list(row) for row in recorder.inside.rows],
        "first_waits": [list(row) for row in recorder.first_waits.rows],
        "lines": [list(row) for row in recorder.lines.rows],
        "beside": [list(row) for row in recorder.beside.rows],
        "unseparated": [list(row) for row in recorder.unseparated.rows],
        "own": [list(row) for row in recorder.own.rows],
    }


def _keys(recorder: Recorder) -> dict[str, Any]:
    return {
        "node": lambda index: _node_key(recorder, index),
        "region": lambda index: [index],
        "stage": recorder.stages.keys.__getitem__,
        "compile": recorder.compiles.keys.__getitem__,
        "inside": recorder.inside.keys.__getitem__,
        "first_waits": recorder.first_waits.keys.__getitem__,
        "lines": recorder.lines.keys.__getitem__,
        "beside": recorder.beside.keys.__getitem__,
        "unseparated": recorder.unseparated.keys.__getitem__,
        "own": recorder.own.keys.__getitem__,
    }


def _below(recorder: Recorder, root: int) -> list[int]:
    """The region's node and all below it; a node is always made after the one above it."""
    found = {root}
    for index, node in enumerate(recorder.tree.nodes):
        if node.parent in found:
            found.add(index)
    return sorted(found)


def _node_key(recorder: Recorder, index: int) -> list[Any]:
    node = recorder.tree.nodes[index]
    file, line = node.where or (None, None)
    return [node.parent, node.phase, node.name, file, line, node.thread]
