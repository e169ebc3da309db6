"""Causes in single layers: where the step is long because one of them is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fitscope import words
from fitscope.model import Evidence, Region
from fitscope.rules.case import Case, counted, seconds_of, share, took, with_validation
from fitscope.rules.rule import Cause, Rule, example

STEP_SHARE = 0.8
WORK_SHARE, TIME_SHARE = 0.7, 0.5
LONG_STEP = 0.2
"""Seconds: shorter steps are nobody's trouble, whatever they are made of."""
MUCH_WORK = 20e9
"""Floating point operations of a layer in a step: a step that is long with less is long for another reason."""
USUAL_BATCH = 32
"""Where the size of the batches is not known."""
SAVED = (0.3, 0.6)
"""Of the layer's time, with half its width: the layers around it get faster, too, and small products slower."""


class DominantLayer(Rule):
    """One layer does most of the work of every step, and the steps are long.

    The time of a product of matrices or of a convolution grows with its width (filters or units), with the channels
    that it is given, and with the number of places it is computed at. A convolution with many filters behind another
    one with many, before any pooling, can cost more than all other layers together.

    fitscope says so when steps take at least 80 % of the training (once it runs) and 0.2 seconds each, and one
    layer has at least 70 % of the floating point operations of a step and 20 billion of them, all layers being known;
    if `fitscope layers` has measured it, the layer must take at least half of the step, too. It says nothing of
    accuracy: whether a smaller layer learns as well only your data can tell.

    Change: half the filters or units take about half the time (the estimate is for that). A stride or a pooling
    before the layer takes places away, a 1x1 convolution before it takes channels away. `fitscope layers train.py`
    measures what each layer takes, and again after the change.
    """

    code = "FS408"
    name = "dominant-layer"
    family = "model"
    rank = 80
    examples = (example("dominant-layer", line="Conv2D(256", estimable=False),)

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at every training that is nearly all step."""
        for region in case.regions("fit", "train_on_batch"):
            step = seconds_of(region, "step")
            # What a training has once, or once in an epoch, is less of a longer one.
            working = region.wall_seconds - seconds_of(region, "compile", "setup", "epoch")
            long = region.step_seconds is not None and region.step_seconds.median >= LONG_STEP
            if long and step >= STEP_SHARE * working and case.matters(step, 0.5):
                yield from self._of_region(case, region, step)

    def _of_region(self, case: Case, region: Region, step: float) -> Iterable[Cause]:
        costs: list[dict[str, Any]] = case.settings(region).get("costs") or []
        if not costs or not case.settings(region).get("costs_complete"):
            return
        first = costs[0]
        work = first["flops"] / case.settings(region)["work"]
        in_step = first["flops"] * (case.settings(region).get("batch_size") or USUAL_BATCH)
        measured = _measured(case, str(first["name"]))
        if work < WORK_SHARE or in_step < MUCH_WORK or (measured is not None and measured < TIME_SHARE):
            return
        part = measured if measured is not None else work
        shape = "\N{MULTIPLICATION SIGN}".join(str(size) for size in first["input"])
        width = f" with {words.count(first['width'], _of(first['kind']))}" if first.get("width") else ""
        evidence: list[Evidence] = [
            share("of the training is spent in the step", step / case.seconds),
            took("per step", step / max(1, region.steps)),
            share(f"of the step's floating point operations are in {first['name']}", work),
            counted("its weights", first["parameters"]),
        ]
        if measured is not None:
            evidence.insert(2, share(f"of a step is {first['name']}, by `fitscope layers`", measured))
        yield Cause(
            says=f"{first['name']} ({first['kind']}{width}, on {shape}) does most of the work of every step.",
            where=case.find(rf"\b{first['kind']}\(\s*(\w+=)?{first['width']}\b") or region.where,
            evidence=tuple(evidence),
            saves=with_validation(region, SAVED[0] * part * step, SAVED[1] * part * step),
            remedy=(
                "Half its width (the estimate is for that), a stride or a pooling before it, or fewer channels into "
                "it. Whether it then learns as well, your validation data must tell. `fitscope layers` measures it."
            ),
            claims=frozenset({f"{id(region)}:step"}),
        )


def _of(kind: str) -> str:
    return "filter" if "Conv" in kind else "unit"


def _measured(case: Case, name: str) -> float | None:
    """The share of the step that a layer was measured to take."""
    if case.layers is None:
        return None
    return next((cost.share for cost in case.layers.layers if cost.name == name), None)


RULES = (DominantLayer(),)
