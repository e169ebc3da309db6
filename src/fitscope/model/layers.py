"""What each layer costs in the real step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerCost:
    """What a layer costs in one step, or what the optimizer, the loss, the metrics or the rest of the step do."""

    name: str
    part: str
    """layer, optimizer, loss, metrics or rest"""
    kind: str
    """The layer's class."""
    calls: int
    seconds: float
    """Forward, backward and update together."""
    share: float
    """Of the step."""
    plus_minus: float | None
    """Seconds that the measurement may be off, at 95 %; None where too few steps were seen to tell."""
    forward_seconds: float
    backward_seconds: float
    update_seconds: float
    """The optimizer's work on the layer's weights."""
    parameters: int
    activation_bytes: int
    """Of the layer's outputs."""
    flops: int | None
    """Of forward and backward together; None where the layer's kind does not tell."""
    forward_flops: int | None
    flops_per_second: float | None
    peak_share: float | None
    """Of what a matrix multiplication reaches here."""
    bound: str
    """compute, memory or dispatch: what the time is spent on"""
    output: tuple[int, ...]


@dataclass(frozen=True)
class LayerAccount:
    """What each layer costs in the real step of a training; the parts add up to the step."""

    script: str
    argv: tuple[str, ...]
    cwd: str
    started: float
    backend: str
    versions: dict[str, str]
    device: str
    model: str
    batch: tuple[tuple[int, ...], ...]
    """The shapes of the batch that was measured on."""
    jit_compile: bool
    step_seconds: float
    plus_minus: float | None
    steps: int
    """Steps that were timed."""
    profiled_steps: int
    profiled_seconds: float
    """A step on the profiler, before the profiler's own time is taken off."""
    peak_flops: float | None
    bandwidth: float | None
    """Floating point operations of a matrix multiplication, and bytes copied in memory, per second, here."""
    layers: tuple[LayerCost, ...]
    notes: tuple[str, ...] = ()
