"""The report as one page: no network, no script, and every number as the JSON report has it.

The template is given the JSON report itself. A number can be printed only by a filter that finds in it the path
it has there, so a number that was computed on the way to the page is an error.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from fitscope import words
from fitscope.model import Evidence, FitscopeError, Region, Report, Run, Speedup, Where
from fitscope.report import charts, phrases
from fitscope.report.layers import gigaflops
from fitscope.report.to_json import report_value

MOST_REGIONS = 12
MOST_PARTS = 100
LONGEST_NAME = 160
FRAME_HEIGHT = 720
LONGEST_LINE = 200
BEFORE, AFTER = 2, 3
"""Lines of source that are shown before and after one that costs."""


def to_html(report: Report, *, framed: bool = False) -> str:
    """The page; `framed`: as the content of a notebook's frame."""
    value = numbered(report_value(report))
    return rendered(
        "page.html",
        ["page.css"],
        framed=framed,
        report=report,
        value=value,
        started=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(report.run.started)),
        regions=list(zip(report.account.regions, value["regions"], strict=True))[:MOST_REGIONS],
        rest=value["regions"][MOST_REGIONS:],
        machine=_machine(value),
        files=list(_files(report, value)),
    )


def rendered(template: str, styles: list[str], *, framed: bool = False, **values: Any) -> str:
    """A page from its template: it may do nothing but show itself in its own style."""
    environment = _environment()
    style = "".join(environment.get_template(name).render() for name in styles)
    page = environment.get_template(template).render(
        style=Markup(style), policy=_policy(style, framed), framed=framed, **values
    )
    return words.harmless(page).encode("utf-8", "replace").decode("utf-8")


def in_a_frame(report: Report) -> str:
    """The page as a notebook shows it: in a frame of its own, which may run nothing."""
    page = escape(to_html(report, framed=True))
    return (
        f'<iframe sandbox="" title="fitscope report" srcdoc="{page}" width="100%" height="{FRAME_HEIGHT}" '
        'style="border: 0; display: block"></iframe>'
    )


def write(report: Report, path: Path) -> None:
    """Writes the page; a run may not be written over."""
    if path.is_file() and path.read_bytes()[:16].startswith(b'{"fitscope_run"'):
        raise FitscopeError(f"{path} is a run file: choose another name for the page.")
    path.write_text(to_html(report), encoding="utf-8")


class Number(float):
    """A number of the JSON report that knows where it stands there."""

    path: str


class Value(dict[str, Any]):
    """An object of the JSON report that knows where it stands there."""

    path: str


def numbered(value: Any, path: str = "") -> Any:
    """The same value, with numbers and objects that know their path."""
    if isinstance(value, dict):
        found = Value({key: numbered(each, f"{path}.{key}" if path else key) for key, each in value.items()})
        found.path = path
        return found
    if isinstance(value, (list, tuple)):
        return [numbered(each, f"{path}.{index}") for index, each in enumerate(value)]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = Number(value)
        number.path = path
        return number
    return value


FORMATS: dict[str, Callable[[Any], str]] = {
    "seconds": words.seconds,
    "difference": words.difference,
    "share": words.share,
    "size": words.size,
    "cores": lambda value: f"{value:.1f}",
    "times": lambda value: f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}",
    "number": lambda value: f"{value:,.0f}",
    "gigaflops": gigaflops,
    "evidence": lambda value: words.evidence(Evidence(value["what"], float(value["value"]), value["unit"])),
    "speedup": lambda value: words.speedup(Speedup(float(value["low"]), float(value["high"]))),
    "verified": lambda value: words.verified(Speedup(float(value["low"]), float(value["high"]))),
}
"""How the page prints what; what is not in here is counted: steps, epochs, calls."""


def _shown(kind: str) -> Callable[..., Markup]:
    def show(value: Number | Value, noun: str = "") -> Markup:
        text = words.count(int(value), noun) if noun and not isinstance(value, dict) else FORMATS[kind](value)
        shown = Markup('<data value="{}" data-path="{}" data-as="{}">{}</data>')
        raw = "" if isinstance(value, dict) else repr(float(value))
        return shown.format(raw, value.path, noun or kind, text)

    return show


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("fitscope.report", "page"),
        autoescape=lambda name: name is None or name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({kind: _shown(kind) for kind in FORMATS})
    environment.filters.update(counted=_shown(""), name=_name, place=_place)
    environment.globals.update(
        charts=charts,
        phrases=phrases,
        words=words,
        grouped=_grouped,
        main_part=_main_part,
        diff_class=_diff_class,
        most_parts=MOST_PARTS,
        bottleneck=_bottleneck,
    )
    return environment


