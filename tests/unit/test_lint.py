"""Files in, unmeasured findings out."""

import json
from pathlib import Path

import pytest

from fitscope.lint import Selection, lint
from fitscope.model import FitscopeError, Where

EAGER = 'import keras\nmodel = keras.Sequential([])\nmodel.compile("sgd", "mse", run_eagerly=True)\n'
BOTH = EAGER + 'keras.callbacks.TensorBoard(update_freq="batch")\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(linted):
    return [finding.name for finding in linted.findings]


def book(*cells, **metadata):
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps(
        {"nbformat": 4, "metadata": metadata, "cells": [{"cell_type": "markdown", "source": "#"}, *made]}
    )


def test_a_finding_has_a_place_and_says_that_it_is_unmeasured(folder):
    (folder / "train.py").write_text(EAGER)
    (finding,) = lint([folder / "train.py"]).findings
    assert (finding.code, finding.name, finding.family) == ("FS303", "eager-execution", "execution")
    assert finding.where == Where("train.py", 3)
    assert finding.says.endswith("(unmeasured: fitscope run train.py shows what it costs)")
    assert finding.evidence == ()
    assert finding.estimated is None
    assert finding.remedy


def test_a_script_that_does_not_train_has_no_findings(folder):
    (folder / "server.py").write_text("model.compile(run_eagerly=True)\n")
    assert lint([folder]).findings == ()


# --- files -------------------------------------------------------------------------------------------------


def test_folders_are_searched_for_scripts_and_notebooks_but_not_where_others_keep_theirs(folder):
    for place in ("a", "a/b", ".git", ".venv", "__pycache__", "node_modules", "env"):
        (folder / place).mkdir()
        (folder / place / "train.py").write_text(EAGER)
    (folder / "env" / "pyvenv.cfg").write_text("")
    (folder / "a" / "train.ipynb").write_text(book(EAGER))
    (folder / "a" / "notes.txt").write_text(EAGER)
    linted = lint([folder])
    assert [finding.where.file for finding in linted.findings] == [
        "a/train.ipynb:cell 2",
        "a/train.py",
        "a/b/train.py",
    ]
    assert linted.files == 3


def test_a_file_named_twice_is_read_once(folder):
    (folder / "train.py").write_text(EAGER)
    assert len(lint([folder, folder / "train.py", folder / "train.py"]).findings) == 1


def test_a_named_file_is_read_whatever_its_name(folder):
    (folder / "train").write_text(EAGER)
    assert names(lint([folder / "train"])) == ["eager-execution"]


def test_a_missing_path_is_an_error(folder):
    with pytest.raises(FitscopeError, match=r"there is no file or folder none\.py"):
        lint([Path("none.py")])


def test_a_folder_without_python_is_an_error(folder):
    with pytest.raises(FitscopeError, match="there is no Python file in"):
        lint([folder])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"x = (\n", "line 1 is no Python that this version reads: '(' was never closed"),
        (b"print 'old'\n", "line 1 is no Python"),
        (b"type X = int\nx = f'{a!r:{'b'}}' match\n", "is no Python"),
        (b"a = 1\nb = '\xff\xfe'\n", "line 2 is not in the encoding of the file, utf-8."),
        (b"# coding: klingon\n", "its encoding is not known"),
        (b"a = 1\x00\n", "is no Python"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_and_the_others_are_read(folder, content, problem):
    (folder / "bad.py").write_bytes(content)
    (folder / "good.py").write_text(EAGER)
    linted = lint([folder])
    assert names(linted) == ["eager-execution"]
    (said,) = linted.problems
    assert said.startswith("bad.py: ")
    assert problem in said
    assert "\n" not in said
    assert linted.files == 1


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + EAGER.encode(),
        b"# -*- coding: latin-1 -*-\n# \xe9\n" + EAGER.encode(),
        EAGER.replace("\n", "\r\n").encode(),
        ("# \u2028 \x0c\n" + EAGER).encode(),
    ],
)
def test_the_encodings_and_line_ends_of_python_are_read(folder, content):
    (folder / "train.py").write_bytes(content)
    linted = lint([folder])
    assert linted.problems == ()
    (finding,) = linted.findings
    text = content.decode("latin-1").replace("\r\n", "\n")
    assert "run_eagerly" in text.split("\n")[finding.where.line - 1]


