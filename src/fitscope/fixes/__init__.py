"""Kinds of edits: what to change in a script for a finding, one small class for each."""

from __future__ import annotations

from fitscope.fixes import (
    batching,
    callbacks,
    execution,
    jax_steps,
    layers,
    loaders,
    pipelines,
    predictions,
    remembering,
    rounds,
    settings,
    short_fits,
    windows,
)
from fitscope.fixes.kind import Kind

KINDS: tuple[Kind, ...] = (
    *windows.KINDS,
    *pipelines.KINDS,
    *batching.KINDS,
    *loaders.READING,
    *remembering.KINDS,
    *loaders.KINDS,
    *predictions.KINDS,
    *callbacks.KINDS,
    *execution.KINDS,
    *rounds.KINDS,
    *jax_steps.KINDS,
    *short_fits.KINDS,
    *settings.KINDS,
    *layers.KINDS,
)

BY_CAUSE = {cause: [kind for kind in KINDS if cause in kind.causes] for kind in KINDS for cause in kind.causes}
"""For each cause the kinds of edits that remove it; the first that is sure is taken."""
