"""Edits of callbacks: beside the training, or less often."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from fitscope.effects import RANDOM, reached
from fitscope.fixes.draft import Unsure
from fitscope.fixes.kind import Kind, Place, only
from fitscope.fixes.text import Text
from fitscope.model import Around, Edit
from fitscope.names import listed
from fitscope.source import BATCH_HOOKS, Script

HELPLESS = 0.75
"""A hook that takes this share of the training keeps a thread beside it busy for about as long."""
LONGER = 0.5
"""One that takes this share is longer than all the rest: where records may be left out, that gains more."""
EVERY = (10, 20, 50, 100, 200, 500, 1000)
LITTLE = 0.05
"""What a hook may cost that is called for some of the batches, as a share of the rest of the training."""
EPOCHS = (5, 10, 20, 50)
FILES = (".keras", ".weights.h5")
MODEL_METHODS = listed(
    "evaluate fit get_weights predict predict_on_batch save_weights set_weights stateless_call test_on_batch "
    "train_on_batch"
)
CHECKPOINT_ARGUMENTS = listed(
    "filepath monitor verbose save_best_only save_weights_only mode save_freq initial_value_threshold"
)


def _callback(place: Place) -> tuple[Place, ast.ClassDef]:
    """The class of the callback that a finding is about, where its file has it."""
    owner = place.owner()
    if owner is not None and place.script.derives(owner, "keras.callbacks."):
        return place, owner
    named = re.search(r"\b(\w+)\.on_\w+|^(\w+) makes Keras wait", place.finding.says)
    for text in place.project.texts() if named else ():
        for each in text.script.classes:
            if each.name in named.groups() and text.script.derives(each, "keras.callbacks."):  # type: ignore[union-attr]
                return replace(place, text=text), each
    raise Unsure("the class of the callback is out of sight")


def _share(place: Place) -> float:
    """The part of the training that the hook takes; 0 where nobody measured it."""
    return max((item.value for item in place.finding.evidence if item.unit == "share"), default=0.0)


def given_callbacks(place: Place, owner: ast.ClassDef) -> tuple[Text, list[ast.expr]]:
    """The expressions that hand a callback of a class to a training."""
    made = {call for _, call in place.made(owner)}
    found: dict[ast.expr, Text] = {}
    for text in place.project.texts():
        script = text.script
        for call in script.model_calls("fit", "fit_generator", "evaluate", "predict"):
            for item in listed_callbacks(script, script.argument(call, "callbacks")):
                if item in made or any(value in made for value in script.values(item)):
                    found[item] = text
        for call in made & set(script.calls):
            parent = script.parents.get(call)
            if isinstance(parent, ast.Call) and script.method(parent) == "append":
                found[call] = text
    if not found:
        raise Unsure(f"where {owner.name} is given to the training is out of sight")
    texts = {text.path: text for text in found.values()}
    if len(texts) > 1:
        raise Unsure(f"{owner.name} is given to trainings in several files")
    return next(iter(texts.values())), list(found)


def listed_callbacks(script: Script, node: ast.expr | None) -> list[ast.expr]:
    """The items of a list of callbacks, as far as it is in sight."""
    if isinstance(node, ast.List | ast.Tuple):
        return [item for item in node.elts if not isinstance(item, ast.Starred)]
    if isinstance(node, ast.Name):
        values = script.values(node)
        return listed_callbacks(script, values[0]) if len(values) == 1 else [node]
    return [node] if node is not None else []


class InBackground(Kind):
    """A callback that needs nothing of the model works beside the training."""

    causes = ("blocking-callback", "network-in-callback", "per-batch-logging", "slow-epoch-callback", "forced-sync")

    def edit(self, place: Place) -> Edit:
        """fitscope.Background around it."""
        place, owner = _callback(place)
        _check_background(place.script, owner)
        if _share(place) >= (LONGER if place.unsafe and _batch_hooks(place, owner) else HELPLESS):
            raise Unsure("one thread beside the training would be busy for longer than the training")
        text, items = given_callbacks(place, owner)
        draft = place.draft(text)
        for item in items:
            draft.wrap(item, f"{draft.name('fitscope.Background', item)}(")
        drawn = [
            place.script.called(call)
            for method in place.script.methods(owner).values()
            for call in place.script.calls_of(method)
            if place.script.called(call).startswith(RANDOM)
        ]
        risk = f"{owner.name} draws random numbers ({drawn[0]}) while the training may draw, too" if drawn else ""
        edit = place.edit(draft, f"{owner.name} works beside the training; every record is kept, in order", risk)
        return replace(edit, around=Around(owner.name, "Background"))


def _check_background(script: Script, owner: ast.ClassDef) -> None:
    """Raises Unsure where a callback cannot leave the training's thread."""
    for method in script.methods(owner).values():
        parameters = set(script.parameters(method))
        for node in script.own(method):
            if isinstance(node, ast.Attribute) and node.attr in ("model", "_model") and _is_self(node.value):
                raise Unsure(f"{owner.name} uses the model, which the training changes meanwhile")
            if isinstance(node, ast.Assign | ast.AugAssign):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    changed = target.value if isinstance(target, ast.Subscript) else None
                    if isinstance(changed, ast.Name) and changed.id in parameters:
                        raise Unsure(f"{owner.name} changes {changed.id}, which the training reads")
        for call in script.calls_of(method):
            name = script.called(call)
            if script.method(call) in MODEL_METHODS:
                raise Unsure(
                    f"{owner.name} calls {script.method(call)} of a model, which the training may change meanwhile"
                )
            if name.startswith(("matplotlib.", "IPython.", "tensorflow.summary.", "input")):
                raise Unsure(f"{owner.name} calls {name}, which belongs to the main thread")


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _batch_hooks(place: Place, owner: ast.ClassDef) -> frozenset[str]:
    """The hooks of a callback that every batch calls."""
    return BATCH_HOOKS & set(place.script.methods(owner))


