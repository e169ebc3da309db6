"""The catalog: every cause that fitscope knows, one rule each, in the order of their codes."""

from __future__ import annotations

from fitscope.rules import (
    callbacks,
    compiling,
    eager,
    evaluation,
    execution,
    hardware,
    input,
    keeping,
    layers,
    loading,
    loops,
    model,
    needless,
    reading,
    saving,
    tfdata,
    workers,
)
from fitscope.rules.rule import Rule

_ALL: tuple[Rule, ...] = (
    *input.RULES,
    *tfdata.RULES,
    *loading.RULES,
    *workers.RULES,
    *keeping.RULES,
    *reading.RULES,
    *callbacks.RULES,
    *saving.RULES,
    *execution.RULES,
    *compiling.RULES,
    *eager.RULES,
    *model.RULES,
    *loops.RULES,
    *layers.RULES,
    *needless.RULES,
    *evaluation.RULES,
    *hardware.RULES,
)
CATALOG: tuple[Rule, ...] = tuple(sorted(_ALL, key=lambda rule: rule.code))


def find(name: str) -> Rule | None:
    """The rule of a name or a code."""
    wanted = name.strip().lower()
    return next((rule for rule in CATALOG if wanted in (rule.name, rule.code.lower())), None)
