import gzip
import json
import os
import webbrowser

import pytest
from click.testing import CliRunner
from made import sink, train

from fitscope import store
from fitscope.cli.show_ import command
from fitscope.model import FitscopeError


@pytest.fixture
def show(recording, clock, tmp_path, monkeypatch):
    """`fitscope show` in a folder with one run."""
    monkeypatch.chdir(tmp_path)
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    train(recording, clock, steps=20)
    recording.remove_sink(written)
    written.close()

    def run(*arguments):
        return CliRunner().invoke(command, ["a.run", *arguments], catch_exceptions=False, standalone_mode=False)

    return run


def test_a_page_is_written_where_it_was_asked_for(show, tmp_path):
    result = show("--html", "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Content-Security-Policy" in page
    assert "<script" not in page
    assert (result.stdout, result.stderr) == ("", "fitscope: wrote report.html\n")


def test_the_page_is_opened_beside_the_run(show, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or True)
    show("--open")
    assert opened == [(tmp_path / "a.html").as_uri()]
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")


def test_where_there_is_no_browser_the_file_is_named(show, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert "no browser was found here: open a.html yourself" in show("--open").stderr


def test_a_page_beside_a_run_goes_when_the_run_goes(tmp_path):
    for name in ("train-20261117-100000", "train-20261117-110000"):
        sink(tmp_path / f"{name}.run").close()
        (tmp_path / f"{name}.html").write_text("")
    os.utime(tmp_path / "train-20261117-100000.run", (1, 1))
    store.prune(tmp_path, keep=1)
    assert [path.name for path in tmp_path.glob("*.html")] == ["train-20261117-110000.html"]


def test_markdown_goes_to_stdout(show):
    result = show("--markdown")
    assert "### fit train.py:40" in result.stdout
    assert "| 67 % | 40.0 s | step |" in result.stdout


def test_several_forms_may_be_asked_for_at_once(show, tmp_path):
    result = show("--html", "a.html", "--perfetto", "trace.json.gz", "--json")
    assert json.loads(result.stdout)["regions"][0]["steps"] == 20
    assert (tmp_path / "a.html").exists()
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--html", "missing/report.html"], "cannot write missing/report.html: No such file or directory."),
        (["--perfetto", "missing/trace.json"], "cannot write missing/trace.json: No such file or directory."),
        (["--html", "a.run"], "a.run is a run file"),
        (["--json", "--markdown"], "ask for one of them"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(show, arguments, says):
    with pytest.raises(FitscopeError, match=says.replace("/", ".")):
        show(*arguments)
