"""A sweep in the forms that people and programs read: a table with a curve for the terminal, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fitscope import words
from fitscope.model import SCHEMA, Sweep, SweepPoint
from fitscope.report.bars import WIDTH
from fitscope.version import __version__

LONGEST_VALUE = 22
SHORTEST_CURVE = 6
KNEE = "◂ knee"
BATCHES_MATTER = (
    "A larger batch changes the optimization, too: fewer updates per epoch, less noise in each; the learning rate "
    "often has to follow. Throughput is not the time to a good model."
)
PRECISION_MATTERS = "Another precision changes the results, too: hold the scores against each other."
WHAT_COUNTS = "Steps only: without compiling, the first second, validation and what happens between epochs."


def to_json(sweep: Sweep) -> str:
    """All of it."""
    return json.dumps(
        {"schema": SCHEMA, "fitscope": __version__, **asdict(sweep), "says": list(says(sweep))}, indent=1
    )


def to_terminal(sweep: Sweep, out: Console) -> None:
    """Prints the table with the curve, and below it what follows from it."""
    head = Text("fitscope sweep  ", style="bold").append(Path(sweep.script).name, style="not bold")
    rounds = words.count(max((point.runs for point in sweep.points), default=0), "round")
    reused = f", {sweep.reused} from before" if sweep.reused else ""
    head.append(f"  ·  {words.count(sweep.runs, 'run')} in {rounds}{reused}", style="not bold")
    out.print(head)
    out.print()
    out.print(_table(sweep))
    out.print()
    for number, line in enumerate(says(sweep)):
        out.print(Text(line, style="bold" if number == 0 else ""), width=min(WIDTH, out.width))


def _table(sweep: Sweep) -> Table:
    named = [(label(sweep, axis), _widest(sweep, axis)) for axis in sweep.axes]
    columns = [*named, (f"{sweep.unit}/s", 13), ("step", 7), ("memory", 7), ("× own" if sweep.own else "× 1st", 5)]  # noqa: RUF001
    gap = 2 if sum(width + 2 for _, width in columns) <= WIDTH else 1
    curve = max(0, WIDTH - sum(width + gap for _, width in columns))
    rows = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="")
    for name, width in columns:
        rows.add_column(name, justify="right", width=width, overflow="ellipsis")
    rows.add_column("", width=curve, no_wrap=True, overflow="crop")
    best = max((point.rate.value for point in sweep.points if point.rate is not None), default=0.0)
    for point in sweep.points:
        cells = [*(_word(value) for value in point.settings.values()), *_row(sweep, point)]
        bar = _curve(sweep, point, best, curve - len(KNEE) - 1)
        rows.add_row(*(Text(cell, no_wrap=True) for cell in (*cells, bar)), style=_style(sweep, point))
    return rows


def label(sweep: Sweep, axis: str) -> str:
    """A setting as a person reads it; of the script's own argument its name."""
    if axis != "value":
        return axis.replace("_", " ")
    before, place = "", ""
    for argument in sweep.argv:
        if "{}" in argument:
            place = argument.partition("{}")[0] or before
            break
        before = argument
    return place.strip("-=") or "value"


def _style(sweep: Sweep, point: SweepPoint) -> str:
    return "bold" if point.base and sweep.own else ""


def _widest(sweep: Sweep, axis: str) -> int:
    texts = [*label(sweep, axis).split(), *(_word(point.settings[axis]) for point in sweep.points)]
    return min(LONGEST_VALUE, max(map(len, texts)))


def _row(sweep: Sweep, point: SweepPoint) -> list[str]:
    if point.rate is None:
        return [point.state, "", "", ""]
    times = "own" if point.base and sweep.own else f"{point.times.value:.2f}" if point.times is not None else ""
    return [
        f"{words.rate(point.rate.value)} {_give_or_take(point)}",
        words.seconds(point.step_seconds or 0.0),
        words.size(point.device_memory_bytes or point.memory_bytes or 0),
        times,
    ]