# --- notebooks ---------------------------------------------------------------------------------------------


def test_a_finding_in_a_notebook_names_its_cell_and_the_line_there(folder):
    (folder / "train.ipynb").write_text(book("import keras\nmodel = keras.Sequential([])", "x = 1\n" + EAGER))
    (finding,) = lint([folder]).findings
    assert finding.where == Where("train.ipynb:cell 3", 4)
    assert finding.says.endswith("(unmeasured: %%fitscope in its cell shows what it costs)")


def test_the_cells_of_a_notebook_share_their_names(folder):
    (folder / "train.ipynb").write_text(
        book("import keras\nmodel = keras.Sequential([])", "for i in range(len(x)):\n    model.predict(x[i:i + 1])")
    )
    assert names(lint([folder])) == ["predict-in-loop"]


@pytest.mark.parametrize(
    "cell",
    [
        "%matplotlib inline\n!pip install keras\n",
        "%%time\n",
        "%%capture out\n",
        "files = !ls\nwhere = %pwd\n",
        "!pip install \\\n   keras \\\n   numpy\n",
        "if True:\n    !pip install keras\n",
        "keras.Model?\n",
        "await something()\n",
    ],
)
def test_what_only_ipython_understands_does_not_hide_the_rest_of_a_cell(folder, cell):
    (folder / "train.ipynb").write_text(book(cell + EAGER))
    linted = lint([folder])
    assert linted.problems == ()
    (finding,) = linted.findings
    assert finding.where.line == cell.count("\n") + 3


def test_a_cell_in_another_language_is_passed_over(folder):
    (folder / "train.ipynb").write_text(book("%%bash\nfor x in y; do z; done", EAGER))
    linted = lint([folder])
    assert (names(linted), linted.problems) == (["eager-execution"], ())


def test_a_cell_that_is_no_python_is_a_problem_of_that_cell(folder):
    (folder / "train.ipynb").write_text(book("x = (", EAGER))
    linted = lint([folder])
    assert names(linted) == ["eager-execution"]
    assert linted.problems[0].startswith("train.ipynb: cell 2: line 1 is no Python")


def test_an_indented_cell_is_read_as_ipython_reads_it(folder):
    (folder / "train.ipynb").write_text(book("".join(f"  {line}\n" for line in EAGER.splitlines())))
    assert names(lint([folder])) == ["eager-execution"]


def test_a_notebook_of_another_language_has_no_findings(folder):
    (folder / "train.ipynb").write_text(book("x <- 1", kernelspec={"language": "R"}))
    linted = lint([folder])
    assert (linted.findings, linted.problems, linted.files) == ((), (), 1)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"cells": [1]}', '{"cells": 3}'])
def test_what_is_no_notebook_is_one_line(folder, content):
    (folder / "train.ipynb").write_text(content)
    assert lint([folder]).problems == ("train.ipynb: it is no notebook.",)


# --- what is wanted ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selection", "found"),
    [
        (Selection(), ["eager-execution", "per-batch-logging"]),
        (Selection(select=("eager-execution",)), ["eager-execution"]),
        (Selection(select=("FS203",)), ["per-batch-logging"]),
        (Selection(select=("execution", "fs203")), ["eager-execution", "per-batch-logging"]),
        (Selection(ignore=("callbacks",)), ["eager-execution"]),
        (Selection(select=("callbacks",), ignore=("per-batch-logging",)), []),
    ],
)
def test_causes_are_selected_and_ignored_by_name_code_or_family(folder, selection, found):
    (folder / "train.py").write_text(BOTH)
    assert names(lint([folder], selection)) == found


