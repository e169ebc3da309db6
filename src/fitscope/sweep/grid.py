"""The settings that a sweep goes through, as the command line gives them, and all combinations of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from fitscope.model import FitscopeError

PLACEHOLDER = "{}"
"""In the script's arguments: where a value of `--values` goes."""
VALUE = "value"
NUMBERS = ("batch_size", "steps_per_execution")
CHOICES: dict[str, dict[str, Any]] = {
    "jit_compile": {"on": True, "off": False},
    "precision": {name: name for name in ("float32", "mixed_bfloat16", "mixed_float16")},
    "backend": {name: name for name in ("tensorflow", "jax", "torch")},
}
MOST_POINTS = 60


@dataclass(frozen=True)
class Axis:
    """A setting and the values to measure."""

    name: str
    values: tuple[Any, ...]

    @property
    def label(self) -> str:
        """As a person reads it."""
        return self.name.replace("_", " ")

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """The values as numbers above zero, if all are."""
        if not all(isinstance(value, int | str) and not isinstance(value, bool) for value in self.values):
            return None
        try:
            found = tuple(float(value) for value in self.values)
        except ValueError:
            return None
        return found if all(number > 0 for number in found) else None


def axes(given: Mapping[str, str | None], arguments: tuple[str, ...]) -> tuple[Axis, ...]:
    """The axes of what was given on the command line, by name; one sentence where that makes no sense."""
    found = tuple(axis(name, text) for name, text in given.items() if text is not None)
    if not found:
        raise FitscopeError("say what to sweep: fitscope sweep train.py --batch-size 16,32,64")
    if given.get(VALUE) is not None and not any(PLACEHOLDER in each for each in arguments):
        raise FitscopeError(
            "--values needs a place in the script's arguments: fitscope sweep train.py --values 16,32 -- --batch {}"
        )
    number = len(grid(found))
    if number > MOST_POINTS:
        raise FitscopeError(f"these are {number} combinations: a sweep takes {MOST_POINTS} at most.")
    return found


def axis(name: str, text: str) -> Axis:
    """One axis; values that occur twice count once, and numbers go upward."""
    option = "--values" if name == VALUE else f"--{name.replace('_', '-')}"
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise FitscopeError(f"{option} {text}: a value is missing between two commas.")
    if name in NUMBERS:
        return Axis(name, tuple(sorted({_number(option, word) for word in words})))
    if name in CHOICES:
        unknown = next((word for word in words if word not in CHOICES[name]), None)
        if unknown is not None:
            raise FitscopeError(f"{option} is one or several of {', '.join(CHOICES[name])}, not {unknown!r}.")
        return Axis(name, tuple(dict.fromkeys(CHOICES[name][word] for word in words)))
    return Axis(name, tuple(dict.fromkeys(words)))


def _number(option: str, word: str) -> int:
    if not word.isascii() or not word.isdigit() or int(word) < 1:
        raise FitscopeError(f"{option}: {word!r} is no whole number above zero: write {option} 16,32,64.")
    return int(word)


def grid(found: tuple[Axis, ...]) -> list[dict[str, Any]]:
    """All combinations of values."""
    return [
        dict(zip((each.name for each in found), values, strict=True))
        for values in product(*(each.values for each in found))
    ]


def filled(arguments: tuple[str, ...], settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The script's arguments with the value of `--values` in its place, if there is one."""
    if VALUE not in settings:
        return arguments
    return tuple(each.replace(PLACEHOLDER, str(settings[VALUE])) for each in arguments)


def words_of(settings: Mapping[str, Any]) -> str:
    """batch size 64, jit compile on"""
    return ", ".join(f"{name.replace('_', ' ')} {value_word(value)}" for name, value in settings.items())


def value_word(value: Any) -> str:
    """on, off, 64, mixed_bfloat16"""
    return "on" if value is True else "off" if value is False else str(value)
