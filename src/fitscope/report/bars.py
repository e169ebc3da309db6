"""Rows of a bar, a share, a duration and a label: how every table of the report looks, 80 columns wide."""

from __future__ import annotations

from rich.table import Table

WIDTH = 80
BAR = 14


def table() -> Table:
    """A table of such rows, still empty."""
    rows = Table.grid(padding=(0, 1))
    rows.add_column(width=BAR)
    rows.add_column(justify="right", width=7)
    rows.add_column(justify="right", width=11, no_wrap=True)
    rows.add_column(no_wrap=True, overflow="ellipsis", width=WIDTH - BAR - 7 - 11 - 3)
    return rows


def bar(share: float) -> str:
    """Eighths of a block, so that 1 % and 3 % look different."""
    eighths = round(share * BAR * 8)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
