"""The model as a callback sees it that runs beside the training: not at all, or as a copy of one moment."""

from __future__ import annotations

import dataclasses
import dis
import types
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from fitscope.remedy.callbacks.wrapper import Wrapper

# What never changes while a model trains, so that it can be told without it.
_CONSTANT = ("name", "steps_per_execution")
# What a copy of the weights cannot stand for: it has no optimizer of its own that ever took a step.
_NEEDS_OPTIMIZER = {"save", "optimizer", "fit", "train_on_batch"}


class ModelError(RuntimeError):
    """A callback in the background touched the model that is being trained."""


@dataclasses.dataclass(frozen=True)
class Use:
    """One place where a callback touches its model."""

    function: str
    attribute: str  # "" where the model itself is handed on
    steers: bool  # something is set on it

    def __str__(self) -> str:
        what = f"self.model.{self.attribute}" if self.attribute else "self.model"
        return f"{what} in {self.function}"


def uses_of_model(callback: Any) -> list[Use]:
    """Where a callback's code touches `self.model`, by its bytecode: known before any training."""
    return [use for function in _functions(callback) for use in _uses(function) if use.attribute not in _CONSTANT]


def check_callback(callback: Any, snapshot: bool) -> None:
    """Refuses a callback that cannot do its work away from the training."""
    name = type(callback).__name__
    uses = uses_of_model(callback)
    for use in uses:
        if use.steers:
            raise ValueError(
                f"Background: {name} steers the training ({use}), so it has to run in the training thread"
            )
    if not snapshot and uses:
        raise ValueError(
            f"Background: {name} needs the model ({uses[0]}), which goes on training meanwhile: pass snapshot=True "
            "to give it a copy of the weights as they were at that step"
        )
    for use in uses:
        if use.attribute in _NEEDS_OPTIMIZER:
            raise ValueError(
                f"Background: {name} needs the optimizer, too ({use}), and a snapshot has the weights only"
                + (": use BackgroundCheckpoint" if use.attribute == "save" else "")
            )


def holds_model(callback: Any, model: Any) -> str | None:
    """Where a callback has the trained model or a part of it from, other than `self.model`; None if it has not."""
    weights = {id(variable) for variable in model.variables}

    def is_trained(value: Any) -> bool:
        if value is model:
            return True
        return isinstance(value, keras.Layer) and any(id(variable) in weights for variable in value.variables)

    for name, value in vars(callback).items():
        if name != "_model" and is_trained(value):
            return f"self.{name}"
    for function in _functions(callback):
        reached = {name: function.__globals__.get(name) for name in _names(function.__code__)}
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            try:
                reached[name] = cell.cell_contents
            except ValueError:  # not yet filled
                continue
        for name, value in reached.items():
            if is_trained(value):
                return f"{name} in {function.__name__}"
    return None


def _functions(callback: Any) -> Iterator[types.FunctionType]:
    """The functions that a callback's hooks are made of: its classes' own, below Keras' base, and its lambdas."""
    if isinstance(callback, Wrapper):
        yield from _functions(callback.callback)
        return
    for kind in type(callback).__mro__:
        if kind in (keras.callbacks.Callback, object):
            continue
        for value in vars(kind).values():
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if isinstance(function, types.FunctionType):
                yield function
    for value in vars(callback).values():
        if isinstance(value, types.FunctionType):
            yield value


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _names(code: types.CodeType) -> set[str]:
    return {name for inner in _codes(code) for name in inner.co_names}


def _uses(function: types.FunctionType) -> Iterator[Use]:
    for code in _codes(function.__code__):
        instructions = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "PRECALL")]
        for number, instruction in enumerate(instructions):
            if not (_is_read(instruction) and instruction.argval in ("model", "_model")):
                continue
            chain: list[str] = []
            steers = False
            for following in instructions[number + 1 :]:
                if _is_read(following):
                    chain.append(following.argval)
                    continue
                if following.opname == "STORE_ATTR":
                    chain.append(following.argval)
                    steers = True
                break
            yield Use(function.__name__, chain[0] if chain else "", steers)


def _is_read(instruction: dis.Instruction) -> bool:
    return instruction.opname in ("LOAD_ATTR", "LOAD_METHOD")


class NoModel:
    """Stands where the model would be, and says why it is not there."""

    def __init__(self, callback: str, constants: dict[str, Any]) -> None:
        vars(self).update(constants, _callback=callback)

    @classmethod
    def instead_of(cls, model: Any, callback: str) -> NoModel:
        """For a callback of this name."""
        return cls(callback, {name: getattr(model, name, None) for name in _CONSTANT})

    def __getattr__(self, name: str) -> Any:
        if name == "jax_state_sync" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        raise ModelError(
            f"{self._callback} runs in the background and asked for model.{name}, but the model goes on training: "
            "pass snapshot=True to Background to give it a copy of the weights as they were at that step"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise ModelError(
            f"{self._callback} runs in the background and set model.{name}: a callback that steers the training "
            "has to run in the training thread"
        )

    def __reduce__(self) -> Any:
        return NoModel, (self._callback, {name: vars(self)[name] for name in _CONSTANT})


class Twin:
    """A copy of the trained model that takes on the weights of one step after another."""

    def __init__(self, model: Any) -> None:
        self.model = _copy(model)

    @staticmethod
    def weights_of(model: Any) -> list[Any]:
        """The weights as they are now. On the training thread."""
        if hasattr(model, "jax_state_sync"):
            model.jax_state_sync()
        return [np.array(keras.ops.convert_to_numpy(variable)) for variable in model.weights]

    def take_on(self, weights: list[Any]) -> None:
        """Becomes the model of the step that these weights were taken at."""
        for variable, value in zip(self.model.weights, weights, strict=True):
            variable.assign(value)


def _copy(model: Any) -> Any:
    try:
        if isinstance(model, keras.Sequential) or type(model).__name__ == "Functional":
            twin = keras.models.clone_model(model)
        else:
            twin = type(model).from_config(model.get_config())
            twin.build_from_config(model.get_build_config())
    except Exception as error:
        raise ValueError(
            f"Background: no copy of {type(model).__name__} can be made for snapshot=True ({error}); a model of your "
            "own class needs get_config"
        ) from error
    if [tuple(each.shape) for each in twin.weights] != [tuple(each.shape) for each in model.weights]:
        raise ValueError(f"Background: a copy of {type(model).__name__} made from its config has other weights")
    if model.compiled:
        twin.compile_from_config(model.get_compile_config())
    return twin
