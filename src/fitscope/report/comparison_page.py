"""A comparison as one page, made as the page of a run is: no network, no script, every number the JSON's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fitscope import words
from fitscope.model import Comparison
from fitscope.report import comparison as forms
from fitscope.report.to_html import numbered, rendered

WIDTH = 100
"""Half of the picture of an interval, in its own units."""


def to_html(comparison: Comparison, gate: tuple[str, float] | None = None) -> str:
    """The page."""
    value = numbered(forms.comparison_value(comparison, gate[0] if gate else None))
    return rendered(
        "comparison.html",
        ["page.css", "comparison.css"],
        comparison=comparison,
        value=value,
        gate=gate,
        script=Path(comparison.b.script).name,
        forms=forms,
        interval=_interval,
        reach=_reach,
        sides=[
            (letter, value[letter.lower()], time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(side.started)))
            for letter, side in (("A", comparison.a), ("B", comparison.b))
        ],
    )


def _reach(region: dict[str, Any], per: str) -> float:
    """How far the pictures of a region's intervals reach to either side."""
    changes = [part["change"] for part in region["parts"] if part["per"] == per]
    if per == "step":
        changes.append(region["per_step"])
    return max((abs(change[end]) for change in changes for end in ("low", "high")), default=1.0) or 1.0


def _interval(change: dict[str, Any], reach: float) -> Markup:
    """An interval as a bar around its best estimate, with a tick where there is no difference."""
    low, high = (round(WIDTH * change[end] / reach, 1) for end in ("low", "high"))
    best = round(WIDTH * change["difference"] / reach, 1)
    return Markup(
        '<svg viewBox="-105 -10 210 20" preserveAspectRatio="none" role="img" aria-label="{} to {}">'
        '<line class="zero" x1="0" x2="0" y1="-10" y2="10"/><line class="range" x1="{}" x2="{}" y1="0" y2="0"/>'
        '<line class="best" x1="{}" x2="{}" y1="0" y2="0"/></svg>'
    ).format(words.difference(change["low"]), words.difference(change["high"]), low, high, best, best)
