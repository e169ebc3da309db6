"""What each layer costs, as a table in a terminal and as a value for JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from fitscope import words
from fitscope.model import LayerAccount, LayerCost
from fitscope.report.phrases import NAMES

MOST_LAYERS = 20
SMALL = 0.01
BRIEF = 5
WIDTHS = (5, 8, 8, 8, 8, 7)
INDENT = 4
TINY = 1e-7
TIMES = "\N{MULTIPLICATION SIGN}"


def layers_value(account: LayerAccount) -> dict[str, Any]:
    """The account as a value."""
    return asdict(account)


def layers_to_terminal(account: LayerAccount, out: Console) -> None:
    """Prints the account."""
    parts = [Path(account.script).name, f"Keras {account.versions.get('keras', '3')} on {_backend(account)}"]
    out.print(Text("fitscope layers  ", style="bold").append("  ·  ".join(parts), style="not bold"))
    for line in layer_facts(account):
        out.print(Text(line))
    out.print()
    _table(account, MOST_LAYERS, out, details=True)
    for note in account.notes:
        out.print(Text(note, style="yellow"))


def layers_in_brief(account: LayerAccount, out: Console) -> None:
    """The dearest layers, for a report on a run."""
    out.print(
        Text("layers", style="bold").append(f"  of a step of {_step(account)}, measured apart", style="not bold")
    )
    _table(account, BRIEF, out, details=False)


def layer_facts(account: LayerAccount) -> list[str]:
    """What was measured, and on what."""
    batch = ", ".join(shape(each) for each in account.batch)
    counts = f"{words.count(account.steps, 'step')} timed, {account.profiled_steps} profiled"
    found = [f"one step: {_step(account)} ({counts}), on a batch of {batch}"]
    if account.peak_flops:
        line = f"this machine: {account.peak_flops / 1e9:.0f} GFLOP/s in a matrix multiplication"
        found.append(line + (f", {words.size(account.bandwidth)}/s copied" if account.bandwidth else ""))
    return found


def shape(sizes: tuple[int, ...]) -> str:
    """Sizes: 128x784."""
    return TIMES.join(map(str, sizes)) or "one number"


def _step(account: LayerAccount) -> str:
    off = f" ± {words.seconds(account.plus_minus)}" if account.plus_minus is not None else ""
    return words.seconds(account.step_seconds) + off


def _backend(account: LayerAccount) -> str:
    name = NAMES.get(account.backend, account.backend)
    return f"{name} with XLA" if account.jit_compile and account.backend == "tensorflow" else name


def _table(account: LayerAccount, most: int, out: Console, *, details: bool) -> None:
    head = ("share", "per step", "forward", "backward", "update", "GFLOP/s", "bound by", "layer")
    out.print(Text(_line(head), style="dim"))
    shown = [cost for cost in account.layers if cost.share >= SMALL or cost.part == "rest"]
    shown = [*shown[: most - 1], *shown[-1:]] if len(shown) > most else shown
    rest = [cost for cost in account.layers if cost not in shown]
    for cost in shown:
        out.print(Text(_line(_row(cost))), no_wrap=True, overflow="ellipsis")
        if details and cost.part == "layer":
            out.print(Text(" " * INDENT + about(cost), style="dim"), no_wrap=True, overflow="ellipsis")
    if rest:
        share, seconds = sum(cost.share for cost in rest), sum(cost.seconds for cost in rest)
        many = words.count(len(rest), "smaller part")
        out.print(Text(_line((words.share(share), words.seconds(seconds), "", "", "", "", "", many))))
    whole = _line(("100 %", words.seconds(account.step_seconds), "", "", "", "", "", "in all"))
    out.print(Text(whole, style="bold"))


def _line(cells: tuple[str, ...]) -> str:
    *numbers, bound, name = cells
    return " ".join(f"{cell:>{width}}" for cell, width in zip(numbers, WIDTHS, strict=True)) + f"  {bound:<8}  {name}"


def _row(cost: LayerCost) -> tuple[str, ...]:
    ways = (cost.forward_seconds, cost.backward_seconds, cost.update_seconds)
    return (
        words.share(cost.share),
        words.seconds(cost.seconds),
        *(words.seconds(way) if way >= TINY else "" for way in ways),
        gigaflops(cost.flops_per_second),
        cost.bound if cost.part != "rest" else "",
        cost.name,
    )


def gigaflops(rate: float | None) -> str:
    """Billions of operations per second."""
    if not rate:
        return ""
    return f"{rate / 1e9:.0f}" if rate >= 9.95e9 else f"{rate / 1e9:.1f}"


def about(cost: LayerCost) -> str:
    """A layer's kind, output, parameters and memory."""
    found = [f"{cost.kind} → {shape(cost.output)}" if cost.output else cost.kind]
    if cost.calls > 1:
        found.append(f"called {cost.calls} times")
    if cost.parameters:
        found.append(words.count(cost.parameters, "weight"))
    if cost.activation_bytes:
        found.append(f"{words.size(cost.activation_bytes)} out")
    if cost.peak_share is not None:
        found.append(f"{words.share(cost.peak_share)} of peak")
    if cost.plus_minus is not None:
        found.append(f"± {words.seconds(cost.plus_minus)}")
    return ", ".join(found)
