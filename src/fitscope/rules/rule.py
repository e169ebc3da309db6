"""What a rule is: one cause of slow training, how it is seen, and a script with it and one without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fitscope.model import Evidence, Removal, Where

if TYPE_CHECKING:
    from fitscope.rules.case import Case
    from fitscope.source import Script

FAMILIES = ("input", "callbacks", "execution", "model", "evaluation", "hardware")
BACKENDS = ("tensorflow", "jax", "torch")


@dataclass(frozen=True)
class Cause:
    """What a rule found in a run: whose seconds they are, and how many of them the remedy gives back."""

    says: str
    where: Where | None
    evidence: tuple[Evidence, ...]
    saves: tuple[float, float]
    """Seconds of the recorded training that go away: at least, and at most."""
    remedy: str
    claims: frozenset[str] = frozenset()
    """The parts whose time this explains."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Seconds of it that lie in parts which other causes explain, too: they are counted once."""
    rank: int | None = None
    """In place of the rule's own rank."""
    removal: Removal | None = None
    """How an experiment takes the cause away; without one, only an edited script can show what it costs."""


@dataclass(frozen=True)
class Hit:
    """What a rule found in the source alone."""

    line: int
    says: str
    remedy: str = ""


@dataclass(frozen=True)
class Example:
    """A training with the cause and the same one without it, as scripts that run on these backends."""

    slow: str
    fast: str
    backends: tuple[str, ...] = BACKENDS
    line: str = ""
    """The text of the line that the finding is about; empty where it has none."""
    estimable: bool = True
    """Whether fast over slow is the gain that the finding estimates."""


EXAMPLES = Path(__file__).parent / "examples"


def example(cause: str, number: int = 0, **more: Any) -> Example:
    """The scripts `slow.py` and `fast.py` in the folder of a cause (`slow_1.py` …, if it has several examples)."""
    tail = f"_{number}" if number else ""
    slow, fast = (EXAMPLES / cause / f"{kind}{tail}.py" for kind in ("slow", "fast"))
    return Example(slow.read_text(encoding="utf-8"), fast.read_text(encoding="utf-8"), **more)


class Rule:
    """One cause. The docstring of a rule is its page in the manual; its first line says what is wrong."""

    code: ClassVar[str]
    name: ClassVar[str]
    family: ClassVar[str]
    fixable: ClassVar[bool] = False
    rank: ClassVar[int] = 50
    """Of causes that explain the same seconds the one of the lowest rank has them: the narrowest."""
    states_a_fact: ClassVar[bool] = False
    """Said without anything to gain: a fact about the run, not a fault."""
    fallback: ClassVar[bool] = False
    """Said only where nothing narrower explains the seconds."""
    examples: ClassVar[tuple[Example, ...]] = ()

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """What a run shows of this cause."""
        return ()

    def lint(self, script: Script) -> Iterable[Hit]:
        """What the source alone shows of this cause."""
        return ()
