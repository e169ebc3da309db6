"""All that is said of a run."""

from __future__ import annotations

from dataclasses import dataclass

from fitscope.model.account import Account
from fitscope.model.finding import Finding
from fitscope.model.layers import LayerAccount
from fitscope.model.run import Run
from fitscope.model.timeline import Timeline


@dataclass(frozen=True)
class Report:
    """All that is said of a run: where the time went, what is wrong, and what makes that uncertain."""

    run: Run
    account: Account
    findings: tuple[Finding, ...] = ()
    doubts: tuple[str, ...] = ()
    trace: Timeline | None = None
    layers: LayerAccount | None = None