class Sometimes(Kind):
    """A callback's batch hooks are called for some of the batches."""

    causes = (
        *("blocking-callback", "forced-sync", "frequent-checkpoint", "network-in-callback", "per-batch-logging"),
        "predict-in-callback",
    )

    def edit(self, place: Place) -> Edit:
        """fitscope.Every around it."""
        place, owner = _callback(place)
        if not _batch_hooks(place, owner):
            raise Unsure(f"{owner.name} works once per epoch")
        text, items = given_callbacks(place, owner)
        number = _number(place, EVERY)
        draft = place.draft(text)
        for item in items:
            draft.wrap(item, f"{draft.name('fitscope.Every', item)}(", f", batches={number})")
        edit = place.edit(
            draft,
            f"{owner.name} sees every {number}th batch, and the last one of an epoch",
            "it does not see the others, and leaves out their records",
        )
        return replace(edit, around=Around(owner.name, "Every", {"batches": number}))


def _number(place: Place, numbers: tuple[int, ...]) -> int:
    """Which of some numbers is so large that a hook takes little of the training, where it was measured."""
    part = min(_share(place), 0.99)
    wanted = part / (1 - part) / LITTLE
    return next((number for number in numbers if number >= wanted), numbers[-1])


class SomeEpochs(Kind):
    """A callback's work at the end of an epoch is done after some of the epochs."""

    causes = ("slow-epoch-callback", "predict-in-callback")
    aside = True

    def edit(self, place: Place) -> Edit:
        """The hook returns at once after the others."""
        place, owner = _callback(place)
        script = place.script
        hook = script.methods(owner).get("on_epoch_end")
        if not isinstance(hook, ast.FunctionDef) or hook not in owner.body or _batch_hooks(place, owner):
            raise Unsure(f"{owner.name} has no on_epoch_end of its own, or does more than that")
        names = [item.arg for item in (*hook.args.posonlyargs, *hook.args.args)]
        if len(names) < 2 or hook.decorator_list:
            raise Unsure("its on_epoch_end does not take the number of the epoch")
        _check_seldom(script, owner, hook)
        given, draft, number = names[1], place.draft(), _number(place, EPOCHS)
        draft.insert_first(
            hook,
            f'if ({given} + 1) % {number} and {given} + 1 != {names[0]}.params["epochs"]:',
            "    return",
        )
        does = f"{owner.name}.on_epoch_end works after every {number}th epoch, and after the last one"
        return place.edit(draft, does, "it leaves out the records of the other epochs")


def _check_seldom(script: Script, owner: ast.ClassDef, hook: ast.FunctionDef) -> None:
    """Raises Unsure where the training depends on what a hook does."""
    for each in reached(script, hook):
        for node in script.own(each):
            stored = node if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) else None
            if stored is not None and "model" in ast.unparse(stored.value):
                raise Unsure(f"{owner.name} sets {ast.unparse(node)}, which the training goes by")
            changes = ("assign", "compile", "fit", "load_weights", "set_value", "set_weights", "train_on_batch")
            if isinstance(node, ast.Call) and script.method(node) in changes:
                raise Unsure(f"{owner.name} calls {script.method(node)}, which changes the training")
            logged = node if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) else None
            if logged is not None and ast.unparse(logged.value) == "logs":
                raise Unsure(f"{owner.name} changes logs, which others read")


