"""Causes in the input that lie in what is read: too slowly, or too much of it."""

from __future__ import annotations

import ast
import re

from fitscope import words
from fitscope.model import Evidence, Line, Where
from fitscope.rules.case import Case, Input, share
from fitscope.rules.input import InputRule, line_of, map_of
from fitscope.rules.rule import Cause, example
from fitscope.source import Script

MANY_READERS = 8
"""What so many read at once is not called slow: reading side by side is the remedy."""
READS = re.compile(
    r"\b(np|numpy)\.(load|fromfile|memmap|loadtxt|genfromtxt)\b|h5py|\bimread\b|Image\.open|read_(bytes|csv)"
)
PARSES = re.compile(r"\b(csv|json|pd|pandas|pickle|yaml)\b")
"""What is spent in the code of these is not spent on bytes."""
PLAIN_READS = re.compile(
    r"\bopen\s*\(|\.(read|readinto|readlines?|read_bytes|read_text|recv|recv_into|recvfrom)\s*\("
)
"""Reading that Python's own C code does: a look finds the line that asks for it, and no library."""
READING_REMEDY = (
    "Read several at once, pack small files into a few large ones, copy them to a local disk, or read only what is "
    'used of them (np.load(…, mmap_mode="r")).'
)
PARTS_REMEDY = (
    "A row of an array that is stored in compressed chunks costs its whole chunk: read rows that lie together by one "
    "slice, store chunks of one row (chunks=(1, …)), or copy the array to an .npy file and map it "
    '(np.load(…, mmap_mode="r")).'
)
PARTS_REMAIN = 0.03
"""What is left of the wait for rows that no longer cost their chunk."""
READERS = ("TFRecord", "TextLine", "FixedLengthRecord", "Interleave", "ParallelInterleave")


class SlowStorage(InputRule):
    """The input waits for a disk or for a network.

    Many small files, a bucket far away, a disk that turns: the loading code stands still while the bytes come.

    fitscope says so when the training waits for data, and what reads does not compute: a Python function that
    was found waiting in network or file code, or a reading stage of tf.data that takes the longest. Whole files read
    again and again, on a line such as `np.load(…)`, and parts of arrays in files, `file["x"][row]`, are named even if
    they come from memory.

    Change: read several files at once (`interleave(…, num_parallel_calls=16)`), pack small files into a few
    large ones, copy them to a local disk first, or read only what is used (`np.load(…, mmap_mode="r")`). A single row
    of an HDF5 array that is stored in compressed chunks costs its whole chunk: read neighbors by one slice, or store
    chunks of one row.
    """

    code = "FS109"
    name = "slow-storage"
    rank = 48
    fixable = True
    examples = (example("slow-storage", line="with urllib.request.urlopen(address)"),)

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """Reading that does not compute, or that takes single rows out of an array in a file."""
        function, slowest, line = data.function, data.slowest, data.hot_line
        parts = line is not None and line.share >= 0.5 and data.computes and _reads_part(case, line)
        remaining = PARTS_REMAIN if parts else 0.25
        remedy = PARTS_REMEDY if parts else READING_REMEDY
        if function is not None and (not data.computes or _reads_files(case, data)):
            read = data.doing("network") + data.doing("files") + _reads_plainly(case, data)
            at_once = max(int(map_of(data).get("parallel") or 1), function.parallelism, data.workers)
            if read < 0.5 or at_once >= MANY_READERS:
                return None
            where, what = (line.where if line is not None else function.where), function.name
            evidence = (*data.evidence(), share("of the looks found it in network or file code", read))
        elif data.generates and slowest is not None and data.doing("network") + data.doing("files") >= 0.5:
            where, what = (line.where if line is not None else slowest.where), "a generator"
            evidence = data.evidence()
        elif function is None and slowest is not None and slowest.name in READERS:
            if data.written(slowest).get("parallel") is not None:
                return None  # several are read at once as it is
            where, what, evidence = slowest.where, slowest.name, data.evidence()
        else:
            return None
        return Cause(
            says=f"The training waits for bytes to be read: {what}.",
            where=where,
            evidence=evidence,
            saves=case.saves(data.saved(remaining)),
            remedy=remedy,
            claims=data.claims,
            shares=data.shares,
        )


