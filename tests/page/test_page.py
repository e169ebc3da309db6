"""The HTML report in a real browser, from a file and without a network."""

import json
from dataclasses import replace

import pytest
import shown_runs as runs
from axe_playwright_python.sync_playwright import Axe

from fitscope import words
from fitscope.model import Speedup
from fitscope.report.to_html import FORMATS, to_html
from fitscope.report.to_json import to_json

HOSTILE = {
    "script": "</script><script>alert(1)</script><img src=x onerror=alert(2)>",
    "style": "</style><style>*{display:none}",
    "quotes": "\"'`><svg onload=alert(3)>&lt;b&gt;",
    "template": "{{ 7 * 7 }}{% raise %}${7*7}",
    "right to left": "\u202eevil\u2066 שלום עולם مرحبا",
    "long": "x" * 10_000,
    "emoji": "🔥" * 50 + "\u200d\ufe0f",
    "broken": "half \ud83d a pair \x00 \x1b[31m \x7f",
}


@pytest.fixture
def report(tmp_path):
    return runs.full(tmp_path)


def value_at(report, path):
    value = report
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def numbers(page):
    """Every number on the page: where it stands in the JSON report, how it is printed, and as what."""
    return page.eval_on_selector_all(
        "data[data-path]", "found => found.map(each => [each.dataset.path, each.dataset.as, each.textContent])"
    )


def test_every_number_on_the_page_is_the_one_of_the_json_report(open_page, report):
    page = open_page(to_html(report))
    value = json.loads(to_json(report))
    found = numbers(page)
    for path, kind, text in found:
        number = value_at(value, path)
        assert text == (FORMATS[kind](number) if kind in FORMATS else words.count(int(number), kind)), path
    paths = {path for path, _, _ in found}
    for index, region in enumerate(value["regions"]):
        for part in range(len(region["parts"])):
            assert {f"regions.{index}.parts.{part}.seconds", f"regions.{index}.parts.{part}.share"} <= paths
        for epoch in range(len(region["course"]["epochs"])):
            assert f"regions.{index}.course.epochs.{epoch}.wall_seconds" in paths
    for index, finding in enumerate(value["findings"]):
        assert f"findings.{index}.estimated" in paths
        assert {f"findings.{index}.evidence.{number}" for number in range(len(finding["evidence"]))} <= paths


def test_a_number_that_the_json_report_does_not_have_cannot_be_printed():
    with pytest.raises(AttributeError, match="path"):
        to_html.__globals__["_environment"]().from_string("{{ 0.5 | share }}").render()


def test_the_verdict_comes_first_and_everything_has_its_place(open_page, report):
    page = open_page(to_html(report))
    assert page.locator("h1").inner_text() == "The training stands still while Waits.on_train_batch_end works."
    assert "1.31 to 1.42 times faster without it, shown by experiment" in page.locator("header").inner_text()
    headings = page.locator("h2").all_inner_texts()
    assert headings == [
        "Where the time went",
        "What to change",
        "How it went on",
        "The input",
        "Layers",
        "Your code",
        "Over time",
        "Other places that train, evaluate or predict",
        "What fitscope could not see",
    ]
    assert page.locator(".slow b").inner_text() == "map"
    assert page.locator(".pipeline").first.locator("b").all_inner_texts() == ["tensorslice", "map", "prefetch", "fit"]
    assert page.locator(".hot .text").all_inner_texts() == ["        wait()"]
    outliers = page.locator(".outliers li").all_inner_texts()
    assert outliers[0].startswith("step 1, the first of epoch 1: 6.50 s, 11 times the median. Around that")
    assert outliers[1].startswith("step 58: 3.25 s")
    assert page.locator("pre .added").first.inner_text() == "+    fitscope.Every(Waits.on_train_batch_end)"
    unseen = page.locator("#unseen + ul").inner_text()
    assert "worker processes" in unseen
    assert "could not be read" in unseen


def test_what_an_experiment_did_not_confirm_is_no_gain(open_page, report):
    finding = replace(report.findings[0], verified=Speedup(0.98, 1.03))
    page = open_page(to_html(replace(report, findings=(finding,))))
    assert "By experiment not confirmed: 0.98 to 1.03 times as fast." in page.locator("header").inner_text()
    assert "not confirmed" not in " ".join(page.locator(".gain").all_inner_texts())


