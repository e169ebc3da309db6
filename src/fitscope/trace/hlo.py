"""Which scope an instruction of a program that XLA compiled belongs to.

Instructions bear the name of what they were compiled from. Those that the compiler made itself bear none: they belong
to what their neighbors belong to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fitscope.model import UPDATE
from fitscope.trace import wire

PLANE, PLANE_NAME, PLANE_EVENTS = 1, 2, 4
MODULE, COMPUTATIONS = 1, 3
COMPUTATION = {"name": 1, "instructions": 2, "id": 5, "root": 6}
INSTRUCTION = {"name": 1, "opcode": 2, "metadata": 7, "id": 35, "operands": 36, "called": 38}
OP_NAME = 2
HOLDERS = ("while", "conditional", "call")
"""Instructions that take time only as long as others, which are listed themselves, run in them."""
HEAVY = ("dot", "convolution", "custom-call")
_UPDATE = re.compile(UPDATE + r"\d+")
PASSES = 4
"""How far a scope travels to neighbors that have none."""

Scope = tuple[str, bool]
"""The name of a scope, and whether it is on the way back."""


@dataclass
class Instruction:
    """One instruction, with what it takes from and what it calls."""

    name: str = ""
    opcode: str = ""
    op_name: str = ""
    operands: list[int] = field(default_factory=list)
    called: list[int] = field(default_factory=list)


@dataclass
class Computation:
    """A list of instructions, by their ids."""

    instructions: dict[int, Instruction]
    root: int


@dataclass(frozen=True)
class Placed:
    """Where an instruction belongs; `holds` says that its time is that of others."""

    scope: Scope | None
    holds: bool


def programs(data: memoryview, scope_of: Callable[[str], Scope | None]) -> dict[str, dict[str, Placed]]:
    """Of every program in a trace, by `module(program)`: the places of its instructions, by their names."""
    found = {}
    for number, plane in wire.fields(data):
        if number != PLANE or isinstance(plane, int) or _text(plane, PLANE_NAME) != "/host:metadata":
            continue
        for entry in _inner(plane, PLANE_EVENTS):
            for metadata in _inner(entry, 2):
                for stat in _inner(metadata, 5):
                    for proto in _inner(stat, 6):
                        for module in _inner(proto, MODULE):
                            found[_text(metadata, 2)] = place(_computations(module), scope_of)
    return found


def place(computations: dict[int, Computation], scope_of: Callable[[str], Scope | None]) -> dict[str, Placed]:
    """The places of all instructions of a program."""
    found: dict[str, Placed] = {}
    for computation in computations.values():
        scopes = {
            number: _own(instruction, computations, scope_of)
            for number, instruction in computation.instructions.items()
        }
        users: dict[int, list[int]] = {}
        for number, instruction in computation.instructions.items():
            for operand in instruction.operands:
                users.setdefault(operand, []).append(number)
        nameless = [
            number
            for number, scope in scopes.items()
            if scope is None and not _names_its_origin(computation.instructions[number])
        ]
        for certain in (True,) * PASSES + (False,) * PASSES:
            new = {
                number: _from_neighbors(computation.instructions[number], users.get(number, []), scopes, certain)
                for number in nameless
                if scopes[number] is None
            }
            scopes.update({number: scope for number, scope in new.items() if scope is not None})
        for number, instruction in computation.instructions.items():
            found[instruction.name] = Placed(scopes[number], instruction.opcode in HOLDERS)
    return found


def _names_its_origin(instruction: Instruction) -> bool:
    """Whether an instruction says where it comes from, and that is none of the scopes: it is the step's own."""
    return "/" in instruction.op_name


def _own(
    instruction: Instruction, computations: dict[int, Computation], scope_of: Callable[[str], Scope | None]
) -> Scope | None:
    """By its own name, or by what is fused in it: the heavy instructions first, then the last."""
    fused = [computations[each] for each in instruction.called if each in computations]
    if instruction.opcode == "fusion":
        for computation in fused:
            for inner in computation.instructions.values():
                if inner.opcode in HEAVY and (found := scope_of(inner.op_name)) is not None:
                    return found
    if (own := scope_of(instruction.op_name)) is not None:
        return own
    if instruction.opcode not in ("fusion", "call"):
        return None
    for computation in fused:
        backwards = reversed(list(computation.instructions.values()))
        if (found := next((scope for each in backwards if (scope := scope_of(each.op_name))), None)) is not None:
            return found
    return None


def _from_neighbors(
    instruction: Instruction, users: Iterable[int], scopes: dict[int, Scope | None], certain: bool
) -> Scope | None:
    """What goes into the update of weights is their gradient; otherwise it belongs to the layer that takes it.

    What nobody takes, but is computed from a gradient, is one, too; in the end it belongs to whoever is near.
    """
    before = [scope for each in instruction.operands if (scope := scopes.get(each)) is not None]
    after = [scope for each in users if (scope := scopes.get(each)) is not None]
    updates = [(scope[0][len(UPDATE) :], True) for scope in after if _UPDATE.fullmatch(scope[0])]
    back = [scope for scope in before if scope[1]]
    layers = [scope for scope in after if scope[0].isdigit()]
    near = [] if certain else [*before, *after]
    return next(iter((*updates, *layers, *back, *near)), None)


def _computations(module: memoryview) -> dict[int, Computation]:
    found = {}
    for data in _inner(module, COMPUTATIONS):
        instructions: dict[int, Instruction] = {}
        identity = root = 0
        for number, value in wire.fields(data):
            if number == COMPUTATION["id"] and isinstance(value, int):
                identity = value
            elif number == COMPUTATION["root"] and isinstance(value, int):
                root = value
            elif number == COMPUTATION["instructions"] and not isinstance(value, int):
                at, instruction = _instruction(value)
                instructions[at] = instruction
        found[identity] = Computation(instructions, root)
    return found


def _instruction(data: memoryview) -> tuple[int, Instruction]:
    made, identity = Instruction(), 0
    for number, value in wire.fields(data):
        if isinstance(value, int):
            if number == INSTRUCTION["id"]:
                identity = value
            elif number == INSTRUCTION["operands"]:
                made.operands.append(value)
            elif number == INSTRUCTION["called"]:
                made.called.append(value)
        elif number == INSTRUCTION["name"]:
            made.name = bytes(value).decode("utf-8", "replace")
        elif number == INSTRUCTION["opcode"]:
            made.opcode = bytes(value).decode("utf-8", "replace")
        elif number == INSTRUCTION["metadata"]:
            made.op_name = _text(value, OP_NAME)
        elif number == INSTRUCTION["operands"]:
            made.operands += wire.packed(value)
        elif number == INSTRUCTION["called"]:
            made.called += wire.packed(value)
    return identity, made


def _inner(data: memoryview, wanted: int) -> Iterator[memoryview]:
    for number, value in wire.fields(data):
        if number == wanted and not isinstance(value, int):
            yield value


def _text(data: memoryview, wanted: int) -> str:
    return next((bytes(value).decode("utf-8", "replace") for value in _inner(data, wanted)), "")
