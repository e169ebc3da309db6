"""Cutting what computes some values out of a step that JAX traces, so that it can run alone, on made-up values."""

from __future__ import annotations

import math
import sys
from typing import Any

MOST_EQUATIONS = 20_000
PER_EQUATION, PER_NUMBER = 4e-7, 4e-9
"""Seconds that no simple equation takes, and no number of its result."""
MOST_NUMBERS = 20_000_000
"""More is not made up."""
HARD = ("cholesky", "conv_general", "dot_general", "eig", "fft", "lu", "qr", "sort", "svd", "top_k")
"""Equations that take longer than by the numbers of their results."""


def cut(given: tuple[Any, ...], variables: list[Any]) -> Part | None:
    """What computes the new values of variables; None if it cannot be cut out."""
    targets = [value for value in (variable.value for variable in variables) if hasattr(value, "parent")]
    edges = {id(tensor): tensor for tensor in given if hasattr(tensor, "parent")}
    order: list[Any] = []
    done: set[int] = set()
    pending: list[tuple[Any, bool]] = [(target, False) for target in targets]
    while pending:
        tracer, leaving = pending.pop()
        equation = tracer.parent
        if leaving:
            if id(equation) not in done:
                done.add(id(equation))
                order.append(equation)
            continue
        if not hasattr(tracer, "parent") or id(tracer) in edges or _is_literal(tracer):
            continue
        if equation is None:
            edges[id(tracer)] = tracer
        elif id(equation) not in done:
            if not _harmless(equation) or len(order) > MOST_EQUATIONS:
                return None
            pending.append((tracer, True))
            pending += [(each, False) for each in equation.in_tracers]
    return Part(order, list(edges.values()), targets) if order else None


def _is_literal(tracer: Any) -> bool:
    return type(tracer.val).__name__ == "Literal"


def _harmless(equation: Any) -> bool:
    """Whether an equation may run on made-up values: it calls nobody back, and it surely comes to an end."""
    text = str(equation.primitive)
    return not equation.effects and "callback" not in text and not (text == "while" or _holds_while(equation.params))


def _holds_while(params: dict[str, Any]) -> bool:
    inner = [getattr(value, "jaxpr", value) for value in params.values()]
    for jaxpr in inner:
        for equation in getattr(jaxpr, "eqns", ()):
            text = str(equation.primitive)
            if text == "while" or "callback" in text or equation.effects or _holds_while(equation.params):
                return True
    return False


class Part:
    """Equations that run alone."""

    def __init__(self, equations: list[Any], edges: list[Any], targets: list[Any]) -> None:
        from jax._src import core

        eqns = [
            core.new_jaxpr_eqn(
                [each.val for each in eqn.in_tracers],
                eqn.outvars,
                eqn.primitive,
                eqn.params,
                eqn.effects,
                eqn.source_info,
                eqn.ctx,
            )
            for eqn in equations
        ]
        self._inputs = [edge.aval for edge in edges]
        self._jaxpr = core.Jaxpr((), [edge.val for edge in edges], [target.val for target in targets], eqns)
        self._function: Any = None
        self._nothing: Any = None
        self._values: list[Any] = []

    def at_most(self) -> float:
        """Seconds that it takes in a step, by a guess that is too high."""
        return _at_most(self._jaxpr)

    def run(self) -> None:
        """Runs it once, to its end."""
        jax: Any = sys.modules["jax"]
        if self._function is None:
            from jax._src import core

            if sum(math.prod(aval.shape) for aval in self._inputs) > MOST_NUMBERS:
                raise MemoryError("too much to be made up")
            numpy: Any = sys.modules["numpy"]
            random = numpy.random.default_rng(0)
            for aval in self._inputs:
                floating = numpy.issubdtype(aval.dtype, numpy.floating)
                value = random.random(aval.shape, "float32") if floating else numpy.zeros(aval.shape, "int8")
                self._values.append(jax.device_put(value.astype(aval.dtype)))
            self._function = jax.jit(core.jaxpr_as_fun(core.ClosedJaxpr(self._jaxpr, ())))
            self._nothing = jax.jit(lambda *values: [0.0] * len(self._jaxpr.outvars), keep_unused=True)
        jax.block_until_ready(self._function(*self._values))

    def run_nothing(self) -> None:
        """Calls a function that takes and gives the same and computes nothing: what a call itself takes."""
        sys.modules["jax"].block_until_ready(self._nothing(*self._values))


def _at_most(jaxpr: Any) -> float:
    total = 0.0
    for equation in jaxpr.eqns:
        inner = [getattr(value, "jaxpr", value) for value in equation.params.values()]
        bodies = [each for each in inner if hasattr(each, "eqns")]
        if bodies:
            total += sum(_at_most(body) for body in bodies) * equation.params.get("length", 1)
        elif str(equation.primitive).startswith(HARD):
            return math.inf
        total += PER_EQUATION + PER_NUMBER * sum(math.prod(out.aval.shape) for out in equation.outvars)
    return total
