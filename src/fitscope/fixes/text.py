"""A source file exactly as it is on disk, and as it is with changes made to it."""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from fitscope.model import FitscopeError, Replacement
from fitscope.source import Script

MARK = "\ufeff"


@dataclass(frozen=True)
class Text:
    """The text of a file, with its encoding and its line ends, and the script in it."""

    path: Path
    name: str
    """The path as it is shown: relative to the working folder where it is below it."""
    raw: str
    encoding: str
    script: Script

    @classmethod
    def read(cls, path: Path, name: str) -> Text:
        """Reads a file; raises FitscopeError where it cannot be read or is no Python."""
        try:
            content = path.read_bytes()
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            # The byte order mark is kept as a character: it has to be written again.
            encoding = "utf-8" if encoding == "utf-8-sig" else encoding
            raw = content.decode(encoding)
        except OSError as error:
            raise FitscopeError(f"{name} cannot be read: {(error.strerror or str(error)).lower()}.") from None
        except (SyntaxError, UnicodeDecodeError) as error:
            raise FitscopeError(f"{name} cannot be read: {error}.") from None
        return cls.of(path, name, raw, encoding)

    @classmethod
    def of(cls, path: Path, name: str, raw: str, encoding: str = "utf-8") -> Text:
        """A text that need not be on disk."""
        try:
            return cls(path, name, raw, encoding, Script.parse(name, raw))
        except FitscopeError as error:
            raise FitscopeError(f"{name}: {error}.") from None

    # --- places --------------------------------------------------------------------------------------------

    def start(self, node: ast.AST) -> int:
        """Where a node begins, in characters of the script's text."""
        return self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        """Where a node ends."""
        return self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def line_start(self, number: int) -> int:
        """Where a line begins, counted from 1."""
        return self._starts[number - 1]

    def _offset(self, line: int, column: int) -> int:
        # Python counts columns in bytes of UTF-8.
        text = self.script.lines[line - 1]
        if not text.isascii():
            column = len(text.encode()[:column].decode())
        return self._starts[line - 1] + column

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self.script.lines)]

    # --- changes -------------------------------------------------------------------------------------------

    @cached_property
    def newline(self) -> str:
        """The line end that most lines have."""
        found = re.findall(r"\r\n|\r|\n", self.raw)
        return max(("\n", "\r\n", "\r"), key=found.count)

    def changed(self, changes: Iterable[Replacement]) -> Text:
        """The text with changes made, all else as it was; raises FitscopeError if it is no Python then."""
        raw = self.raw
        ordered = sorted(enumerate(changes), key=lambda each: (each[1].start, each[1].end, each[0]))
        for _, change in reversed(ordered):
            first, last = self._in_raw(change.start), self._in_raw(change.end)
            raw = raw[:first] + change.text.replace("\n", self.newline) + raw[last:]
        return Text.of(self.path, self.name, raw, self.encoding)

    def _in_raw(self, offset: int) -> int:
        """Where a character of the script's text is in the file's."""
        low, high = 0, len(self._starts) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._starts[middle] <= offset else (low, middle)
        return self._raw_starts[low] + offset - self._starts[low]

    @cached_property
    def _raw_starts(self) -> list[int]:
        first = len(MARK) if self.raw.startswith(MARK) else 0
        return [first, *(found.end() for found in re.finditer(r"\r\n|\r|\n", self.raw))]

    def encoded(self) -> bytes:
        """The file's bytes."""
        return self.raw.encode(self.encoding)

    def diff(self, other: Text) -> bytes:
        """The unified diff to another version of this file, as `patch -p1` and `git apply` read it."""
        before, after = (f"{side}/{self.name}" for side in "ab")
        if self.path.is_absolute() and Path(self.name).is_absolute():
            before = after = self.name
        lines: list[str] = []
        for line in difflib.unified_diff(_lines(self.raw), _lines(other.raw), before, after):
            lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
        return "".join(lines).encode(self.encoding)


def _lines(raw: str) -> list[str]:
    """As diff and patch count lines: by newlines alone."""
    return re.findall(r"[^\n]*\n|[^\n]+$", raw)
