"""What is wrong, how it is shown, and the edits that remove it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fitscope.model.run import Where


@dataclass(frozen=True)
class Evidence:
    """One number of this run that a finding rests on; the unit is share, seconds, count, times or bytes."""

    what: str
    value: float
    unit: str


@dataclass(frozen=True)
class Speedup:
    """How many times faster the whole training is, as an interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Removal:
    """How an experiment takes a cause away in every other stretch of a training, and leaves the rest as it is."""

    kind: str
    """hooks, saving, validation, replay, settings, tune or wrapped: what is below observe/removals."""
    does: str
    """What is different without the cause, in words."""
    where: Where | None
    """The fit that it is done to."""
    by: str = "epochs"
    """What a stretch consists of: steps, or whole epochs."""
    arguments: dict[str, Any] = field(default_factory=dict)
    bound: bool = False
    """Whether no remedy could gain more than this: the input is free."""


@dataclass(frozen=True)
class Patch:
    """The edit that removes a cause, as a unified diff."""

    diff: str
    unsafe: str = ""
    """What may be different afterwards; empty if the batches and the losses stay equal."""


@dataclass(frozen=True)
class Finding:
    """A cause of slow training: measured in a run, or read from the source alone (then without evidence)."""

    code: str
    name: str
    family: str
    says: str
    where: Where | None
    evidence: tuple[Evidence, ...]
    estimated: Speedup | None
    remedy: str
    fixable: bool = False
    verified: Speedup | None = None
    """What an experiment showed; where it holds 1, the cause was not confirmed."""
    proof: str = ""
    """How it was shown, or why an experiment could not say."""
    patch: Patch | None = None
    removal: Removal | None = field(repr=False, default=None)
    """How an experiment can take the cause away, where that is possible inside the training."""


@dataclass(frozen=True)
class Replacement:
    """A piece of a file's text, from one character up to another, and what is to stand there instead.

    Characters are counted in the text as the rules read it: without a byte order mark, and every line ended by one
    newline.
    """

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Around:
    """A remedy of fitscope's around a callback of some class."""

    callback: str
    remedy: str
    """Background or Every."""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Edit:
    """What to change in one file to remove the cause of a finding."""

    finding: Finding
    file: str
    replacements: tuple[Replacement, ...]
    does: str
    unsafe: str = ""
    """What may be different afterwards; empty if the batches and the losses stay equal."""
    imports: tuple[str, ...] = ()
    """Lines that the file needs among its imports."""
    around: Around | None = None
    """What it puts around a callback."""

    @property
    def safe(self) -> bool:
        """Whether the training stays the same: equal batches and, at a fixed seed, equal losses."""
        return not self.unsafe


@dataclass(frozen=True)
class Advice:
    """A finding without an edit, and why there is none."""

    finding: Finding
    why: str
