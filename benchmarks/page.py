"""How large the page of a long run is, and how long a browser takes to open it.

    python benchmarks/page.py --steps 1000000

The run is written by the recorder itself, under a clock of its own. The page is opened five times from its file in
chromium, without a network, each time in a new window; printed is the time to the load event, by the browser's clock.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit"))
from shown_runs import long_run

from fitscope.report.to_html import to_html


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        report = long_run(Path(folder, "long.run"), steps)
        read = time.perf_counter()
        page = Path(folder, "page.html")
        page.write_text(to_html(report), encoding="utf-8")
        print(f"{report.account.regions[0].steps:,} steps; the run took {read - began:.1f} s to write and read")
        print(f"page: {page.stat().st_size / 1000:.0f} kB, made in {time.perf_counter() - read:.2f} s")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            opened = []
            for _ in range(5):
                context = browser.new_context(offline=True)
                tab = context.new_page()
                tab.goto(page.as_uri())
                opened.append(tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000)
                context.close()
            browser.close()
        print(f"opened in {median(opened):.3f} s (from {min(opened):.3f} to {max(opened):.3f})")


if __name__ == "__main__":
    main()
