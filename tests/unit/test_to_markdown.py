import re

import pytest
import shown_runs as runs
from rich.console import Console
from rich.markdown import Markdown

from fitscope import words
from fitscope.report.to_markdown import to_markdown

HOSTILE = [
    "</details><script>alert(1)</script>",
    "**a** _b_ `c` | d [e](http://f) ![g](h)",
    "@everyone #1",
    "a\n# b\n\n| c |",
    "\u202ea\u2066b\x1b[2J",
]


def rendered(text):
    out = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    out.print(Markdown(text))
    out.file.close()
    return out.export_text()


def test_the_verdict_stands_first_and_the_parts_add_up_in_a_table(tmp_path):
    text = to_markdown(runs.full(tmp_path))
    assert text.startswith("**The training stands still while Waits.on\\_train\\_batch\\_end works.**\n")
    assert f"| **100 %** | **{words.seconds(89.5)}** | **in all** |" in text
    rows = re.findall(r"^\| (\S+ %) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    assert ("31 %", "27.5 s", "data: tf.data") in rows
    assert "+    fitscope.Every(Waits.on_train_batch_end)" in text
    assert "- verified: **1.31 to 1.42 times faster**, " in text
    assert "- verified: no verdict: busy" in text
    assert "callback: Waits.on_train_batch_end" in rendered(text)


def without_code(text):
    """Without the diffs: nothing in them is markup."""
    return re.sub(r"^  (`{3,})diff\n.*?^  \1$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_shown_as_they_are_and_call_nobody(tmp_path, name):
    text = without_code(to_markdown(runs.full(tmp_path, name)))
    assert "<script>" not in text
    assert text.count("</details>") == 1
    assert "@everyone" not in text
    assert not [line for line in text.splitlines() if line.startswith("# ")]
    assert not set(to_markdown(runs.full(tmp_path, name))) & set("\u202e\u2066\x1b")
    assert max(len(line) for line in without_code(to_markdown(runs.full(tmp_path, "x" * 10_000))).splitlines()) < 1200