class LessTensorBoard(Kind):
    """TensorBoard writes once per epoch, and numbers only."""

    causes = ("per-batch-logging",)

    def edit(self, place: Place) -> Edit:
        """Its settings."""
        if not place.finding.says.startswith("TensorBoard"):
            raise Unsure("it is not TensorBoard that writes")
        found = [
            (text, call)
            for text in place.project.texts()
            for call in text.script.calls
            if text.script.called(call) == "keras.callbacks.TensorBoard"
        ]
        here = [(text, call) for text, call in found if text.path == place.text.path and call in place.calls()]
        text, call = only(here or found, "TensorBoard callback")
        draft = place.draft(text)
        lost = []
        for name, usual, value in (
            ("update_freq", "epoch", '"epoch"'),
            ("histogram_freq", 0, "0"),
            ("write_images", False, "False"),
        ):
            given = text.script.argument(call, name)
            if given is not None and text.script.literal(given) != usual:
                draft.replace(given, value)
                lost.append(name)
        if not lost:
            raise Unsure("TensorBoard's settings are made out of sight")
        said = ", ".join(lost)
        return place.edit(draft, "TensorBoard writes its numbers once per epoch", f"fewer records: {said}")


class CheckpointBeside(Kind):
    """Checkpoints are written beside the training."""

    causes = ("frequent-checkpoint",)

    def edit(self, place: Place) -> Edit:
        """fitscope.BackgroundCheckpoint for ModelCheckpoint."""
        text, call = _checkpoint(place, "ModelCheckpoint")
        if _share(place) >= HELPLESS:
            raise Unsure("writing takes longer than the training")
        if any(keyword.arg not in CHECKPOINT_ARGUMENTS for keyword in call.keywords):
            raise Unsure("it has arguments that BackgroundCheckpoint does not take")
        path = text.script.argument(call, "filepath", 0)
        end = path.values[-1] if isinstance(path, ast.JoinedStr) and path.values else path
        name = text.script.literal(end)
        if not isinstance(name, str) or not name.endswith(FILES):
            raise Unsure("BackgroundCheckpoint writes .keras and .weights.h5 files, and this name is another")
        draft = place.draft(text)
        draft.replace(call.func, draft.name("fitscope.BackgroundCheckpoint", call))
        return place.edit(draft, "the same checkpoints, written beside the training")


class CheckpointPerEpoch(Kind):
    """The model is saved once per epoch."""

    causes = ("frequent-checkpoint",)

    def edit(self, place: Place) -> Edit:
        """save_freq="epoch"."""
        text, call = _checkpoint(place, "ModelCheckpoint", "BackupAndRestore")
        given = text.script.argument(call, "save_freq", 1 if text.script.called(call).endswith("Restore") else None)
        number = text.script.literal(given)
        unknown = number is None and given is not None and bool(place.finding.evidence)
        if type(number) is not int and not unknown:
            raise Unsure("it is saved once per epoch already")
        draft = place.draft(text)
        draft.replace(given, '"epoch"')  # type: ignore[arg-type]
        return place.edit(draft, "saves once per epoch", "there are fewer checkpoints")


def _checkpoint(place: Place, *names: str) -> tuple[Text, ast.Call]:
    """The callback of Keras that the finding is about."""
    said = [name for name in names if place.finding.says.startswith(name)]
    wanted = tuple(f"keras.callbacks.{name}" for name in said or names)
    found = [
        (text, call)
        for text in place.project.texts()
        for call in text.script.calls
        if text.script.called(call) in wanted
    ]
    here = [(text, call) for text, call in found if text.path == place.text.path and call in place.calls()]
    found_one: tuple[Text, ast.Call] = only(here or found, "callback that saves")
    return found_one


class QuietBar(Kind):
    """One line per epoch instead of a progress bar."""

    causes = ("progress-bar",)

    def edit(self, place: Place) -> Edit:
        """verbose=2."""
        script = place.script
        known = set(script.model_calls("fit", "evaluate", "predict"))
        call = only([call for call in place.calls() if call in known][:1], "training at this place")
        position = {"fit": 4, "evaluate": 3, "predict": 2}[script.method(call)]
        draft = place.draft()
        if len(call.args) > position:
            draft.replace(call.args[position], "2")
        else:
            draft.set_keyword(call, "verbose", "2")
        return place.edit(draft, "prints one line per epoch instead of a progress bar")


KINDS = (
    LessTensorBoard(),
    InBackground(),
    Sometimes(),
    SomeEpochs(),
    CheckpointBeside(),
    CheckpointPerEpoch(),
    QuietBar(),
)
