"""The catalog: every cause that fitscope knows, one rule each, in the order of their codes."""

from __future__ import annotations

from fitscope.rules import callbacks, evaluation, execution, hardware, input, model
from fitscope.rules.rule import Rule

CATALOG: tuple[Rule, ...] = (
    *input.RULES,
    *callbacks.RULES,
    *execution.RULES,
    *model.RULES,
    *evaluation.RULES,
    *hardware.RULES,
)


def find(name: str) -> Rule | None:
    """The rule of a name or a code."""
    wanted = name.strip().lower()
    return next((rule for rule in CATALOG if wanted in (rule.name, rule.code.lower())), None)
