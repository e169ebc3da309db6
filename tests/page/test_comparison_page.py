"""The page of a comparison in a real browser, from a file and without a network."""

import json

from axe_playwright_python.sync_playwright import Axe
from test_page import numbers, value_at

from fitscope import words
from fitscope.model import Change, Comparison, PartChange, RegionChange, Side, Where
from fitscope.report.comparison import to_json
from fitscope.report.comparison_page import to_html
from fitscope.report.to_html import FORMATS

EVIL = "</td></style><script>alert(1)</script>\u202e{{ 7 * 7 }}"


def side(name):
    return Side(name, 3, "train.py", (), ("4f2a1c9",), "jax", 1_780_000_000.0, 31.4)


COMPARISON = Comparison(
    a=side("before"),
    b=side(EVIL),
    verdict="slower",
    times=1.1,
    low=1.05,
    high=1.15,
    spread=0.02,
    spread_seen=True,
    repeat=None,
    regions=(
        RegionChange(
            call="fit",
            where=Where("train.py", 40),
            steps=(900, 800),
            per_step=Change(0.01, 0.011, 0.0005, 0.0015, "slower"),
            parts=(
                PartChange("callback", EVIL, None, "step", Change(0.0, 0.001, 0.0008, 0.0012, "slower")),
                PartChange("data", "arrays", None, "step", Change(0.002, 0.001, -0.0012, -0.0008, "faster")),
                PartChange("compile", "", None, "run", Change(1.0, 1.1, -0.2, 0.4, "no difference seen")),
            ),
        ),
    ),
    same_machine=True,
    differences=(f"arguments: none → {EVIL}",),
    doubts=(),
)


def test_every_number_is_the_jsons_and_nothing_stands_in_the_way_of_reading_it(open_page):
    for width, scheme in ((1000, "light"), (375, "dark")):
        page = open_page(to_html(COMPARISON, ("slower", 0.05)), width=width, scheme=scheme)
        value = json.loads(to_json(COMPARISON, "slower"))
        found = numbers(page)
        for path, kind, text in found:
            number = value_at(value, path)
            assert text == (FORMATS[kind](number) if kind in FORMATS else words.count(int(number), kind)), path
        assert {"regions.0.per_step.difference", "regions.0.parts.2.change.before", "a.runs"} <= {
            each[0] for each in found
        }
        assert page.locator("h1").inner_text().startswith("B is slower: 10 % more time per step")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert Axe().run(page).response["violations"] == []
