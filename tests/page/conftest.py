"""A real browser, without a network; without one on the machine these tests are skipped."""

import shutil

import pytest

pytest.importorskip("playwright", reason="the playwright package is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: `make browser` installs it where it may")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield running
        running.close()


class Opened:
    """A page that was opened from a file, with what it asked for and complained about."""

    def __init__(self, page, path):
        self.page = page
        self.requests, self.complaints = [], []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        page.goto(path.as_uri())


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens a page; afterwards nothing but the file was asked for and nothing was complained about."""
    contexts, opened = [], []

    def open_it(html, *, width=1000, scheme="light"):
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True, reduced_motion="reduce"
        )
        contexts.append(context)
        found = Opened(context.new_page(), path)
        opened.append((found, path))
        return found.page

    yield open_it
    for found, path in opened:
        assert [url.partition("#")[0] for url in found.requests] == [path.as_uri()]
        assert found.complaints == []
    for context in contexts:
        context.close()