def test_everything_can_be_reached_and_opened_with_the_keyboard(open_page, report):
    page = open_page(to_html(report))
    wanted = page.evaluate(
        "[...document.querySelectorAll('summary, a[href], [tabindex=\"0\"]')].filter("
        "each => each.tabIndex >= 0 && each.checkVisibility()).length"
    )
    reached = set()
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        place = page.evaluate(
            "[...document.querySelectorAll('*')].indexOf(document.activeElement) * "
            "(document.activeElement === document.body ? 0 : 1)"
        )
        if place > 0:
            reached.add(place)
    assert len(reached) == wanted
    for summary in page.locator("main > section > details > summary").all():
        before = summary.evaluate("each => each.parentElement.open")
        summary.focus()
        page.keyboard.press("Enter")
        assert summary.evaluate("each => each.parentElement.open") is not before
    validation = page.locator("#r0-validation")
    validation.evaluate("each => { each.open = false }")
    page.locator(".legend a", has_text="validation").first.focus()
    page.keyboard.press("Enter")
    assert validation.evaluate("each => each.open && each.matches(':has(:target)')")


def test_a_click_into_the_bar_opens_the_phase(open_page, report):
    page = open_page(to_html(report))
    callback = page.locator("#r0-callback")
    assert not callback.evaluate("each => each.open")
    page.locator("svg.bar a:has(rect.callback)").first.click()
    assert callback.evaluate("each => each.open")
    assert callback.locator(".label", has_text="Waits.on_train_batch_end").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page, report, scheme):
    page = open_page(to_html(report), scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["impact"], each["nodes"][0]["html"]) for each in found] == []


@pytest.mark.parametrize("width", [320, 375, 1000])
def test_nothing_sticks_out_to_the_side(open_page, report, width):
    page = open_page(to_html(report), width=width)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_light_and_dark_are_what_the_reader_has_set(open_page, report):
    colors = [
        open_page(to_html(report), scheme=scheme).evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        )
        for scheme in ("light", "dark")
    ]
    assert colors[0] == ["rgb(255, 255, 255)", "rgb(27, 31, 36)"]
    assert colors[1] == ["rgb(20, 23, 27)", "rgb(231, 234, 238)"]


def test_print_has_everything_that_is_folded_on_the_screen(open_page, report):
    page = open_page(to_html(report), scheme="dark")
    folded = page.locator("#r0-callback .inner .label").first
    assert not folded.is_visible()
    page.emulate_media(media="print")
    assert folded.is_visible()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_do_no_harm(open_page, tmp_path, name):
    file = f"{name[:100]}.py".replace("\x00", "")
    html = to_html(runs.full(tmp_path, name, file))
    page = open_page(html, width=375)
    assert page.locator("script").count() == 0
    assert page.locator("img").count() == 0
    assert page.locator("style").count() == 1
    assert page.locator("h2").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    assert "49" not in page.title()
    start = name[:100].encode("utf-8", "replace").decode()
    for control in "\x00\x1b\x7f\u202e\u2066":
        start = start.replace(control, "\ufffd")
    assert start in page.locator("h1").text_content()
    assert len(html) < 1_000_000


def test_a_run_of_a_million_steps_makes_a_small_page(open_page, tmp_path):
    report = runs.long_run(tmp_path / "long.run")
    assert report.account.regions[0].steps == 1_000_000
    html = to_html(report)
    assert len(html.encode()) < 1_000_000
    page = open_page(html)
    assert page.evaluate("document.querySelectorAll('*').length") < 5_000
    assert "1,000,000 steps" in page.locator("main").inner_text()
    assert page.locator(".outliers li").count() == 8
    epochs = page.locator(".epoch-row")
    assert (epochs.first.is_visible(), epochs.last.is_visible()) == (True, False)
    page.locator(".later > summary").focus()
    page.keyboard.press("Enter")
    assert epochs.last.is_visible()
    assert epochs.last.inner_text().startswith("epoch 99")


def test_a_run_without_a_training_says_so(open_page):
    from made import Tree

    from fitscope.account import account
    from fitscope.diagnose import diagnose

    run = Tree().run()
    page = open_page(to_html(diagnose(run, account(run))))
    assert page.locator("h1").inner_text().startswith("No training was seen")
