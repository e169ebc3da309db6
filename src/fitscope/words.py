"""Numbers and names into words: the one place that decides how a duration, a share or a place is printed."""

from __future__ import annotations

from pathlib import Path

from fitscope.model import Evidence, Speedup, Where

_OBEYED = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_MARKS = dict.fromkeys((code for code in _OBEYED if chr(code) not in "\t\n\r"), "\ufffd")


def harmless(text: str) -> str:
    """Text with a mark in place of what a terminal obeys, or what turns around the text behind it."""
    return text.translate(_MARKS)


def seconds(value: float) -> str:
    """A duration with three figures: 1.23 s, 45.6 ms, 789 µs, 12 min 30 s, 3 h 05 min."""
    if value < 0:
        return "-" + seconds(-value)
    if value >= 3599.5:
        minutes = round(value / 60)
        return f"{minutes // 60} h {minutes % 60:02d} min"
    if value >= 99.95:
        whole = round(value)
        return f"{whole // 60} min {whole % 60:02d} s"
    if value >= 0.9995:
        return f"{_three_figures(value)} s"
    if value >= 0.0009995:
        return f"{_three_figures(value * 1e3)} ms"
    if value == 0:
        return "0 s"
    return f"{_three_figures(value * 1e6)} µs"


def difference(value: float) -> str:
    """Seconds more or less: +1.20 ms, -350 µs."""
    return ("+" if value >= 0 else "-") + seconds(abs(value))


def share(value: float) -> str:
    """A part of a whole: 81 %, 4.2 %, 0.3 %, <0.1 %."""
    percent = value * 100
    if percent >= 9.95:
        return f"{percent:.0f} %"
    if 0 < percent < 0.05:
        return "<0.1 %"
    return f"{percent:.1f} %"


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 step, 900 steps, 1,000,000 steps."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural(noun)}"


def plural(noun: str) -> str:
    """More than one of it."""
    if noun.endswith(("s", "sh", "tch", "x")):
        return noun + "es"
    return noun + "s"


def place(where: Where | None) -> str:
    """train.py:40; of a file that is not below the script's folder only the name."""
    if where is None:
        return ""
    file = where.file if not Path(where.file).is_absolute() else f"…/{Path(where.file).name}"
    return f"{file}:{where.line}"


def path(file: Path) -> str:
    """A path, relative where it is below the working folder."""
    here = Path.cwd()
    return (file.relative_to(here) if file.is_absolute() and file.is_relative_to(here) else file).as_posix()


def size(bytes_: float) -> str:
    """An amount of memory: 512 MB, 3.4 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if bytes_ < 999.5:
            return f"{_three_figures(bytes_)} {unit}" if unit != "B" else f"{bytes_:.0f} B"
        bytes_ /= 1000
    return f"{_three_figures(bytes_)} TB"


def rate(value: float) -> str:
    """So many per second, with three figures: 12,300, 45.6, 0.82."""
    if value >= 999.5:
        unit = 10 ** (len(str(round(value))) - 3)
        return f"{round(value / unit) * unit:,}"
    return _three_figures(value)


def speedup(value: Speedup) -> str:
    """How many times faster: 2.1 to 3.0 times faster, up to 1.2 times faster."""
    digits = 2 if value.high < 1.15 else 1
    low, high = (f"{number:.0f}" if number >= 9.95 else f"{number:.{digits}f}" for number in (value.low, value.high))
    if low == high:
        return f"{high} times faster"
    if float(low) <= 1.0:
        return f"up to {high} times faster"
    return f"{low} to {high} times faster"


def verified(value: Speedup) -> str:
    """What an experiment showed: 2.1 to 2.3 times faster; not confirmed: 0.98 to 1.03 times as fast."""
    digits = 2 if value.high < 2 else 1
    low, high = (f"{number:.0f}" if number >= 9.95 else f"{number:.{digits}f}" for number in (value.low, value.high))
    as_fast = f"{low} to {high}" if low != high else low
    if value.low <= 1:
        return f"not confirmed: {as_fast} times as fast"
    return f"{as_fast} times faster"


def evidence(value: Evidence) -> str:
    """A number that a finding rests on: 81 % of the training waits for data; 45 ms per call; calls: 300."""
    if value.unit == "share":
        return f"{share(value.value)} {value.what}"
    if value.unit == "seconds":
        return f"{seconds(value.value)} {value.what}"
    if value.unit == "bytes":
        return f"{size(value.value)} {value.what}"
    number = f"{value.value:,.0f}" if value.value >= 10 or value.value == int(value.value) else f"{value.value:.1f}"
    return f"{number} times as much {value.what}" if value.unit == "times" else f"{value.what}: {number}"


def _three_figures(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