def _curve(sweep: Sweep, point: SweepPoint, best: float, longest: int) -> str:
    if point.rate is None or longest < SHORTEST_CURVE:
        return ""
    if point.state != "measured":
        return point.state
    # Eighths of a block, so that small differences are seen.
    whole, rest = divmod(round(point.rate.value / best * longest * 8), 8)
    knee = f" {KNEE}" if _is_knee(sweep, point) else ""
    return "█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else "") + knee


def values(point: SweepPoint) -> str:
    """The values of a point: 64; on, float32."""
    return ", ".join(_word(value) for value in point.settings.values())


def _word(value: object) -> str:
    return "on" if value is True else "off" if value is False else str(value)


def _give_or_take(point: SweepPoint) -> str:
    if point.state != "measured" or point.rate is None:
        return "±  ? "
    half = max(point.rate.high / point.rate.value - 1, 1 - point.rate.low / point.rate.value)
    return f"±{half * 100:2.0f} %"


def _is_knee(sweep: Sweep, point: SweepPoint) -> bool:
    knee = sweep.knee
    return knee is not None and not knee.last and float(point.settings[sweep.axes[0]]) == knee.value


# --- sentences ---------------------------------------------------------------------------------------------


def says(sweep: Sweep) -> Iterator[str]:
    """The verdict first, then what has to be known with it."""
    yield from sweep.doubts
    if not sweep.doubts:
        yield from _verdict(sweep)
    for point in sweep.points:
        if point.rate is None and point.state in ("does not fit", "failed"):
            yield f"{values(point)}: {_in_full(point)}"
    if "batch_size" in sweep.axes or len({round(point.rows) for point in sweep.points if point.rows}) > 1:
        yield BATCHES_MATTER
    if "precision" in sweep.axes:
        yield PRECISION_MATTERS
    if sweep.unit == "steps" and not sweep.doubts:
        yield "How many examples a step has is not known here: steps are counted."
    yield WHAT_COUNTS
    yield _circumstances(sweep)


def _in_full(point: SweepPoint) -> str:
    said = point.says if len(point.says) <= 300 else f"{point.says[:300]}…"
    return f"{point.state}: {said}".rstrip(".") + "."


def _verdict(sweep: Sweep) -> Iterator[str]:
    measured = [point for point in sweep.points if point.state == "measured" and point.rate is not None]
    if not measured:
        yield "No point could be measured."
        return
    if sweep.knee is not None:
        yield _knee(sweep, measured)
        return
    best = max(measured, key=lambda point: point.rate.value if point.rate else 0.0)
    name = ", ".join(f"{label(sweep, axis)} {_word(value)}" for axis, value in best.settings.items())
    if best.base or best.times is None:
        yield f"Nothing is faster than {name}{', as the script has it' if best.base and sweep.own else ''}."
        return
    times = f"{best.times.low:.2f} to {best.times.high:.2f} times the {sweep.unit} per second"
    if best.times.low > 1:
        yield f"The fastest is {name}: {times}."
    else:
        yield f"No difference seen: the best is {name}, with {times}."


def _knee(sweep: Sweep, measured: list[SweepPoint]) -> str:
    assert sweep.knee is not None
    knee, name = sweep.knee, label(sweep, sweep.axes[0])
    limit = next((point for point in sweep.points if point.state == "does not fit"), None)
    if knee.last:
        end = f"; {values(limit)} does not fit" if limit is not None else ": larger values may be faster still"
        return f"No knee up to {name} {knee.value:g}: doubling still gains 10 % and more there{end}."
    if knee.low != knee.high:
        return (
            f"The knee is about {name} {knee.value:g}: noise allows anything from {knee.low:g} to {knee.high:g}. "
            "Beyond it doubling gains less than 10 %."
        )
    return f"The knee is {name} {knee.value:g}: beyond it doubling gains less than 10 %."


def _circumstances(sweep: Sweep) -> str:
    busy = f"In the runs that count other programs used at most {sweep.foreign_cores:.1f} processors."
    once = " One round only: more --budget makes the intervals sure." if sweep.runs and _rounds(sweep) < 2 else ""
    return f"{busy} ± is where the rate lies in 19 of 20 cases.{once}"


def _rounds(sweep: Sweep) -> int:
    return min((point.runs for point in sweep.points if point.runs), default=0)
