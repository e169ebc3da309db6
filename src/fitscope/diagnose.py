"""From an account to findings: dearest first, and the seconds of overlapping causes counted once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from fitscope import words
from fitscope.model import Account, Finding, FitscopeError, Report, Run, Speedup
from fitscope.rules import CATALOG
from fitscope.rules.case import FOREIGN_CORES, LEAST, Case
from fitscope.rules.compiling import MUCH_COMPILING, first_compiling
from fitscope.rules.rule import Cause, Rule
from fitscope.source import Script
from fitscope.store import layers_of
from fitscope.trace.read import of_run

FEW_SECONDS = 1.0
FEW_STEPS = 10
"""Less training than this is too little to judge by."""
MOSTLY = 0.5
"""The share of a short training that goes to compiling, from which on little can be said of the rest."""


def diagnose(run: Run, account: Account) -> Report:
    """What a run says, findings and all."""
    layers = layers_of(run)
    case = Case(run, account, _reader(run), layers)
    trace, problem = of_run(run)
    doubts = (*_doubts(case), *([problem] if problem else []))
    if case.seconds < FEW_SECONDS:
        return Report(run, account, (), doubts, trace, layers)
    found: list[tuple[Rule, Cause]] = []
    for rule in CATALOG:
        try:
            found += [(rule, cause) for cause in rule.diagnose(case)]
        except Exception as error:  # a mistake in one rule must not cost the user the report
            doubts += (f"{rule.name} could not be judged ({type(error).__name__}: {error}): a mistake in fitscope.",)
    shared = _share_seconds(case, found)
    shared.sort(key=lambda pair: -sum(pair[1]))
    room, others = case.seconds, sum(low for _, (low, _) in shared)
    findings = []
    for (rule, cause), (low, high) in shared:
        others -= low  # what the next ones save at the least is theirs
        high = min(high, max(low, room - others), room)
        low = min(low, high)
        room -= high
        findings.append(_finding(case, rule, cause, low, high))
    return Report(run, account, tuple(_with_proof(run, finding) for finding in findings), doubts, trace, layers)


def _with_proof(run: Run, finding: Finding) -> Finding:
    """What an experiment has shown of a finding since the run was recorded; the last one holds."""
    for fact in reversed(run.facts):
        if fact["fact"] == "proof" and fact["finding"] == key_of(finding):
            verified = None if fact["low"] is None else Speedup(fact["low"], fact["high"])
            return replace(finding, verified=verified, proof=fact["says"])
    return finding


def key_of(finding: Finding) -> list[Any]:
    """What a finding is found again by, in another diagnosis of the same run."""
    where = finding.where
    return [finding.name, where.file if where is not None else "", where.line if where is not None else 0]


def _share_seconds(
    case: Case, found: list[tuple[Rule, Cause]]
) -> list[tuple[tuple[Rule, Cause], tuple[float, float]]]:
    """Of causes that explain the same parts the narrowest has the seconds; a second one what that may leave."""
    taken: dict[str, list[tuple[float, float]]] = {}
    common: dict[str, float] = {}
    shared: list[tuple[tuple[Rule, Cause], tuple[float, float]]] = []
    for rule, cause in sorted(found, key=_rank):
        if not case.matters(cause.saves[1], LEAST) and not rule.states_a_fact:
            continue
        before = max((taken.get(claim, []) for claim in cause.claims), key=len, default=[])
        saves = cause.saves
        if before:
            rest = max(0.0, before[0][1] - before[0][0])
            saves = (0.0, min(saves[1], rest))
            if len(before) > 1 or not case.matters(saves[1], LEAST) or rule.fallback:
                continue
        twice = sum(min(seconds, common.get(part, 0.0)) for part, seconds in cause.shares.items())
        if twice:
            saves = (max(0.0, saves[0] - twice), max(0.0, saves[1] - twice))
            if not case.matters(saves[1], LEAST):
                continue
        for part, seconds in cause.shares.items():
            common[part] = max(seconds, common.get(part, 0.0))
        for claim in cause.claims:
            taken.setdefault(claim, []).append(saves)
        shared.append(((rule, cause), saves))
    return shared


def _rank(found: tuple[Rule, Cause]) -> int:
    rule, cause = found
    return rule.rank if cause.rank is None else cause.rank


def _finding(case: Case, rule: Rule, cause: Cause, low: float, high: float) -> Finding:
    whole = case.seconds
    estimated = None
    if high > 0:
        estimated = Speedup(whole / max(0.01 * whole, whole - low), whole / max(0.01 * whole, whole - high))
    return Finding(
        code=rule.code,
        name=rule.name,
        family=rule.family,
        says=cause.says,
        where=cause.where,
        evidence=cause.evidence,
        estimated=estimated,
        remedy=cause.remedy,
        fixable=rule.fixable,
        removal=cause.removal,
    )


def _doubts(case: Case) -> Iterable[str]:
    steps = sum(region.steps for region in case.account.regions)
    if case.account.regions and case.seconds < FEW_SECONDS:
        yield f"{words.seconds(case.seconds)} of training are too little to find a cause in."
    elif case.account.regions and steps < FEW_STEPS:
        yield f"Only {words.count(steps, 'step')} were seen: a longer run would say more."
    elif case.matters(compiled := first_compiling(case), MOSTLY) and compiled < MUCH_COMPILING:
        part = words.share(compiled / case.seconds)
        yield f"{part} of this training was compiling, which happens once: a longer run would say more of the rest."
    if case.foreign_cores >= FOREIGN_CORES:
        busy = f"{case.foreign_cores:.1f} processors"
        yield f"Other programs used {busy} meanwhile: times may be longer than they need be."


def _reader(run: Run) -> Callable[[str], Script | None]:
    """Reads the user's source files, those that have not changed since the run began."""

    @cache
    def read(file: str) -> Script | None:
        path = Path(run.cwd, file)
        try:
            if not path.is_file() or path.stat().st_mtime > run.started:
                return None
            return Script.parse(str(path), path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError, FitscopeError):
            return None

    return read