def test_an_unknown_cause_is_an_error_with_the_nearest_name(folder):
    (folder / "train.py").write_text(BOTH)
    with pytest.raises(FitscopeError, match=r"there is no cause 'eager-executoin'\. Did you mean eager-execution\?"):
        lint([folder], Selection(select=("eager-executoin",)))


def test_the_nearest_pyproject_with_our_table_counts(folder):
    (folder / "pyproject.toml").write_text('[tool.fitscope]\nignore = ["eager-execution"]\n')
    (folder / "a").mkdir()
    (folder / "a" / "pyproject.toml").write_text('[project]\nname = "a"\n')
    (folder / "a" / "train.py").write_text(BOTH)
    (folder / "b").mkdir()
    (folder / "b" / "pyproject.toml").write_text('[tool.fitscope]\nselect = ["execution"]\n')
    (folder / "b" / "train.py").write_text(BOTH)
    found = {finding.where.file: finding.name for finding in lint([folder]).findings}
    assert found == {"a/train.py": "per-batch-logging", "b/train.py": "eager-execution"}


def test_the_command_line_selects_instead_of_pyproject_and_ignores_in_addition(folder):
    (folder / "pyproject.toml").write_text('[tool.fitscope]\nselect = ["execution"]\nignore = ["retracing"]\n')
    (folder / "train.py").write_text(BOTH)
    assert names(lint([folder], Selection(select=("callbacks",)))) == ["per-batch-logging"]
    assert names(lint([folder], Selection(ignore=("eager-execution",)))) == []


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ('[tool.fitscope]\nselect = ["nonsense"]\n', "pyproject.toml: there is no cause 'nonsense'"),
        ('[tool.fitscope]\nignore = "retracing"\n', "pyproject.toml: .tool.fitscope. ignore is a list of names"),
        ("[tool.fitscope]\nselect = [1]\n", "pyproject.toml: .tool.fitscope. select is a list of names"),
        ("[tool\n", "pyproject.toml cannot be read"),
    ],
)
def test_a_mistake_in_pyproject_is_one_sentence(folder, table, sentence):
    (folder / "pyproject.toml").write_text(table)
    (folder / "train.py").write_text(BOTH)
    with pytest.raises(FitscopeError, match=sentence):
        lint([folder])


@pytest.mark.parametrize(
    "text",
    [
        EAGER.replace("True)", "True)  # fitscope: allow eager-execution"),
        EAGER.replace("model.c", "# fitscope: allow eager-execution\nmodel.c"),
        EAGER.replace("True)", "True)  # fitscope: allow retracing, eager-execution"),
        EAGER.replace("True)", "True)  # fitscope: allow FS303"),
        EAGER.replace("True)", "True,\n)  # fitscope: allow eager-execution"),
        EAGER.replace('("sgd"', '(  # fitscope: allow eager-execution\n"sgd"'),
    ],
)
def test_a_comment_silences_the_finding_of_its_statement(folder, text):
    (folder / "train.py").write_text(text)
    assert lint([folder]).findings == ()


@pytest.mark.parametrize(
    "text",
    [
        EAGER.replace("True)", "True)  # fitscope: allow retracing"),
        EAGER.replace("model.c", "x = 1  # fitscope: allow eager-execution\nmodel.c"),
        EAGER.replace("model.c", '"# fitscope: allow eager-execution"\nmodel.c'),
        EAGER + "# fitscope: allow eager-execution\n",
    ],
)
def test_other_comments_do_not(folder, text):
    (folder / "train.py").write_text(text)
    assert names(lint([folder])) == ["eager-execution"]


def test_a_comment_that_allows_what_does_not_exist_is_a_problem(folder):
    (folder / "train.py").write_text(EAGER.replace("True)", "True)  # fitscope: allow eager-executions"))
    linted = lint([folder])
    assert names(linted) == ["eager-execution"]
    assert linted.problems == ("train.py:3: there is no cause 'eager-executions'. Did you mean eager-execution?",)