def _reads_plainly(case: Case, data: Input) -> float:
    """The share of looks that found the loading code on a line that reads by itself, without a library."""
    lines = data.looked_at
    reading = [line for line in lines if not line.doing and PLAIN_READS.search(case.line(line.where))]
    return sum(line.samples for line in reading) / max(1, sum(line.samples for line in lines))


def _reads_files(case: Case, data: Input) -> bool:
    """Whether the hot line of a loader opens or reads a file: from memory that, too, is work of a processor."""
    line = data.hot_line
    if line is None or line.share < 0.5 or line.doing != "files":
        return False
    return bool(READS.search(case.line(line.where))) or _reads_part(case, line)


def _reads_part(case: Case, line: Line) -> bool:
    """Whether a line takes a part of an array that is in a file, as HDF5's are: `file["x"][row]`."""
    script, number = case.script_of(line.where.file), line.where.line
    if script is None or line.doing != "files" or PARSES.search(script.line(number)):
        return False
    there = [node for node in script.parents if isinstance(node, ast.Subscript) and node.lineno == number]
    read = any(isinstance(node.ctx, ast.Load) and _is_of_array(script, node) for node in there)
    return read and not READS.search(script.line(number))


def _is_of_array(script: Script, node: ast.Subscript) -> bool:
    """Whether a subscript takes a part of something that has a name, and not a path that a function is given."""
    of: ast.expr = node
    while isinstance(of, ast.Subscript):
        of = of.value
    child: ast.AST = node
    for parent in script.ancestors(node):
        if (
            isinstance(parent, ast.Call)
            and child is not parent.func
            and not script.called(parent).startswith("numpy.")
        ):
            return False
        child = parent
    return isinstance(of, ast.Name | ast.Attribute)


