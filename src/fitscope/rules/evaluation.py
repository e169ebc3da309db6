"""Causes in the validation."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from fitscope import words
from fitscope.model import Where
from fitscope.rules.case import Case, counted, parts_of, seconds_of, share
from fitscope.rules.hooks import hooks_of
from fitscope.rules.removing import validation_off
from fitscope.rules.rule import Cause, Hit, Rule, example
from fitscope.source import Script

LARGE, LARGE_FOR_MORE = 0.35, 0.25
"""The share of a training from which on its validation is a large part; the same if it has far more steps."""
MORE = 1.5
"""Times as many steps as the training has: far more."""
AGAIN = 2
"""Passes from which on data is gone through again and again."""
MANY_STEPS = 10
"""Steps of an `evaluate` that goes through a dataset."""
BY_HAND = "Validate once per epoch or less often, in larger batches, or on a part of the data."
BY_KERAS = (
    "Count validation_steps in batches, validate every few epochs (validation_freq=5), in larger batches, or on a "
    "part of the data."
)


class DominantValidation(Rule):
    """Validation takes a large part of the training.

    Too often (after every short epoch), too much (`validation_steps` counted in samples instead of batches), or in
    tiny batches.

    fitscope says so when everything inside the validation takes 35 % of the training or more, or 25 % with more than
    half as many steps again as the training has. Beside a training loop written by hand that is another loop that
    calls a model again and again and changes no weights, or a repeated `evaluate`; inside such a loop, a
    pass over other data: on PyTorch under `torch.no_grad()`, elsewhere one that changes no weights.

    Change: `validation_steps` = samples divided by the batch size, `validation_freq=5`, a larger
    `validation_batch_size`, or a smaller sample of the validation data.
    """

    code = "FS501"
    name = "dominant-validation"
    family = "evaluation"
    fixable = True
    examples = (
        example("dominant-validation", line="model.fit(batches()", estimable=False),
        example("dominant-validation", 1, line="for a, b in held_out", backends=("torch",), estimable=False),
        example("dominant-validation", 2, line="for a, b in held_out", backends=("tensorflow",), estimable=False),
    )

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at the validation of every training, and at what is beside one."""
        yield from self._inside(case)
        yield from self._beside(case)

    @staticmethod
    def _beside(case: Case) -> Iterable[Cause]:
        """Loops and `evaluate` calls that go through their data again and again beside a training by hand."""
        trained = sum(region.steps for region in case.regions("loop", "train_on_batch") if not case.validates(region))
        if sum(region.steps for region in case.regions("fit")) > trained:
            return  # the training is no loop by hand
        for region in case.regions("loop", "evaluate"):
            if region.call == "evaluate" and region.steps < MANY_STEPS * region.calls:
                continue  # single rows, or starting it: that is for another cause
            validates = region.call == "evaluate" or case.validates(region)
            spent = region.wall_seconds - seconds_of(region, "compile")
            if not validates or not trained or region.calls < AGAIN:
                continue
            more = region.steps / trained
            if not case.matters(spent, LARGE_FOR_MORE if more > MORE else LARGE):
                continue
            often = f", with {more:.1f} times as many steps as the training" if more > 1 else ""
            yield Cause(
                says=f"Validation takes {words.share(spent / case.seconds)} of the training{often}.",
                where=region.where,
                evidence=(
                    share("of the training is validation", spent / case.seconds),
                    counted("validation steps", region.steps),
                    counted("training steps", trained),
                ),
                saves=case.saves(0.85 * spent),
                remedy=BY_HAND,
                claims=frozenset({f"{id(region)}:validation"}),
                shares={f"{id(region)}:validation:data": 0.85 * seconds_of(region, "data")},
            )

    @staticmethod
    def _inside(case: Case) -> Iterable[Cause]:
        """The validation of every fit, and what a loop written by hand does without gradients."""
        for region in case.regions("fit", "loop"):
            hooks = hooks_of(region)
            parts = [part for part in parts_of(region, "validation") if not part.name.startswith("compile")]
            parts = [part for part in parts if part not in hooks]
            steps = max((part.count for part in parts if part.name.startswith("step: step")), default=0)
            spent = sum(part.seconds for part in parts)
            waited = sum(part.seconds for part in parts if part.name.startswith("data: "))
            more = steps / region.steps if region.steps else 0.0
            large = LARGE_FOR_MORE if more > MORE else LARGE
            if not parts or not case.matters(spent, large) or spent < large * region.wall_seconds:
                continue
            working = sum(part.seconds for part in parts if part.name.startswith(("step", "data")))
            if more < 0.5 and not case.matters(working, 0.2):
                continue  # what costs is not the validation but starting it: that is for short epochs
            often = f", with {more:.1f} times as many steps as the training" if more > 1 else ""
            by_hand = next(iter(case.facts("validates", region)), None)
            yield Cause(
                says=f"Validation takes {words.share(spent / case.seconds)} of the training{often}.",
                where=Where(by_hand["file"], by_hand["line"]) if by_hand is not None else region.where,
                evidence=(
                    share("of the training is validation", spent / case.seconds),
                    counted("validation steps", steps),
                    counted("training steps", region.steps),
                ),
                saves=case.saves(0.85 * spent),
                remedy=BY_HAND if by_hand is not None else BY_KERAS,
                claims=frozenset({f"{id(region)}:validation"}),
                shares={f"{id(region)}:validation:data": 0.85 * waited},
                removal=validation_off(region) if by_hand is None else None,
            )

    def lint(self, script: Script) -> Iterable[Hit]:
        """More validation than training, or validation steps that count examples."""
        for call in script.model_calls("fit", "fit_generator"):
            steps, others = script.argument(call, "validation_steps"), script.argument(call, "steps_per_epoch")
            if steps is None or others is None:
                continue
            number, trained = script.literal(steps), script.literal(others)
            every = script.literal(script.argument(call, "validation_freq")) in (None, 1)
            if type(number) is int and type(trained) is int and number >= 2 * trained and every:
                yield Hit(
                    steps.lineno,
                    f"Each validation takes {number} steps, and the epoch before it {trained}.",
                    "Validate on fewer batches, or every few epochs (validation_freq).",
                )
            if not _is_divided(script, others) or not _counts_examples(script, steps):
                continue
            batches = script.generator(script.argument(call, "validation_data")) is not None
            if batches or isinstance(steps, ast.Attribute):
                yield Hit(
                    steps.lineno,
                    f"validation_steps={ast.unparse(steps)} counts examples, but every step takes a batch: each "
                    "validation goes through its data many times.",
                    "Divide it by the batch size, as in steps_per_epoch.",
                )


def _is_divided(script: Script, node: ast.AST) -> bool:
    values = script.values(node)
    whole = values[0] if len(values) == 1 else node
    return any(isinstance(item, ast.Div | ast.FloorDiv) for item in ast.walk(whole))


def _counts_examples(script: Script, node: ast.AST) -> bool:
    """`len(rows)`, `rows.shape[0]`, `generator.samples`; not the length of a loader, which counts batches."""
    if isinstance(node, ast.Call) and script.called(node) == "len" and node.args:
        made = [value for value in script.values(node.args[0]) if isinstance(value, ast.Call)]
        return not any(script.local_class(value.func) or "DataLoader" in script.called(value) for value in made)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return isinstance(node.slice, ast.Constant) and node.slice.value == 0
    return isinstance(node, ast.Attribute) and node.attr == "samples"


RULES = (DominantValidation(),)
