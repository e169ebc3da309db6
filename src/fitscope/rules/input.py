"""Causes in the input: what they have in common, and the wait of which nothing narrower is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fitscope.model import Where
from fitscope.rules.case import BETWEEN, Case, Input
from fitscope.rules.removing import input_free
from fitscope.rules.rule import Cause, Rule

BATCHES = ("batch", "padded_batch", "ragged_batch")
UNLIKE_ROWS = ("cache", "flat_map", "interleave", "snapshot", "unbatch")
"""Methods behind which a generator's elements are no longer what it yielded."""


class InputRule(Rule):
    """A cause that makes the training wait for data."""

    family = "input"

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at every input that keeps the training waiting."""
        for each in self.inputs(case):
            found = self.of_input(case, each)
            if found is not None:
                # Of a library's loader it is the line that uses it which can be changed.
                where = each.region.where if found.where is None or found.where.installed else found.where
                yield replace(found, where=where, removal=input_free(each.region))

    def inputs(self, case: Case) -> list[Input]:
        """The inputs to look at."""
        return case.inputs

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """What one input shows of this cause."""
        raise NotImplementedError


def map_of(data: Input) -> dict[str, Any]:
    """The map, as it was written, whose Python function keeps the training waiting."""
    maps = [stage for stage in data.pipeline if stage["kind"] == "map" and stage.get("python")]
    return maps[-1] if maps else {}


def line_of(written: dict[str, Any]) -> Where | None:
    """The line of the script that added a stage to its pipeline."""
    where: Where | None = written.get("made") or written.get("where")
    return where


FETCH = 0.4e-3
"""Seconds that a loop written by hand takes to ask tf.data for a batch, however fast that is made."""


class InputBound(InputRule):
    """The training waits for data, and nothing narrower is certain.

    The wait itself is measured. Which stage causes it could not be told: the loading runs in other processes,
    or no stage stands out.

    fitscope says so when at least 20 % of the training is spent waiting for data, not only for the first batch of an
    epoch, and no other cause explains it. In a loop written by hand over a tf.data pipeline that is more than asking
    for a batch takes by itself, 0.4 ms.

    Change: train on one batch again and again to see what a free input would give, and look at the
    stages in `fitscope show --json`.
    """

    code = "FS113"
    name = "input-bound"
    rank = 90
    fallback = True
    examples = ()

    def of_input(self, case: Case, data: Input) -> Cause | None:
        """A wait without a narrower cause."""
        steady = data.wait - data.region.first_waits.seconds
        if not case.matters(data.wait, 0.2) or not case.matters(steady, 0.15) or data.source == "arrays":
            return None
        if data.region.call == "loop" and data.source == "tf.data" and data.wait < FETCH * data.region.steps:
            return None  # nothing waits for a stage: this is what asking for a batch takes
        stage = data.between or data.function or data.slowest
        says = f"The training waits for data from {data.source or 'its input'}."
        return Cause(
            says="The training waits for your own code between two steps." if data.source == BETWEEN else says,
            where=stage.where if stage is not None else None,
            evidence=data.evidence(),
            # A free input gives all of the wait back, and what can be done about it is not known: half of that speed.
            saves=(max(0.0, 2 * data.wait - case.seconds), data.wait),
            remedy="Find the slow stage: fitscope show --json lists them; prepare the data ahead of the training.",
            claims=data.claims,
            shares=data.shares,
        )


RULES = (InputBound(),)