class OversizedRecords(InputRule):
    """Much is read and decoded of which little is used.

    Reading a whole scan to cut a small window out of it costs the whole scan.

    fitscope says so when the training waits for data and the elements of a map before the batching, or what its
    function decodes to cut a window out of it, are at least eight times as large as what the model gets; or when most
    looks at a loading function found it in `np.load`, and nothing but windows are cut out of what that reads, or
    single rows of an array in an `.npz` archive.

    Change: store what is used (tiles instead of scans), decode only the window
    (`tf.image.decode_and_crop_jpeg`, `np.load(…, mmap_mode="r")`), or cache the decoded records.
    """

    code = "FS111"
    name = "oversized-records"
    rank = 22
    fixable = True
    examples = (
        example(
            "oversized-records",
            line="data = tf.data.Dataset.from_tensor_slices(scans).map(parse)",
            backends=("tensorflow",),
        ),
        example("oversized-records", 1, line="recording = np.load("),
        example("oversized-records", 2, line="data = tf.data.Dataset.from", backends=("tensorflow",)),
    )

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A stage whose elements are far larger than what is used of them, or a function that reads such files."""
        line = data.hot_line
        if data.function is not None and line is not None and line.share >= 0.5 and _cuts_out(case, line.where):
            return Cause(
                says=f"Whole files are read of which only a window is used: {data.function.name}.",
                where=line.where,
                evidence=(*data.evidence(), share("of the looks found it reading them", line.share)),
                saves=case.saves(data.saved(1 - 0.95 * line.share)),
                remedy='Read the window only (np.load(…, mmap_mode="r") of an .npy file), or store what is used.',
                claims=data.claims,
                shares=data.shares,
            )
        kinds = [stage["kind"] for stage in data.pipeline]
        end = kinds.index("batch") if "batch" in kinds else len(kinds)
        maps = [stage for stage in data.pipeline[:end] if stage["kind"] == "map"]
        before = [(max(stage.get("bytes") or 0, stage.get("cut") or 0), stage) for stage in maps]
        used = (data.pipeline[end - 1].get("bytes") or 0) if end else 0
        if data.function is not None or not before or not used:
            return None
        size, stage = max(before, key=lambda pair: pair[0])
        if size < 8 * used or any(each["kind"] == "cache" for each in data.pipeline):
            return None
        return Cause(
            says=f"{words.size(size)} are read and decoded for every {words.size(used)} that the model gets.",
            where=line_of(stage),
            evidence=(*data.evidence(), Evidence("read for what is used", size / used, "times")),
            saves=case.saves(data.saved(0.03)),
            remedy="Store tiles of the size that is used, decode only the window, or cache the decoded records.",
            claims=data.claims,
            shares=data.shares,
        )


def _cuts_out(case: Case, where: Where) -> bool:
    """Whether a line reads a whole array from a file, of which its function then uses windows only."""
    script = case.script_of(where.file)
    if script is None:
        return False
    for function in script.functions:
        if any(_takes_part(script, node, function) for node in ast.walk(function) if _is_at(node, where.line)):
            return True
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign) or not node.lineno <= where.line <= (node.end_lineno or node.lineno):
                continue
            target, call = node.targets[0], node.value
            if not isinstance(target, ast.Name) or not isinstance(call, ast.Call):
                continue
            if script.called(call) != "numpy.load" or script.argument(call, "mmap_mode", 1) is not None:
                continue
            uses = [each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == target.id]
            read = [script.parents.get(each) for each in uses if isinstance(each.ctx, ast.Load)]
            windows = (isinstance(each, ast.Subscript) and _is_window(script, each.slice) for each in read)
            return bool(read) and all(windows)
    return False


def _is_at(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.Subscript) and node.lineno <= line <= (node.end_lineno or node.lineno)


def _takes_part(script: Script, node: ast.AST, function: ast.AST) -> bool:
    """`archive["scans"][k]` of an `np.load`: the array is read and decompressed as a whole, for one row of it."""
    inner = node.value if isinstance(node, ast.Subscript) else None
    if not isinstance(node, ast.Subscript) or not isinstance(inner, ast.Subscript):
        return False
    archive = inner.value.id if isinstance(inner.value, ast.Name) else None
    if archive is None or not _is_archive(script, archive, function):
        return False
    line = [each for each in ast.walk(function) if isinstance(each, ast.Subscript) and each.lineno == node.lineno]
    read = [each for each in line if isinstance(each.value, ast.Name) and each.value.id == archive]
    outer = [script.parents.get(each) for each in read]
    named = all(isinstance(script.literal(each.slice), str) for each in read)
    return named and all(isinstance(each, ast.Subscript) and _is_part(script, each.slice) for each in outer)


def _is_archive(script: Script, name: str, function: ast.AST) -> bool:
    """Whether a name stands for the file that an `np.load` opens, not mapped into memory."""
    for each in ast.walk(function):
        made: ast.expr | None = None
        if isinstance(each, ast.withitem) and isinstance(each.optional_vars, ast.Name):
            made = each.context_expr if each.optional_vars.id == name else None
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            made = each.value if each.targets[0].id == name else None
        if isinstance(made, ast.Call) and script.called(made) == "numpy.load":
            return script.argument(made, "mmap_mode", 1) is None
    return False


def _is_part(script: Script, index: ast.expr) -> bool:
    """`[3]`, `[k]` of a parameter or a loop, `[a:b]`; not `[None]`, `[:-1]`, `[order]`, which take all or most."""
    for part in index.elts if isinstance(index, ast.Tuple) else [index]:
        number = type(script.literal(part)) is int
        counts = isinstance(part, ast.Name) and not script.values(part)
        if number or counts:
            return True
    return _is_window(script, index)


def _is_window(script: Script, index: ast.expr) -> bool:
    """`[a:b]` or `[a:b, c:]`, also as a `slice(a, b)` with a name of its own; not `[1:]`, which takes most, and not
    `[k]`, which may be a name in an archive."""
    for part in index.elts if isinstance(index, ast.Tuple) else [index]:
        named = script.values(part) or [part]
        bounds = [
            [each.lower, each.upper] if isinstance(each, ast.Slice) else _bounds(script, each) for each in named
        ]
        if all(len(ends) >= 2 and None not in ends for ends in bounds):
            return True
    return False


def _bounds(script: Script, made: ast.expr) -> list[ast.expr | None]:
    """Where a `slice(a, b)` begins and ends, as far as it says so."""
    if not isinstance(made, ast.Call) or script.called(made) != "slice":
        return []
    return [None if isinstance(end, ast.Constant) and end.value is None else end for end in made.args[:2]]


RULES = (SlowStorage(), OversizedRecords())
