"""`fitscope lint` as its users call it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fitscope import cli

EAGER = 'import keras\nmodel = keras.Sequential([])\nmodel.compile("sgd", "mse", run_eagerly=True)\n'
LINE = (
    "train.py:3: FS303 eager-execution: This runs every training step operation by operation, without compiling it "
    "(unmeasured: fitscope run train.py shows what it costs)\n"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def answer(monkeypatch, capsys):
    """What the command says: exit code, stdout, stderr."""

    def answer(*words):
        monkeypatch.setattr(sys, "argv", ["fitscope", "lint", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return answer


def test_findings_are_lines_on_stdout_and_exit_code_1(folder, answer):
    (folder / "train.py").write_text(EAGER)
    assert answer("train.py") == (1, LINE, "")


def test_nothing_found_is_exit_code_0(folder, answer):
    (folder / "train.py").write_text("import keras\n")
    assert answer(".") == (0, "", "fitscope: nothing found in 1 file.\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["none.py"], "fitscope: there is no file or folder none.py.\n"),
        (["empty"], "fitscope: there is no Python file in empty.\n"),
        (["bad.py"], "fitscope: bad.py: line 1 is no Python that this version reads: '(' was never closed\n"),
        (["good.py", "--select", "nonsense-x"], "fitscope: there is no cause 'nonsense-x'."),
        (["good.py", "--format", "xml"], "fitscope: Invalid value for '--format'"),
        ([], "fitscope: Missing argument"),
    ],
)
def test_a_mistake_is_one_sentence_on_stderr_and_exit_code_2(folder, answer, words, sentence):
    (folder / "empty").mkdir()
    (folder / "bad.py").write_text("x = (\n")
    (folder / "good.py").write_text(EAGER)
    code, out, err = answer(*words)
    assert (code, out) == (2, "")
    assert err.startswith(sentence)
    assert len(err.splitlines()) == 1


def test_a_file_that_cannot_be_read_does_not_hide_the_findings_of_another(folder, answer):
    (folder / "bad.py").write_text("x = (\n")
    (folder / "train.py").write_text(EAGER)
    code, out, err = answer(".")
    assert (code, out) == (1, LINE)
    assert err.startswith("fitscope: bad.py: line 1")


def test_names_are_separated_by_commas_or_given_again(folder, answer):
    (folder / "train.py").write_text(EAGER)
    assert answer("train.py", "--ignore", "retracing,eager-execution")[0] == 0
    assert answer("train.py", "--select", "retracing", "--select", "execution")[0] == 1


def test_json_has_the_fields_of_show(folder, answer):
    (folder / "train.py").write_text(EAGER)
    code, out, _ = answer("train.py", "--format", "json")
    value = json.loads(out)
    assert code == 1
    assert (value["schema"], value["files"], value["problems"]) == (1, 1, [])
    (finding,) = value["findings"]
    assert set(finding) >= {
        *("code", "name", "family", "says", "where", "evidence", "estimated", "verified", "remedy", "fixable")
    }
    assert finding["where"] == {"file": "train.py", "line": 3}
    assert (finding["evidence"], finding["estimated"], finding["verified"]) == ([], None, None)


def test_json_is_json_when_nothing_is_found(folder, answer):
    (folder / "train.py").write_text("import keras\n")
    code, out, err = answer("train.py", "--format", "json")
    assert (code, json.loads(out)["findings"], err) == (0, [], "")


def test_annotations_for_github_are_escaped(folder, answer):
    (folder / "a,b:c%.py").write_text(EAGER)
    code, out, _ = answer(".", "--format", "github")
    assert code == 1
    assert out.startswith("::warning file=a%2Cb%3Ac%25.py,line=3,title=FS303 eager-execution::This runs every")
    assert "fitscope run a,b:c%25.py shows" in out
    assert len(out.splitlines()) == 1


def test_an_annotation_of_a_notebook_says_its_cell(folder, answer):
    cell = {"cell_type": "code", "source": EAGER}
    (folder / "train.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}))
    _, out, _ = answer(".", "--format", "github")
    assert out.startswith("::warning file=train.ipynb,line=1,title=FS303 eager-execution::cell 1, line 3: This runs")


def test_sarif_names_its_rules_and_its_places(folder, answer):
    (folder / "my train.py").write_text(EAGER + 'keras.callbacks.TensorBoard(update_freq="batch")\n')
    code, out, _ = answer(".", "--format", "sarif")
    log = json.loads(out)
    assert code == 1
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "fitscope"
    assert [rule["id"] for rule in driver["rules"]] == ["FS203", "FS303"]
    assert all(rule["shortDescription"]["text"].endswith(".") for rule in driver["rules"])
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert "unmeasured" in result["message"]["text"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "my%20train.py"}, "region": {"startLine": 3}}


def test_sarif_of_nothing_is_a_run_without_results(folder, answer):
    (folder / "train.py").write_text("import keras\n")
    code, out, _ = answer("train.py", "--format", "sarif")
    assert (code, json.loads(out)["runs"][0]["results"]) == (0, [])


def test_linting_imports_neither_keras_nor_a_backend(folder):
    (folder / "train.py").write_text(EAGER)
    code = (
        "import sys; from fitscope import cli; sys.argv = ['fitscope', 'lint', 'train.py']\n"
        "try:\n    cli.main()\nexcept SystemExit: pass\n"
        "print({'keras', 'tensorflow', 'jax', 'torch', 'numpy', 'fitscope.observe'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.endswith("set()\n")


def test_the_hook_for_pre_commit_runs_the_command():
    text = Path(__file__).parents[2].joinpath(".pre-commit-hooks.yaml").read_text()
    assert "- id: fitscope-lint\n" in text
    assert "  entry: fitscope lint\n" in text