def _name(text: str, longest: int = LONGEST_NAME) -> Markup:
    """A name of the user's: kept apart from the text around it whatever its direction, and not without end."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return Markup("<bdi>{}</bdi>").format(Markup("<wbr>").join(_JOINTS.split(short)))


_JOINTS = re.compile(r"(?<=\w\.)(?=[^\W\d])")
"""Where a long name may go on in the next line of a narrow page: Logger.|on_train_batch_end."""


def _place(where: dict[str, Any] | None) -> Markup:
    if where is None:
        return Markup("")
    file, _, line = words.place(Where(where["file"], int(where["line"]))).rpartition(":")
    file = file if len(file) <= LONGEST_NAME else f"…{file[-LONGEST_NAME + 1 :]}"
    return Markup('<span class="place"><bdi>{}</bdi>:{}</span>').format(file, line)


def _grouped(region: Region, value: Any) -> list[tuple[Any, list[tuple[Any, Any]]]]:
    """The phases of a region, each with its parts."""
    pairs = list(zip(region.parts, value["parts"], strict=True))
    return [(phase, [pair for pair in pairs if pair[0].phase == phase["phase"]]) for phase in value["phases"]]


def _main_part(parts: list[tuple[Any, Any]]) -> str:
    """The name of the part that is nearly all of its phase, if there is one and it says more than the phase."""
    whole = sum(part.seconds for part, _ in parts)
    largest = max((part for part, _ in parts), key=lambda part: part.seconds)
    if largest.seconds < 0.8 * whole or largest.name in ("", largest.phase, "rest"):
        return ""
    return str(largest.name)


def _diff_class(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "quiet"
    return {"+": "added", "-": "removed"}.get(line[:1], "same")


def _bottleneck(region: Region) -> int | None:
    """Which stage of the pipeline holds the training up."""
    stage = phrases.slowest(region)
    if stage is None:
        return None
    return next(
        (i for i, each in enumerate(region.pipeline) if each.seconds_per_batch == stage.seconds_per_batch), None
    )


def _machine(value: Any) -> list[charts.Series]:
    samples = value["machine"]["use"].get("over_time", [])
    if len(samples) < 3 or not value["wall_seconds"]:
        return []
    return charts.machine(samples, value["wall_seconds"], int(value["machine"].get("cores") or 0))


def _files(report: Report, value: Any) -> Iterator[dict[str, Any]]:
    """The user's files with the lines that cost something, and the source around them where it is at hand."""
    costs = sorted(value["lines"], key=lambda cost: (cost["where"]["file"], cost["where"]["line"]))
    files = [(file, list(some)) for file, some in groupby(costs, key=lambda cost: cost["where"]["file"])]
    for file, some in sorted(files, key=lambda item: -max(cost["seconds"] for cost in item[1])):
        text = _source(report.run, file)
        yield {
            "file": f"…/{Path(file).name}" if Path(file).is_absolute() else file,
            "costs": some,
            "known": bool(text),
            "pieces": list(_pieces(text, some)),
        }


def _pieces(text: list[str], costs: list[Any]) -> Iterator[list[dict[str, Any]]]:
    """Runs of neighboring lines, each with its costs."""
    by_line: dict[int, list[Any]] = {}
    for cost in costs:
        by_line.setdefault(int(cost["where"]["line"]), []).append(cost)
    shown = sorted(
        {near for line in by_line for near in range(line - BEFORE, line + AFTER + 1) if 1 <= near <= len(text)}
    )
    for _, some in groupby(enumerate(shown), key=lambda pair: pair[1] - pair[0]):
        yield [
            {"number": line, "text": text[line - 1][:LONGEST_LINE], "costs": by_line.get(line, [])}
            for _, line in some
        ]


def _source(run: Run, file: str) -> list[str]:
    """The lines of a file of the user's, if it has not changed since the run began."""
    path = Path(run.cwd, file)
    try:
        if not path.is_file() or path.stat().st_mtime > run.started:
            return []
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []


def _policy(style: str, framed: bool) -> str:
    """What the page may do: nothing but its own style."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    base = "" if framed else "; base-uri 'none'"
    return f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'none'{base}"
