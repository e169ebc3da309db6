"""Causes in saving: the training stands still while the model is written."""

from __future__ import annotations

from collections.abc import Iterable

from fitscope import words
from fitscope.model import Region
from fitscope.rules.case import Case, cold, counted, parts_of, share, shorter_end, took
from fitscope.rules.hooks import OFTEN, beside_saving, claims
from fitscope.rules.removing import saving_off
from fitscope.rules.rule import Cause, Hit, Rule, example
from fitscope.source import Script


def _first_save(case: Case, region: Region, spent: float, number: int) -> float:
    """Seconds by which the first save took longer than the others, which saving less often does not end."""
    first: float = sum(fact["seconds"] for fact in case.facts("first-save", region))
    return max(0.0, first - (spent - first) / (number - 1)) if number > 1 else first


class FrequentCheckpoint(Rule):
    """Saving the model takes a noticeable part of the training.

    The training stands still while the weights are written.

    fitscope says so when checkpoints take at least 3 % of the training and more than one is written per epoch,
    or at least 10 % at one per epoch.

    Change: save less often (`save_freq`, `save_best_only=True`), the weights only, or beside the training
    (`fitscope.BackgroundCheckpoint`).
    """

    code = "FS205"
    name = "frequent-checkpoint"
    family = "callbacks"
    fixable = True
    examples = (example("frequent-checkpoint"),)

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at what saving took in every training."""
        for region in case.regions("fit", "loop", "train_on_batch"):
            parts = parts_of(region, "checkpoint")
            around = beside_saving(region)
            spent = sum(part.seconds for part in (*parts, *around))
            number = sum(part.count for part in parts)
            spent -= _first_save(case, region, spent, number)
            often = number > 1.5 * max(1, region.epochs)
            if not parts or number < 3 or not case.matters(spent, 0.03 if often else 0.1):
                continue
            part = parts[0]
            user = part.where if part.where is not None and not part.where.installed else None
            yield Cause(
                says=f"Saving the model takes {words.share(spent / case.seconds)} of the training.",
                where=user or region.where,
                evidence=(
                    share("of the training is spent saving", spent / case.seconds),
                    counted("checkpoints", number),
                    took("per checkpoint", spent / number),
                ),
                saves=case.saves(
                    0.95 * spent + cold(region, spent) + shorter_end(region, spent) if often else 0.8 * spent
                ),
                remedy=(
                    'Save once per epoch or less often (save_freq="epoch"), only the best (save_best_only=True), the '
                    "weights only (save_weights_only=True), or beside the training: fitscope.BackgroundCheckpoint."
                ),
                claims=claims(region, *parts, *around),
                removal=saving_off(region, *parts),
            )

    def lint(self, script: Script) -> Iterable[Hit]:
        """A model that is saved every few batches."""
        for call in script.calls:
            if script.called(call) in ("keras.callbacks.ModelCheckpoint", "keras.callbacks.BackupAndRestore"):
                often = script.literal(script.argument(call, "save_freq"))
                if type(often) is int and 0 < often <= OFTEN:
                    each = "in every batch" if often == 1 else f"every {often} batches"
                    yield Hit(
                        call.lineno,
                        f"The model is saved {each}, and the training stands still meanwhile.",
                        'save_freq="epoch", or every few thousand batches.',
                    )
        saves = set(script.model_calls("save", "save_weights", "export"))
        for call in script.batch_hook_calls():
            if call in saves:
                yield Hit(
                    call.lineno,
                    "The model is saved in every batch, and the training stands still meanwhile.",
                    "Save once per epoch (ModelCheckpoint).",
                )


RULES = (FrequentCheckpoint(),)
