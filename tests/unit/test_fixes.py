"""Findings in, the smallest right changes out: each kind of edit on code as people write it."""

import ast
import dataclasses

import pytest

from fitscope.fix import apply, findings_of, fixes
from fitscope.fixes import BY_CAUSE, KINDS
from fitscope.fixes.jax_steps import _multiple
from fitscope.fixes.kind import Project, Recompiled, changed_sizes
from fitscope.lint import lint
from fitscope.model import Evidence, Finding, Where
from fitscope.rules import CATALOG, find
from fitscope.rules.tfdata import WOULD_HELP, calls_at_once

HEAD = """import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential([keras.layers.Dense(1)])
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    return tmp_path


@pytest.fixture
def fixed(folder):
    """The script after all edits for what the linter finds, with what was said."""

    def fix(text, *, unsafe=False, findings=None):
        (folder / "train.py").write_bytes(text.encode() if isinstance(text, str) else text)
        project = Project(folder / "train.py", here=folder)
        found = fixes(project, findings if findings is not None else findings_of(project), unsafe=unsafe)
        applied = apply(project, [edit for edit in found.edits if edit.safe or unsafe])
        after = [each.raw for each in applied.after if each.name == "train.py"]
        return (after or [None])[0], found

    return fix


def measured(name, text, line, says="", file="train.py", **evidence):
    """A finding as a run would give it, at the line that holds this text."""
    rule = find(name)
    numbers = [number for number, each in enumerate(text.split("\n"), 1) if line in each]
    shown = tuple(Evidence("of the training is spent in it", value, unit) for unit, value in evidence.items())
    where = Where(file, numbers[0])
    return [Finding(rule.code, name, rule.family, says, where, shown, None, "By hand.", fixable=True)]


def only_line_changed(before, after):
    old, new = before.split("\n"), after.split("\n")
    changed = [(one, other) for one, other in zip(old, new, strict=True) if one != other]
    assert len(changed) == 1
    return changed[0][1]


def test_every_fixable_rule_has_a_kind_of_edit_and_no_other():
    assert {rule.name for rule in CATALOG if rule.fixable} == set(BY_CAUSE)
    assert all(kind.__doc__ for kind in KINDS)


CASES = [(rule, number) for rule in CATALOG for number in range(len(rule.examples)) if rule.fixable]


@pytest.mark.parametrize(("rule", "number"), CASES, ids=lambda value: getattr(value, "name", value))
def test_the_edit_of_a_slow_example_is_python_and_removes_what_the_linter_found(fixed, folder, rule, number):
    text = rule.examples[number].slow.lstrip("\n")
    (folder / "train.py").write_text(text)
    found = [finding for finding in lint([folder / "train.py"]).findings if finding.name == rule.name]
    after, result = fixed(text, unsafe=True, findings=found)
    assert len(result.edits) + len(result.advice) == (1 if found else 0)
    if after is not None:
        ast.parse(after)
        (folder / "train.py").write_text(after)
        assert rule.name not in [finding.name for finding in lint([folder / "train.py"]).findings]


@pytest.mark.parametrize(
    "name",
    [
        "eager-execution",
        "fit-in-loop",
        "repeated-preprocessing",
        "misplaced-cache",
        "single-worker-loader",
        "counterproductive-workers",
        "retracing",
    ],
)
def test_the_edit_of_the_slow_example_is_the_fast_example(fixed, name):
    example = find(name).examples[0]
    slow, fast = example.slow.lstrip("\n"), example.fast.lstrip("\n")
    line = example.line or "model.fit("
    after, _ = fixed(slow, findings=measured(name, slow, line))
    assert after == fast


# --- the file around an edit -------------------------------------------------------------------------------

EAGER = 'model.compile("sgd", "mse", run_eagerly=True)\n'


@pytest.mark.parametrize(
    "head",
    [
        "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n",
        '"""Größe."""\nfrom __future__ import annotations\n',
        "\ufeff",
        "\ufeff# comment\n",
        "name = 'äöü'; ",
    ],
    ids=["shebang and encoding", "docstring", "byte order mark", "mark and comment", "wide letters on the line"],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["unix", "windows", "old mac"])
def test_all_but_the_edit_stays_to_the_byte(fixed, head, newline):
    before = (head + HEAD + EAGER + "print('fertig: ä')\n").replace("\n", newline)
    after, _ = fixed(before)
    assert after == before.replace(", run_eagerly=True", "")


def test_line_ends_that_differ_and_a_missing_last_one_stay(fixed):
    before = HEAD.replace("\n", "\r\n") + 'x = 1\nmodel.compile("sgd", run_eagerly=True)'
    assert fixed(before)[0] == before.replace(", run_eagerly=True", "")


def test_another_encoding_stays(folder, fixed):
    before = ("# -*- coding: latin-1 -*-\n" + HEAD + "name = 'Größe'\n" + EAGER).encode("latin-1")
    fixed(before)
    project = Project(folder / "train.py", here=folder)
    applied = apply(project, fixes(project, findings_of(project)).edits)
    assert applied.after[0].encoded() == before.replace(b", run_eagerly=True", b"")
    assert "Größe".encode("latin-1") in applied.diff()


def test_a_letter_of_many_bytes_before_the_edit_on_its_line_counts_once(fixed):
    before = HEAD + 'model.compile("sgd", loss={"größe": "mse", "高さ": "mse"}, run_eagerly=True)\n'
    assert only_line_changed(before, fixed(before)[0]) == before.splitlines()[-1].replace(", run_eagerly=True", "")


# --- arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("model.compile(run_eagerly=True)", "model.compile()"),
        ("model.compile(run_eagerly=True,)", "model.compile()"),
        ('model.compile(run_eagerly=True, loss="mse")', 'model.compile(loss="mse")'),
        ("model.compile(loss=1, run_eagerly=True, optimizer=2)", "model.compile(loss=1, optimizer=2)"),
        ('model.compile(loss=("mse"), run_eagerly=True)', 'model.compile(loss=("mse"))'),
        (
            'model.compile(\n\tloss="mse",  # squares\n\trun_eagerly=True,  # to debug\n\toptimizer="sgd",\n)',
            'model.compile(\n\tloss="mse",  # squares\n\toptimizer="sgd",\n)',
        ),
        (
            'model.compile(loss="mse",  # squares\n              run_eagerly=True)',
            'model.compile(loss="mse",  # squares\n              )',
        ),
        ("model.compile(*args, run_eagerly=True, **more)", "model.compile(*args, **more)"),
    ],
)
def test_an_argument_is_taken_out(fixed, before, after):
    assert fixed(f"{HEAD}{before}\n")[0] == f"{HEAD}{after}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("model.compile()", "model.compile(steps_per_execution=32)"),
        ('model.compile("sgd", "mse")', 'model.compile("sgd", "mse", steps_per_execution=32)'),
        ('model.compile("sgd", ("mse"))', 'model.compile("sgd", ("mse"), steps_per_execution=32)'),
        ('model.compile("sgd", *rest)', 'model.compile("sgd", *rest, steps_per_execution=32)'),
        ('model.compile("sgd", loss="mse",)', 'model.compile("sgd", loss="mse", steps_per_execution=32)'),
        (
            'model.compile(\n    "sgd",\n    "mse",  # squares)\n)',
            'model.compile(\n    "sgd",\n    "mse",  # squares)\n    steps_per_execution=32,\n)',
        ),
        (
            'model.compile(\n\t"sgd",\n\t"mse"  # squares\n)',
            'model.compile(\n\t"sgd",\n\t"mse",  # squares\n\tsteps_per_execution=32\n)',
        ),
        (
            'model.compile("sgd",\n              "mse")',
            'model.compile("sgd",\n              "mse", steps_per_execution=32)',
        ),
        ("model.compile(steps_per_execution=1)", "model.compile(steps_per_execution=32)"),
    ],
)
def test_an_argument_is_added_as_the_others_are_written(fixed, before, after):
    text = f"{HEAD}{before}\nmodel.fit(x, y)\n"
    assert fixed(text, findings=measured("step-overhead", text, "model.fit"))[0] == (
        f"{HEAD}{after}\nmodel.fit(x, y)\n"
    )


def test_arguments_from_a_dictionary_may_hold_it_already(fixed):
    text = f"{HEAD}model.compile(**settings)\nmodel.fit(x, y)\n"
    after, found = fixed(text, findings=measured("step-overhead", text, "model.fit"))
    assert after is None
    assert "dictionary" in found.advice[0].why


# --- names and imports -------------------------------------------------------------------------------------

PREFETCH = """data = X.Dataset.from_generator(lambda: iter([]), output_types=1)
options = X.Options()
options.experimental_optimization.inject_prefetch = False
data = data.with_options(options)
"""


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("import tensorflow as tf2", "tf2.data"),
        ("import tensorflow", "tensorflow.data"),
        ("from tensorflow import data as tfd", "tfd"),
    ],
)
def test_names_are_written_as_the_script_imports_them(fixed, line, written):
    before = f"{line}\n" + PREFETCH.replace("X", written)
    assert fixed(before)[0] == before.replace("(options)", f"(options).prefetch({written}.AUTOTUNE)")


WATCH = """import time
from keras import callbacks as cb
import tensorflow.keras as k


class Watch(cb.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


model = k.Sequential([k.layers.Dense(1)])
model.fit(x, y, callbacks=[
    Watch(),  # slow
    cb.EarlyStopping(),
])
"""


def test_a_callback_under_another_name_goes_to_the_background_and_the_import_comes_behind_the_others(fixed):
    after, found = fixed(WATCH)
    assert after == WATCH.replace("    Watch(),", "    fitscope.Background(Watch()),").replace(
        "import tensorflow.keras as k\n", "import tensorflow.keras as k\nimport fitscope\n"
    )
    assert found.edits[0].safe


def test_an_import_that_is_there_is_used(fixed):
    before = WATCH.replace("import time\n", "import time\nimport fitscope as fs\n")
    after, _ = fixed(before)
    assert "fs.Background(Watch())" in after
    assert "import fitscope\n" not in after


def test_an_import_goes_behind_docstring_and_future_where_there_is_no_other(fixed):
    before = '#!/usr/bin/env python\n"""Trains."""\nfrom __future__ import annotations\n\n' + WATCH.replace(
        "import time\nfrom keras import callbacks as cb\nimport tensorflow.keras as k\n",
        "def load():\n    pass\n\nimport time; from keras import callbacks as cb; import tensorflow.keras as k\n",
    )
    after, _ = fixed(before)
    assert after.index("from __future__") < after.index("import fitscope\n") < after.index("Background")
    ast.parse(after)


def test_a_name_that_is_taken_stops_the_edit(fixed):
    after, found = fixed(WATCH + "fitscope = 1\n")
    assert after is None
    assert "taken" in found.advice[0].why


# --- callbacks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("self.model.stop_training = True", "uses the model"),
        ("self.model.save('x.keras')", "uses the model"),
        ("logs['seen'] = 1", "changes logs"),
        ("plt.savefig('x.png')", "main thread"),
    ],
)
def test_a_callback_that_has_to_stay_in_the_training_is_not_sent_away(fixed, line, reason):
    text = WATCH.replace("time.sleep(0.01)", f"time.sleep(0.01)\n        {line}")
    text = text.replace("import time\n", "import time\nimport matplotlib.pyplot as plt\n")
    after, found = fixed(text, findings=measured("slow-epoch-callback", text, "time.sleep(0.01)"))
    assert after is None
    assert reason in found.advice[0].why


def test_a_callback_that_asks_another_model_stays(fixed):
    text = WATCH.replace("time.sleep(0.01)", "self.encoder.predict(rows)")
    after, found = fixed(text, findings=measured("slow-epoch-callback", text, "self.encoder"))
    assert after is None
    assert "predict of a model" in found.advice[0].why


def test_such_a_callback_is_called_less_often_only_where_records_may_be_lost(fixed):
    text = WATCH.replace("time.sleep(0.01)", "time.sleep(0.01); self.model.save('x.keras')")
    finding = measured("blocking-callback", text, "time.sleep(0.01)")
    assert fixed(text, findings=finding)[0] is None
    after, found = fixed(text, findings=finding, unsafe=True)
    assert "    fitscope.Every(Watch(), batches=10),  # slow" in after
    assert not found.edits[0].safe


def test_a_callback_with_a_name_is_wrapped_where_it_is_given_so_that_its_name_still_means_it(fixed):
    text = WATCH.replace("model.fit", "watch = Watch()\ncalls = [watch]\nmodel.fit").replace(
        "callbacks=[\n    Watch(),  # slow\n    cb.EarlyStopping(),\n]", "callbacks=calls"
    )
    after, _ = fixed(text + "print(watch.seen)\n")
    assert "watch = Watch()\ncalls = [fitscope.Background(watch)]\n" in after


def test_a_callback_of_another_module_is_wrapped_where_it_is_made(folder, fixed):
    (folder / "watching.py").write_text(WATCH.split("model =")[0])
    text = HEAD + "import watching\nmodel.fit(x, y, callbacks=[watching.Watch()])\n"
    (finding,) = measured("blocking-callback", WATCH, "time.sleep(0.01)", file="watching.py")
    after, found = fixed(text, findings=[finding])
    assert after == text.replace("[watching.Watch()]", "[fitscope.Background(watching.Watch())]").replace(
        "import watching\n", "import watching\nimport fitscope\n"
    )
    assert found.edits[0].file == "train.py"


def test_a_hook_that_takes_longer_than_the_rest_leaves_out_records_only_where_it_may(fixed):
    finding = measured("blocking-callback", WATCH, "time.sleep(0.01)", share=0.6)
    assert "fitscope.Background(Watch())" in fixed(WATCH, findings=finding)[0]
    assert "fitscope.Every(Watch(), batches=50)" in fixed(WATCH, findings=finding, unsafe=True)[0]


def test_a_hook_that_takes_nearly_all_of_the_training_gains_nothing_in_the_background(fixed):
    finding = measured("blocking-callback", WATCH, "time.sleep(0.01)", share=0.9)
    after, found = fixed(WATCH, findings=finding, unsafe=True)
    assert "fitscope.Every(Watch(), batches=200)" in after
    assert not found.edits[0].safe


def test_tensorboard_writes_less_only_where_records_may_be_lost(fixed):
    text = HEAD + 'board = keras.callbacks.TensorBoard("logs", histogram_freq=1, update_freq="batch")\n'
    after, found = fixed(text, unsafe=True)
    assert only_line_changed(text, after).endswith('TensorBoard("logs", histogram_freq=0, update_freq="epoch")')
    assert fixed(text)[0] is None
    assert not found.edits[0].safe


def test_checkpoints_are_written_beside_the_training(fixed):
    text = HEAD + 'saves = keras.callbacks.ModelCheckpoint(\n    f"{name}.keras",  # here\n    save_freq=10,\n)\n'
    after, _ = fixed(text)
    assert after == text.replace("keras.callbacks.ModelCheckpoint", "fitscope.BackgroundCheckpoint").replace(
        "tensorflow as tf\n", "tensorflow as tf\nimport fitscope\n"
    )


def test_a_checkpoint_of_another_kind_is_saved_per_epoch_if_fewer_will_do(fixed):
    text = HEAD + 'saves = keras.callbacks.ModelCheckpoint("model.h5", save_freq=10)\n'
    assert fixed(text)[0] is None
    assert only_line_changed(text, fixed(text, unsafe=True)[0]).endswith('save_freq="epoch")')


# --- predictions and steps ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("model.predict(row[None], verbose=0)", "model.predict_on_batch(row[None])"),
        ("model.predict(x=row[None], batch_size=1)", "model.predict_on_batch(x=row[None])"),
        ("model.predict(row[None], verbose=0)[0, 0]", "model.predict_on_batch(row[None])[0, 0]"),
        (
            "model.predict(\n        row[None],  # one\n        verbose=0,\n    )",
            "model.predict_on_batch(\n        row[None],  # one\n    )",
        ),
    ],
)
def test_a_prediction_of_one_row_is_one_of_a_batch(fixed, before, after):
    text = f"{HEAD}for row in rows:\n    answers.append({before})\n"
    assert fixed(text)[0] == text.replace(before, after)


@pytest.mark.parametrize(("rows", "few"), [("1", True), ("64", False), ("len(texts)", False)])
def test_rows_of_an_array_of_known_shape_are_few_or_many(fixed, rows, few):
    text = f"{HEAD}for text in texts:\n    x = np.zeros(({rows}, 40), 'int32')\n    x[0] = text\n"
    text += "    answers.append(model.predict(x, verbose=0)[0])\n"
    after, _ = fixed(text, findings=measured("predict-in-loop", text, "model.predict"))
    assert after == (text.replace("predict(x, verbose=0)", "predict_on_batch(x)") if few else None)


PREDICTED = f"{HEAD}rows = np.random.rand(100, 8)\nlabels, answers = rows[:, 0], []\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "answers = [model.predict(row[None], verbose=0)[0, 1] for row in rows]",
            "answers = [prediction[1] for prediction in model.predict(rows, verbose=0)]",
        ),
        (
            "answers = np.array([model.predict(np.array([row]))[0] for row in rows]) > 0.5",
            "answers = np.array([prediction for prediction in model.predict(rows)]) > 0.5",
        ),
        (
            "for i in range(len(rows)):\n    answers.append(model.predict(rows[i:i + 1], batch_size=1)[0].argmax())",
            "for i, prediction in enumerate(model.predict(rows)):\n    answers.append(prediction.argmax())",
        ),
        (
            "for row, label in zip(rows, labels):\n    p = model.predict(np.expand_dims(row, axis=0), verbose=0)\n"
            "    answers.append((p[0, 0], label))",
            "for row, label, prediction in zip(rows, labels, model.predict(rows, verbose=0)):\n"
            "    p = prediction[None]\n    answers.append((p[0, 0], label))",
        ),
        (
            "for i, row in enumerate(rows):\n"
            "    answers.append((i, row.sum(), model.predict(row.reshape(1, 4, 2))[0][0]))",
            "for i, (row, prediction) in enumerate(zip(rows, model.predict(rows.reshape(len(rows), 4, 2)))):\n"
            "    answers.append((i, row.sum(), prediction[0]))",
        ),
    ],
)
def test_rows_that_a_loop_predicts_one_by_one_are_predicted_in_one_call(fixed, before, after):
    assert fixed(f"{PREDICTED}{before}\n")[0] == f"{PREDICTED}{after}\n"


def test_a_few_rows_that_a_loop_predicts_one_by_one_are_one_batch(fixed, monkeypatch):
    text = PREDICTED.replace("rows = np.random.rand(100, 8)", "data = np.random.rand(9000, 8)\nrows = data[:40]")
    text += "answers = [model.predict(row[None], verbose=0)[0, 1] for row in rows]\n"
    assert "for prediction in model.predict_on_batch(rows)]" in fixed(text)[0]
    assert "for prediction in model.predict(rows, verbose=0)]" in fixed(text.replace(":40]", ":4000]"))[0]
    monkeypatch.setenv("KERAS_BACKEND", "jax")  # where what it gives is read-only
    assert "for prediction in model.predict(rows, verbose=0)]" in fixed(text)[0]


def test_a_row_that_is_needed_behind_the_loop_stays(fixed):
    loop = "for row in rows:\n    answers.append(model.predict(row[None])[0])\nprint(row.shape)\n"
    assert "for row, prediction in zip(rows, model.predict(rows)):" in fixed(f"{PREDICTED}{loop}")[0]


def test_the_rows_of_a_callback_are_those_that_it_was_made_with(fixed):
    text = (
        f"{PREDICTED}class Scores(keras.callbacks.Callback):\n    def __init__(self, held_out):\n"
        "        self.held_out = held_out\n\n    def on_epoch_end(self, epoch, logs=None):\n"
        "        print(sum([self.model.predict(row[None])[0, 0] for row in self.held_out]))\n\n"
        "model.fit(rows, labels, callbacks=[Scores(rows[:20])])\n"
    )
    assert "[prediction[0] for prediction in self.model.predict(self.held_out)]" in fixed(text)[0]


@pytest.mark.parametrize(
    "loop",
    [
        "for row in rows:\n    model.train_on_batch(row[None], model.predict(row[None])[0])",
        "for row in rows:\n    if row[0]:\n        answers.append(model.predict(row[None]))",
        "for row in rows:\n    rows[1:] = model.predict(row[None])[0]",
        "for row in rows:\n    answers.append(model.predict(row[None]))\n    if answers[-1] > 1:\n        break",
        "for row in rows:\n    answers.append(changed(model.predict(row[None])))",
        "answers = [model.predict(row[None, :4])[0] for row in rows]",
        "for row in rows:\n    row = row / row.sum()\n    answers.append(model.predict(row[None])[0])",
        "for row in rows:\n    row[0] = 0\n    answers.append(model.predict(row[None])[0])",
        "for row in rows:\n    np.multiply(row, 2, out=row)\n    answers.append(model.predict(row[None])[0])",
        "queue = rows\nfor i in range(len(rows)):\n    queue[i + 1 :] = model.predict(rows[i][None])[0]",
        "for row in rows:\n    model = models[int(row[0])]\n    answers.append(model.predict(row[None])[0])",
        "for row in rows:\n    a, b = model.predict(row[None])",
        "for row in rows:\n    answers.append(print_and_learn(model.predict(row[None])))",
        "for i, row in enumerate(rows):\n    answers.append(model.predict(row[None], verbose=int(i == 0)))",
        "lazy = (model.predict(row[None])[0] for row in rows)",
        "model = keras.Model(given, [one, two])\nfor row in rows:\n    answers.append(model.predict(row[None])[0])",
        "keras.layers.LSTM(8, stateful=True)\nfor row in rows:\n    answers.append(model.predict(row[None])[0])",
        "answers = [model.predict(row[None])[0] for row in reader if row is not None]",
        "answers = [model.predict(row[None])[0] for row in reader]",
    ],
)
def test_rows_whose_predictions_may_depend_on_the_ones_before_are_not_predicted_in_one_call(fixed, loop):
    after, _ = fixed(f"{PREDICTED}{loop}\n")
    assert after is None or "predict_on_batch(row" in after


@pytest.mark.parametrize(
    "call", ["model.predict(rows)", "model.predict(rows[:5000])", "model.predict(row[None], callbacks=[])"]
)
def test_a_prediction_that_may_need_more_than_a_batch_stays(fixed, call):
    text = f"{HEAD}for row in rows:\n    answers.append({call})\n"
    after, found = fixed(text, findings=measured("predict-in-loop", text, call))
    assert after is None
    assert found.advice[0].why


def test_on_jax_a_prediction_that_is_written_into_stays(fixed):
    text = f"import os\nos.environ['KERAS_BACKEND'] = 'jax'\n{HEAD}"
    loop = "for row in rows:\n    answer = model.predict(row[None])[0]\n    answer[0] = 1\n"
    assert "cannot be written" in fixed(text + loop)[1].advice[0].why
    assert "predict_on_batch" in fixed(HEAD + loop)[0]


def test_on_torch_a_prediction_that_draws_is_unsafe_where_others_draw(fixed):
    text = f"import os\nos.environ['KERAS_BACKEND'] = 'torch'\n{HEAD}"
    loop = "for row in rows:\n    answers.append(model.predict(row[None]))\n"
    assert fixed(text + loop)[1].edits[0].safe
    assert not fixed(text + loop + "model.fit(x, y)\n")[1].edits[0].safe
    assert fixed(HEAD + loop + "model.fit(x, y)\n")[1].edits[0].safe


def test_a_fit_whose_history_is_used_stays(fixed):
    text = f"{HEAD}for row in rows:\n    history = model.fit(row[None], row[None])\n"
    after, found = fixed(text, findings=measured("fit-in-loop", text, "model.fit"))
    assert after is None
    assert "returns" in found.advice[0].why


def test_a_fit_that_draws_an_order_is_unsafe_where_others_draw_from_the_same_numbers(fixed):
    text = f"{HEAD}for row in rows:\n    model.fit(row[None], row[None])\n"
    for more, safe in (("", True), ("model.fit(x, y)\n", False), ("np.random.rand()\n", False)):
        finding = measured("fit-in-loop", text, "model.fit")
        assert fixed(text + more, findings=finding)[1].edits[0].safe is safe
    text = text.replace("(row[None], row[None])", "(row[None], row[None], shuffle=False)") + "model.fit(x, y)\n"
    after, found = fixed(text, findings=measured("fit-in-loop", text, "model.fit"))
    assert "model.train_on_batch(row[None], row[None])\n" in after
    assert found.edits[0].safe


RETRACED = """import tensorflow as tf


@tf.function
def step(batch, beta):
    return BODY


number = 0
for batch in data:
    step(batch, VALUE)
    number += 1
"""


@pytest.mark.parametrize(
    ("value", "body", "reason"),
    [
        ("number", "beta * batch", "whole number"),
        ("number / 10", "batch[: int(beta)]", "more than arithmetic"),
    ],
)
def test_a_number_that_has_to_be_one_stays(fixed, value, body, reason):
    after, found = fixed(RETRACED.replace("VALUE", value).replace("BODY", body))
    assert after is None
    assert reason in found.advice[0].why


def test_a_number_given_by_name_becomes_a_tensor(fixed):
    text = RETRACED.replace("VALUE", "beta=min(1.0, number / 10)").replace("BODY", "beta * batch")
    after, _ = fixed(text)
    assert "step(batch, beta=tf.constant(min(1.0, number / 10), tf.float32))" in after


def test_numbers_in_a_dictionary_become_tensors(fixed):
    text = """import tensorflow as tf


class Loop:
    def __init__(self):
        self.weights = {"a": 1.0, "b": 1.0}

    @tf.function
    def step(self, x, weights):
        return sum(weights[name] * x[name] for name in x)

    def run(self):
        for x in data:
            self.step(x, self.weights)
            self.weights = {name: round(x[name] / 2, 4) for name in x}
"""
    finding = measured("retracing", text, "self.step(x")
    after, found = fixed(text, findings=finding)
    assert only_line_changed(text, after) == (
        "            self.step(x, {name: tf.constant(value, tf.float32) for name, value in self.weights.items()})"
    )
    assert found.edits[0].safe
    for before, instead in (("weights[name] *", "weights.get(name) *"), ('"b": 1.0', '"b": 1')):
        assert fixed(text.replace(before, instead), findings=finding)[0] is None


STEP = """import tensorflow as tf


class Loop:
    def train_step(self, rows):
        with tf.GradientTape() as tape:
            loss = model(rows)
        BODY
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    def run(self):
        for rows in data:
            self.train_step(rows)
"""


def test_a_step_that_is_pure_is_compiled(fixed):
    text = STEP.replace("        BODY\n", "")
    assert fixed(text)[0] == text.replace("    def train_step", "    @tf.function\n    def train_step")


@pytest.mark.parametrize("line", ["print(loss)", "self.last = loss", "losses.append(loss)", "float(loss)"])
def test_a_step_that_does_more_than_compute_is_not_compiled(fixed, line):
    after, found = fixed(STEP.replace("BODY", line))
    assert after is None
    assert "cannot become a graph" in found.advice[0].why


def test_a_step_that_draws_is_compiled_only_if_other_numbers_will_do(fixed):
    text = STEP.replace("BODY", "loss += tf.random.normal(())")
    after, found = fixed(text)
    assert after is None
    assert "draws other numbers" in found.edits[0].unsafe
    assert "    @tf.function\n    def train_step" in fixed(text, unsafe=True)[0]


def test_a_step_that_a_helper_applies_the_gradients_of_is_compiled(fixed):
    applies = "optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))"
    text = STEP.replace("        BODY\n", "").replace(applies, "self.apply(tape, loss)")
    text += f"\n    def apply(self, tape, loss):\n        {applies}\n"
    after, _ = fixed(text, findings=measured("eager-execution", text, "for rows in data"))
    assert after == text.replace("    def train_step", "    @tf.function\n    def train_step")


@pytest.mark.parametrize(
    ("uses", "changes"),
    [
        ("loss *= cfg.beta", "cfg.beta = 2.0"),
        ("loss *= cfg['beta']", "cfg['beta'] = 2.0"),
        ("loss += next(noise)", "pass"),
        ("history.extend([loss])", "pass"),
        ("pass", "layer.trainable = True"),
    ],
)
def test_a_step_that_something_else_has_a_say_in_is_not_compiled(fixed, uses, changes):
    text = STEP.replace("BODY", uses).replace("data:\n", f"data:\n            {changes}\n")
    assert (
        "cannot become a graph"
        in fixed(text, findings=measured("eager-execution", text, "for rows in"))[1].advice[0].why
    )


def test_a_step_for_a_model_that_a_loop_makes_anew_is_not_compiled(fixed):
    text = STEP.replace("        BODY\n", "") + "\n\nfor fold in range(5):\n    model = make()\n    Loop().run()\n"
    assert "uses model, which changes" in fixed(text)[1].advice[0].why


def test_both_steps_of_a_pair_are_compiled(fixed):
    step = STEP.replace("        BODY\n", "")
    start, stop = step.index("    def train_step"), step.index("    def run")
    both = step[:stop] + step[start:stop].replace("train_step", "other_step") + step[stop:]
    text = both + "            self.other_step(rows)\n"
    after, _ = fixed(text, findings=measured("eager-execution", text, "for rows in data"))
    assert after.count("@tf.function") == 2


def test_a_step_that_uses_what_others_set_is_not_compiled(fixed):
    text = STEP.replace("BODY", "loss *= self.weight").replace("data:\n", "data:\n            self.weight = 1.0\n")
    assert "changes outside" in fixed(text)[1].advice[0].why


def test_a_model_that_was_seen_to_run_eagerly_is_compiled_whatever_variable_says_so(fixed):
    text = f'{HEAD}model.compile("sgd", "mse", run_eagerly=args.debug)\nmodel.fit(x, y)\n'
    finding = measured("eager-execution", text, "model.fit", share=0.5)
    assert fixed(text, findings=finding)[0] is None
    assert fixed(text, unsafe=True, findings=finding)[0] == text.replace(", run_eagerly=args.debug", "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@tf.function", "@tf.function(reduce_retracing=True)"),
        ("@tf.function()", "@tf.function(reduce_retracing=True)"),
        ("@tf.function(autograph=False)", "@tf.function(autograph=False, reduce_retracing=True)"),
        ("@tf.function(jit_compile=True)", None),
        ("@compiled", None),
    ],
)
def test_one_graph_serves_all_shapes(fixed, before, after):
    text = f"{HEAD}{before}\ndef step(batch):\n    return model(batch)\n\nfor batch in data:\n    step(batch)\n"
    says = "step was traced 8 times more: changed shape (batch: (21, 4) -> (20, 4))."
    changed, found = fixed(text, findings=measured("retracing", text, "    step(batch)", says, share=0.3))
    assert changed == (text.replace(before, after) if after else None)
    assert found.edits or found.advice[0].why


WINDOWS = """import numpy as np


def part(path, start):
    whole = np.load(path)
    USE
"""


def test_of_a_file_only_the_part_that_is_used_is_read(fixed):
    text = WINDOWS.replace("USE", "return np.array(whole[start:start + 10])")
    finding = measured("oversized-records", text, "np.load")
    assert fixed(text, findings=finding)[0] == text.replace("(path)", '(path, mmap_mode="r")')
    for use in ("return whole", "whole[0] = 1\n    return whole[:3]", 'return np.load("all.npz")["x"]'):
        assert fixed(WINDOWS.replace("USE", use), findings=finding)[0] is None


def test_several_steps_at_once_are_unsafe_with_a_callback_that_counts_batches(fixed):
    text = WATCH.replace("model.fit", "model.compile('sgd')\nmodel.fit")
    _, found = fixed(text, findings=measured("step-overhead", text, "model.fit"))
    assert "Watch()" in found.edits[0].unsafe
    plain = text.replace("    Watch(),  # slow\n", "")
    assert fixed(plain, findings=measured("step-overhead", plain, "model.fit"))[1].edits[0].safe


def test_the_model_that_is_trained_is_the_one_that_is_compiled_otherwise(fixed):
    text = f"{HEAD}other = keras.Sequential([])\nother.compile('sgd')\nmodel.compile('adam')\nmodel.fit(x)\n"
    after, _ = fixed(text, findings=measured("step-overhead", text, "model.fit"))
    assert after == text.replace("model.compile('adam')", "model.compile('adam', steps_per_execution=32)")


def test_the_environment_chooses_the_backend_where_the_script_does_not(fixed, monkeypatch):
    text = f"{HEAD}model.compile()\nmodel.fit(x)\n"
    assert fixed(text, findings=measured("step-overhead", text, "model.fit"))[0] is not None
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert "PyTorch" in fixed(text, findings=measured("step-overhead", text, "model.fit"))[1].advice[0].why


def test_on_torch_steps_are_started_one_by_one(fixed):
    text = f"import os\nos.environ['KERAS_BACKEND'] = 'torch'\n{HEAD}model.compile()\nmodel.fit(x)\n"
    assert "PyTorch" in fixed(text, findings=measured("step-overhead", text, "model.fit"))[1].advice[0].why


def test_a_progress_bar_becomes_a_line_per_epoch(fixed):
    for before, after in (
        ("model.fit(x, y, 32, 5, 1)", "model.fit(x, y, 32, 5, 2)"),
        ("model.fit(x, y, verbose=1)", "model.fit(x, y, verbose=2)"),
        ("model.fit(x, y)", "model.fit(x, y, verbose=2)"),
    ):
        text = f"{HEAD}{before}\n"
        assert fixed(text, findings=measured("progress-bar", text, "model.fit"))[0] == f"{HEAD}{after}\n"


CHUNKS = """import keras


def build():
    made = keras.Sequential([keras.layers.Dense(1)])
    made.compile("adam", "mse")
    return made


def train(stream):
    weights = None
    for chunk in stream:
        # a new one
        model = build(
            # nothing
        )
        if weights is not None:
            model.set_weights(weights)
        model.fit(chunk, chunk)
        weights = model.get_weights()
"""


def test_a_model_that_goes_on_with_its_weights_is_built_once_where_its_optimizer_may_go_on_too(fixed):
    assert fixed(CHUNKS)[0] is None
    after, found = fixed(CHUNKS, unsafe=True)
    made = "        model = build(\n            # nothing\n        )\n"
    assert after == CHUNKS.replace(made, "").replace(
        "    for chunk", "    model = build(\n        # nothing\n    )\n    for chunk"
    )
    assert "optimizer" in found.edits[0].unsafe


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("        weights = model.get_weights()\n", "", "new weights"),
        ("build(\n            # nothing\n", "build(\n            chunk\n", "round to round"),
        ("        # a new one\n", "        keras.utils.set_random_seed(1)\n", "set_random_seed"),
    ],
)
def test_a_model_that_has_to_be_another_in_each_round_stays_in_the_loop(fixed, old, new, reason):
    text = CHUNKS.replace(old, new)
    after, found = fixed(text, unsafe=True, findings=measured("recompilation", text, "model.fit("))
    assert after is None
    assert reason in found.advice[0].why


def test_a_model_that_a_loop_compiles_again_is_compiled_once(fixed):
    text = f"{HEAD}for chunk in chunks:\n\tmodel.compile('adam', 'mse')\n\tmodel.fit(chunk, chunk)\n"
    after, _ = fixed(text, unsafe=True)
    assert after == f"{HEAD}model.compile('adam', 'mse')\nfor chunk in chunks:\n\tmodel.fit(chunk, chunk)\n"


# --- pipelines ---------------------------------------------------------------------------------------------

FETCH = """import time
import tensorflow as tf


def fetch(row):
    time.sleep(0.1)
    return row


def load(row):
    return tf.numpy_function(fetch, [row], tf.float32)


"""


def test_a_map_in_a_chain_over_many_lines_runs_in_parallel(fixed):
    text = FETCH + "data = (tf.data.Dataset.range(9)\n\t\t.map(load)  # slow\n\t\t.batch(3))\n"
    after, found = fixed(text)
    assert after == text.replace(
        "data = (",
        "options = tf.data.Options()\noptions.threading.private_threadpool_size = 16\ndata = (",
    ).replace(".map(load)  # slow\n", ".map(load, num_parallel_calls=16)  # slow\n\t\t.with_options(options)\n")
    assert found.edits[0].safe


@pytest.mark.parametrize(("per_batch", "calls"), [(0.01, 16), (0.3, 32), (0.6, 64), (9.0, 64)])
def test_a_function_that_waits_is_called_as_often_at_once_as_the_step_needs(per_batch, calls):
    assert calls_at_once(per_batch, step=0.01) == calls


def test_a_map_runs_as_many_calls_at_once_as_the_run_says(fixed):
    text = FETCH + "data = tf.data.Dataset.range(9).map(load).batch(3)\n"
    (found,) = measured("sequential-map", text, ".map(load)")
    found = dataclasses.replace(found, evidence=(Evidence(WOULD_HELP, 32, "count"),))
    after = fixed(text, findings=[found])[0]
    assert "options.threading.private_threadpool_size = 32\n" in after
    assert ".map(load, num_parallel_calls=32).with_options(options)" in after


def test_a_map_in_a_chain_of_backslashes_runs_in_parallel(fixed):
    text = FETCH + "data = tf.data.Dataset.range(9) \\\n    .map(load) \\\n    .batch(3)\n"
    assert ".map(load, num_parallel_calls=16) \\\n    .with_options(options) \\\n    .batch(3)\n" in fixed(text)[0]


def test_a_map_in_a_function_of_another_module_runs_in_parallel(folder, fixed):
    inside = FETCH + "def dataset():\n    return tf.data.Dataset.range(9).map(load).batch(3)\n"
    (folder / "loading.py").write_text(inside)
    _, found = fixed(f"{HEAD}from loading import dataset\nmodel.fit(dataset())\n")
    (edit,) = found.edits
    assert edit.file == "loading.py"
    (after,) = apply(found.project, [edit]).after
    assert after.raw.endswith(
        "def dataset():\n"
        "    options = tf.data.Options()\n"
        "    options.threading.private_threadpool_size = 16\n"
        "    return tf.data.Dataset.range(9).map(load, num_parallel_calls=16).with_options(options).batch(3)\n"
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("row = row + np.random.rand()", "random numbers"),
        ("row = row + generator.normal()", "generator.normal"),
        ("seen.append(row)", "seen.append"),
        ("global count", "count"),
        ("cache[0] = row", "cache[0]"),
    ],
)
def test_python_code_that_keeps_something_between_calls_is_unsafe_in_parallel(fixed, line, reason):
    text = "import numpy as np\n" + FETCH.replace("    time.sleep", f"    {line}\n    time.sleep")
    _, found = fixed(text + "data = tf.data.Dataset.range(9).map(load)\n")
    assert reason in found.edits[0].unsafe


DECODE = """import tensorflow as tf
import keras
blobs = tf.data.Dataset.list_files("*.png", shuffle=False)


def decode(blob):
    return tf.io.decode_png(blob)


def flip(image):
    return tf.image.random_flip_left_right(image)


"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("blobs.cache().map(decode).batch(8)", "blobs.map(decode).cache().batch(8)"),
        ("blobs.cache('x').map(decode).map(flip)", "blobs.map(decode).cache('x').map(flip)"),
        ("blobs.cache().shuffle(9).map(decode).batch(8)", "blobs.map(decode).cache().shuffle(9).batch(8)"),
        (
            "(blobs\n  .cache()\n  .shuffle(9)\n  .map(decode)\n  .batch(8))",
            "(blobs\n  .map(decode)\n  .cache().shuffle(9)\n  .batch(8))",
        ),
        ("(blobs\n  .cache()\n  .map(decode)\n  .batch(8))", "(blobs\n  .map(decode)\n  .cache()\n  .batch(8))"),
    ],
)
def test_a_cache_moves_behind_the_work(fixed, before, after):
    finding = measured("misplaced-cache", f"{DECODE}data = {before}\n", ".cache(")
    changed, found = fixed(f"{DECODE}data = {before}\n", unsafe=True, findings=finding)
    assert changed == f"{DECODE}data = {after}\n"
    assert found.edits[0].safe is ("'x'" not in before)  # the file of an earlier run


def test_what_the_validation_maps_in_the_same_way_is_kept_as_well(fixed):
    text = f"{DECODE}data = blobs.map(decode).batch(8)\nheld_out = others.map(decode).batch(8)\n"
    text = text.replace("others.", "tf.data.Dataset.from_tensor_slices(y).")
    text += "model = keras.Sequential()\nmodel.fit(data, epochs=3, validation_data=held_out)\n"
    finding = measured("repeated-preprocessing", text, "data = blobs")
    assert fixed(text, findings=finding)[0] == text.replace(".map(decode)", ".map(decode).cache()")
    random = text.replace("slices(y).", "slices(y).map(flip).")
    assert fixed(random, findings=finding)[0].count(".cache()") == 1
    steps = text.replace("epochs=3", "epochs=3, validation_steps=2")
    assert fixed(steps, findings=finding)[0].count(".cache()") == 1


@pytest.mark.parametrize(
    "lines",
    [
        "base = blobs.cache().shuffle(9)\ndata = base.map(decode)\nraw = base.batch(8)",
        "data = blobs.cache().shuffle(9).map(decode).take(100)",
        "data = (blobs\n    .cache()\n    .shuffle(9)  # all of them\n    .map(decode))",
    ],
)
def test_a_shuffle_that_others_need_where_it_is_stays(fixed, lines):
    text = f"{DECODE}{lines}\n"
    assert fixed(text, findings=measured("misplaced-cache", text, ".cache()"))[0] is None


HARDER = """
class Harder(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        state["level"] = 2


state = {"level": 1}
"""


@pytest.mark.parametrize(
    "body",
    [
        "buffer = np.empty(9)\n    while True:\n        buffer[:] = rows\n        yield buffer",
        "while True:\n        yield rows * state['level']",
        "while True:\n        yield model(rows)",
        "for _ in range(9):\n        yield rows",
    ],
    ids=["one buffer", "what a callback sets", "the model", "an end"],
)
def test_a_generator_that_may_not_be_read_ahead_is_not(fixed, body):
    text = f"{HEAD}def batches(rows):\n    {body}\n\n\n{HARDER}model.fit(batches(x), steps_per_epoch=9)\n"
    assert fixed(text, findings=measured("single-worker-loader", text, "def batches"))[0] is None


def test_a_cache_in_a_statement_of_its_own_moves_with_it(fixed):
    text = f"{DECODE}data = blobs\ndata = data.cache()\ndata = data.map(decode)\n"
    after, _ = fixed(text, findings=measured("misplaced-cache", text, "data.cache()"))
    assert after == f"{DECODE}data = blobs\ndata = data.map(decode).cache()\n"


@pytest.mark.parametrize("taken", ["data = data.take(9)", "if few:\n    data = data.take(few)"])
def test_a_cache_moves_behind_a_take_in_another_statement(fixed, taken):
    text = f"{DECODE}data = blobs.map(decode)\ndata = data.cache()\n{taken}\ndata = data.shuffle(9).batch(8)\n"
    finding = measured("misplaced-cache", text, "data.cache()")
    after, found = fixed(text, findings=finding)
    assert after == text.replace("data = data.cache()\n", "").replace("data.shuffle", "data.cache().shuffle")
    assert found.edits[0].safe
    shuffled = text.replace("blobs.map", "blobs.shuffle(99).map")
    assert "another order in every pass" in fixed(shuffled, findings=finding)[1].edits[0].unsafe
    used = f"{text}others = data.batch(3)\nfor x in data.take(1):\n    show(x)\n"
    assert fixed(used.replace("data = data.shuffle", "train = data.shuffle"), findings=finding)[0] is None


def test_a_cache_that_others_read_as_a_whole_stays_before_the_take(fixed):
    text = f"{DECODE}data = blobs.map(decode).cache()\nsmall = data.take(9)\ntrain = small.batch(8)\n"
    finding = measured("misplaced-cache", text, ".cache()")
    assert ".take(9)\ntrain = small.cache().batch(8)" in fixed(text, findings=finding)[0]
    assert fixed(f"{text}model.evaluate(data)\n", findings=finding)[0] is None
    assert (
        fixed(text.replace(".cache()", ".cache('kept')"), findings=measured("misplaced-cache", text, "map("))[0]
        is None
    )


def test_a_cache_that_freezes_the_augmentation_moves_only_where_results_may_change(fixed):
    text = f"{DECODE}data = blobs.map(decode).map(flip).cache().batch(8)\n"
    assert fixed(text)[0] is None
    assert fixed(text, unsafe=True)[0].endswith("blobs.map(decode).cache().map(flip).batch(8)\n")


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        ("blobs.shuffle(9).batch(8).map(decode)", "order"),
        ("blobs.shuffle(9).map(decode).batch(8).repeat()", "a part"),
        ("blobs.shuffle(9).map(flip).map(decode).batch(8)", "random"),
        ("(blobs\n    .shuffle(9)  # names\n    .map(decode)\n    .batch(8))", "comment"),
        ("blobs.map(flip).map(decode).batch(8)", "random"),
        ("blobs.map(decode).take(9)", "take"),
        ("tf.data.Dataset.list_files('*').map(decode)", "shuffles"),
        ("blobs.map(load).batch(8)", "map at this place"),
    ],
)
def test_nothing_is_cached_that_is_to_change(fixed, chain, reason):
    text = f"{DECODE}data = {chain}\n"
    after, found = fixed(text, findings=measured("repeated-preprocessing", text, "data = "))
    assert after is None
    assert reason in found.advice[0].why


def test_a_shuffle_moves_before_the_maps_that_load(fixed):
    text = f"{DECODE}data = blobs.map(decode).map(lambda x: x / 255).shuffle(100).batch(8)\n"
    after, _ = fixed(text, findings=measured("shuffle-refill", text, ".shuffle("))
    assert after.endswith("data = blobs.shuffle(100).map(decode).map(lambda x: x / 255).batch(8)\n")


def test_arithmetic_moves_behind_the_batch_and_nothing_else_does(fixed):
    for work, moves in (
        ("lambda x, y: (tf.cast(x, tf.float32) / 255.0, y)", True),
        ("lambda x, y: (x - tf.reduce_mean(x), y)", False),
        ("lambda x, y: (x * y, y)", False),
        ("decode", False),
    ):
        text = f"{DECODE}data = pairs = blobs.map({work}).batch(8)\n"
        after, _ = fixed(text, findings=measured("per-example-work", text, ".map("))
        assert (after == text.replace(f".map({work}).batch(8)", f".batch(8).map({work})")) is moves


ROWS = """import numpy as np
import tensorflow as tf

SIZE = 9
x, y = np.ones((SIZE, 3)), np.ones(SIZE)
z = np.ones(SIZE)


def rows():
    for i in range(COUNT):
        yield VALUE


data = tf.data.Dataset.from_generator(
    rows,  # one by one
    output_signature=SIGNATURE,
).batch(3)
"""
PAIR = "(tf.TensorSpec((3,), tf.float32), tf.TensorSpec((), tf.int64))"


@pytest.mark.parametrize(
    ("count", "value", "signature", "after"),
    [
        ("SIZE", "x[i], z[i]", PAIR, "((\n    tf.cast(x[:SIZE], tf.float32),\n    tf.cast(z[:SIZE], tf.int64),\n))"),
        ("len(z)", "z[i], x[i]", PAIR, "((\n    tf.cast(z, tf.float32),\n    tf.cast(x[:len(z)], tf.int64),\n))"),
        ("len(z)", "z[i]", "tf.TensorSpec((), dtype=tf.float32)", "(tf.cast(z, tf.float32))"),
    ],
)
def test_a_generator_that_goes_through_arrays_becomes_slices_of_them(fixed, count, value, signature, after):
    text = ROWS.replace("COUNT", count).replace("VALUE", value).replace("SIGNATURE", signature)
    expected = text[: text.index("data = ")] + f"data = tf.data.Dataset.from_tensor_slices{after}.batch(3)\n"
    assert fixed(text)[0] == expected
    assert fixed(text)[1].edits[0].safe


@pytest.mark.parametrize(
    ("value", "more"),
    [("x[i] + 1", ""), ("x[SIZE - i - 1], z[i]", ""), ("x[i], z[i]", "z[0] = 5\n"), ("x[i], z[i]", "z = z * 2\n")],
)
def test_a_generator_that_does_more_stays(fixed, value, more):
    text = ROWS.replace("COUNT", "SIZE").replace("VALUE", value).replace("SIGNATURE", PAIR) + more
    assert fixed(text, findings=measured("per-example-work", text, "from_generator"))[0] is None


# --- loaders -----------------------------------------------------------------------------------------------

ITEMS = """import time
import keras


class Items(keras.utils.PyDataset):
    START
    def __getitem__(self, index):
        time.sleep(0.02)
        return index


model = keras.Sequential([])
"""


@pytest.mark.parametrize(
    ("start", "made", "after_start", "after_made"),
    [
        ("", "Items()", "", "Items(workers=4)"),
        (
            "def __init__(self, x, **kwargs):\n        super().__init__(**kwargs)\n",
            "Items(1)",
            "def __init__(self, x, **kwargs):\n        super().__init__(**kwargs)\n",
            "Items(1, workers=4)",
        ),
        (
            "def __init__(self, x):\n        super().__init__()\n",
            "Items(1)",
            "def __init__(self, x):\n        super().__init__(workers=4)\n",
            "Items(1)",
        ),
        ("", "Items(workers=1)", "", "Items(workers=4)"),
    ],
)
def test_a_dataset_gets_workers_where_it_takes_them(fixed, start, made, after_start, after_made):
    text = ITEMS.replace("START", start) + f"model.fit({made})\n"
    after, found = fixed(text, findings=measured("single-worker-loader", text, "def __getitem__"))
    assert after == ITEMS.replace("START", after_start) + f"model.fit({after_made})\n"
    assert found.edits[0].safe


def test_a_dataset_that_counts_is_unsafe_with_workers(fixed):
    text = ITEMS.replace("START", "").replace("time.sleep(0.02)", "self.seen += 1") + "model.fit(Items())\n"
    _, found = fixed(text, findings=measured("single-worker-loader", text, "def __getitem__"))
    assert "self.seen" in found.edits[0].unsafe


def test_what_a_module_beside_the_script_does_may_depend_on_the_order(fixed):
    text = ITEMS.replace("START", "").replace("time.sleep(0.02)", "augmenting.shift(index)")
    text = f"import augmenting\n{text}model.fit(Items())\n"
    _, found = fixed(text, findings=measured("single-worker-loader", text, "def __getitem__"))
    assert "augmenting.shift, whose code is out of sight" in found.edits[0].unsafe


TORCH = """import torch
from torch.utils.data import DataLoader


class Rows(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return open(str(index)).read()


rows = Rows()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DataLoader(rows, 32)", "DataLoader(rows, 32, num_workers=4, persistent_workers=True)"),
        ("DataLoader(dataset=Rows(), shuffle=True)", "DataLoader(dataset=Rows(), shuffle=True, num_workers=4)"),
        ("DataLoader(rows, num_workers=0)", "DataLoader(rows, num_workers=4, persistent_workers=True)"),
    ],
)
def test_a_data_loader_gets_processes_and_keeps_its_order(fixed, before, after):
    text = f"{TORCH}loader = {before}\n"
    changed, found = fixed(text, unsafe=True, findings=measured("single-worker-loader", text, "__getitem__"))
    assert changed == f"{TORCH}loader = {after}\n"
    assert found.edits[0].safe is ("shuffle" not in before)


def test_workers_in_a_dictionary_of_settings_are_left_out_there(fixed):
    text = f"settings = {{'batch_size': 32, 'num_workers': 6}}\n{TORCH}loader = DataLoader(rows, **settings)\n"
    finding = measured("counterproductive-workers", text, "DataLoader(rows")
    assert fixed(text, unsafe=True, findings=finding)[0] == text.replace("'num_workers': 6", "'num_workers': 0")
    kept = text.replace("6}", "6, 'persistent_workers': True}")
    assert fixed(kept, findings=finding)[0] is None


GENERATOR = f"""{HEAD}import fitscope


def batches(rows):
    while True:
        yield rows


x = np.ones(9)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "model.fit(batches(x), steps_per_epoch=9)",
            "model.fit(fitscope.Loader(lambda: batches(x)), steps_per_epoch=9)",
        ),
        (
            "made = batches(x)\nmodel.fit(x=made, steps_per_epoch=9)",
            "made = fitscope.Loader(lambda: batches(x))\nmodel.fit(x=made, steps_per_epoch=9)",
        ),
        ("model.fit(batches(x))", None),
        ("made = batches(x)\nnext(made)\nmodel.fit(made, steps_per_epoch=9)", None),
        ("x = np.zeros(9)\nmodel.fit(batches(x), steps_per_epoch=9)", None),
    ],
)
def test_a_generator_is_read_ahead(fixed, before, after):
    text = f"{GENERATOR}{before}\n"
    changed, found = fixed(text, findings=measured("single-worker-loader", text, "def batches"))
    assert changed == (f"{GENERATOR}{after}\n" if after else None)
    assert found.edits or found.advice[0].why


def test_a_generator_that_draws_where_others_draw_is_read_ahead_at_a_risk(fixed):
    drawing = GENERATOR.replace("yield rows", "yield np.random.permutation(rows)")
    text = f"{drawing}def other():\n    return np.random.rand()\n\n\nmodel.fit(batches(x), steps_per_epoch=9)\n"
    _, found = fixed(text, findings=measured("single-worker-loader", text, "def batches"))
    assert "numpy.random.permutation" in found.edits[0].unsafe


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DataLoader(rows, 32, num_workers=args.workers)", "DataLoader(rows, 32, num_workers=0)"),
        ("DataLoader(rows, 32, True, None, None, 4)", "DataLoader(rows, 32, True, None, None, 0)"),
        (
            "DataLoader(rows, 32, num_workers=4, prefetch_factor=4, pin_memory=False)",
            "DataLoader(rows, 32, num_workers=0, pin_memory=False)",
        ),
    ],
)
def test_processes_that_cost_more_than_they_give_are_left_out(fixed, before, after):
    text = f"{TORCH}loader = {before}\nfor x, y in loader:\n    train(x, y)\n"
    finding = measured("counterproductive-workers", text, "for x, y")
    changed, found = fixed(text, unsafe=True, findings=finding)
    assert changed == text.replace(before, after)
    assert found.edits[0].safe is ("True" not in before)  # it shuffles
    drawing = text.replace("return open(", "return torch.rand(2), open(")
    assert not fixed(drawing, unsafe=True, findings=finding)[1].edits[0].safe
    other = f"other = {before}\n"
    assert fixed(text + other, unsafe=True, findings=finding)[0] == text.replace(before, after) + other
    assert fixed(text + other, findings=measured("counterproductive-workers", text, "train(x"))[0] is None  # which?
    endless = text.replace("torch.utils.data.Dataset", "torch.utils.data.IterableDataset")
    assert fixed(endless, unsafe=True, findings=finding)[0] is None
    prepared = text.replace(before, before.replace(")", ", worker_init_fn=open_files)"))
    assert "num_workers" not in before or fixed(prepared, unsafe=True, findings=finding)[0] is None


def test_loaders_that_are_made_alike_for_one_fit_all_load_in_its_process(fixed):
    made = "def made(args):\n    train = DataLoader(rows, 32, num_workers=args.workers)\n"
    made += "    val = DataLoader(rows, 64, num_workers=args.workers)\n    return train, val\n\n\n"
    text = f"import keras\n{TORCH}{made}model = keras.Sequential([])\ntrain, val = made(args)\n"
    text += "model.fit(train, validation_data=val)\n"
    finding = measured("counterproductive-workers", text, "model.fit")
    assert fixed(text, findings=finding)[0] == text.replace("num_workers=args.workers", "num_workers=0")
    unlike = text.replace("64, num_workers=args.workers", "64, num_workers=2")
    assert fixed(unlike, findings=finding)[0] is None  # which?
    assert fixed(text + "model.fit(train)\n", findings=finding)[0] is None


def test_no_model_is_sought_where_it_is_shapes_that_change(fixed):
    text = f"{HEAD}for x, y in parts:\n    model.train_on_batch(x, y)\n"
    says = "jit(train_step) was compiled 16 times more: changed shape ((18,) -> (7,))."
    _, found = fixed(text, findings=measured("recompilation", text, "train_on_batch", says))
    assert "pad them to one" in found.advice[0].why


def test_on_jax_several_threads_draw_another_order_of_the_batches(fixed):
    text = ITEMS.replace("START", "") + "model.fit(Items(), epochs=2)\n"
    text = f"import os\nos.environ['KERAS_BACKEND'] = 'jax'\n{text}"
    finding = measured("single-worker-loader", text, "def __getitem__")
    assert not fixed(text, findings=finding)[1].edits[0].safe
    ordered = text.replace("epochs=2", "epochs=2, shuffle=False")
    assert fixed(ordered, findings=finding)[1].edits[0].safe


def test_a_dataset_that_processes_load_is_loaded_by_one_thread(fixed):
    text = ITEMS.replace("START", "") + "model.fit(Items(workers=4, use_multiprocessing=True))\n"
    changed, found = fixed(text, findings=measured("counterproductive-workers", text, "def __getitem__"))
    assert changed == text.replace("workers=4, use_multiprocessing=True", "workers=1")
    assert found.edits[0].safe


# --- settings ----------------------------------------------------------------------------------------------


def test_validation_steps_are_divided_as_the_steps_of_the_epoch_are(fixed):
    text = (
        f"{HEAD}def rows():\n    yield 1\n\n\nmodel.fit(rows(), steps_per_epoch=len(x) // batch,\n"
        "          validation_data=rows(), validation_steps=len(z))\n"
    )
    after, found = fixed(text, unsafe=True)
    assert after == text.replace("validation_steps=len(z)", "validation_steps=len(z) // batch")
    assert not found.edits[0].safe


def test_a_training_that_watches_its_validation_is_not_validated_less(fixed):
    text = f"{HEAD}model.fit(x, validation_data=y, epochs=50, callbacks=[keras.callbacks.EarlyStopping()])\n"
    finding = measured("dominant-validation", text, "model.fit")
    assert fixed(text, unsafe=True, findings=finding)[0] is None
    text = text.replace(", callbacks=[keras.callbacks.EarlyStopping()]", "")
    assert "validation_freq=5" in fixed(text, unsafe=True, findings=finding)[0]
    assert "validation_freq=3" in fixed(text.replace("epochs=50", "epochs=3"), unsafe=True, findings=finding)[0]
    reading = (
        "class Line(keras.callbacks.Callback):\n    def on_epoch_end(self, epoch, logs):\n        logs['val_loss']\n"
    )
    assert fixed(text + reading, unsafe=True, findings=finding)[0] is None


def test_a_policy_keeps_its_quotes(fixed):
    text = f"{HEAD}keras.mixed_precision.set_global_policy('mixed_float16')\n"
    after, found = fixed(text, unsafe=True, findings=measured("float16-on-cpu", text, "mixed_float16"))
    assert after == text.replace("'mixed_float16'", "'float32'")
    assert not found.edits[0].safe


def test_a_number_type_that_a_variable_names_is_changed_where_it_is_written(fixed):
    text = f"CONFIG = {{'precision': 'float64'}}\n{HEAD}keras.config.set_floatx(CONFIG['precision'])\n"
    finding = measured("float64-model", text, "set_floatx", share=0.9)
    assert fixed(text, unsafe=True, findings=finding)[0] == text.replace("'float64'", "'float32'")
    twice = text + "x = x.astype('float64')\n"
    assert fixed(twice, unsafe=True, findings=finding)[0] is None


# --- what is loaded again and again ------------------------------------------------------------------------

READS = """import json
import keras
import numpy as np

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
rng = np.random.default_rng(0)


def read(path):
    # one recording
    with open(path) as file:
        return np.array(json.load(file)), 1


class Recordings(keras.utils.PyDataset):
    def __init__(self, paths):
        super().__init__()
        self.paths = paths

    def __len__(self):
        return len(self.paths) // 8

    def __getitem__(self, index):
        pairs = [read(path) for path in self.paths[8 * index : 8 * index + 8]]
        return np.stack([x for x, _ in pairs]), np.array([y for _, y in pairs])

    def on_epoch_end(self):
        rng.shuffle(self.paths)


model.fit(Recordings(names), epochs=5)
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "windows"])
def test_a_function_that_reads_the_same_files_in_every_epoch_reads_each_once(fixed, newline):
    text = READS.replace("\n", newline)
    finding = measured("python-in-pipeline", READS, "json.load(file)")
    after, found = fixed(text, unsafe=True, findings=finding)
    expected = READS.replace("def read(", "@functools.cache\ndef read(").replace(
        "import numpy as np\n", "import numpy as np\nimport functools\n"
    )
    assert after == expected.replace("\n", newline)
    assert "memory" in found.edits[0].unsafe
    parsed = text.replace("with open(path) as file:", "if path:").replace("json.load(file)", "json.loads(path)")
    assert fixed(parsed, findings=finding)[1].edits[0].safe


def test_batches_whose_rows_stay_the_same_are_kept_whole(fixed):
    text = READS.replace("    def on_epoch_end(self):\n        rng.shuffle(self.paths)\n\n\n", "")
    after, _ = fixed(text, unsafe=True, findings=measured("per-example-work", text, "pairs = [read"))
    assert "    @functools.cache\n    def __getitem__(self, index):\n" in after
    tabs = text.replace("    ", "\t")
    after, _ = fixed(tabs, unsafe=True, findings=measured("per-example-work", tabs, "pairs = [read"))
    assert "\t@functools.cache\n\tdef __getitem__(self, index):\n" in after


def test_a_loader_of_another_module_is_remembered_there(folder, fixed):
    module = READS.split("model.fit")[0]
    (folder / "reading.py").write_text(module)
    text = f"{HEAD}import reading\nmodel.fit(reading.Recordings(names), epochs=5)\n"
    (finding,) = measured("python-in-pipeline", module, "json.load(file)", file="reading.py")
    _, found = fixed(text, findings=[finding])
    assert found.edits[0].file == "reading.py"
    (folder / "reading.py").write_text(module.replace("open(path)", "open(Recordings.folder + path)"))
    (finding,) = measured("python-in-pipeline", module, "json.load(file)", file="reading.py")
    assert not fixed(f"{text}reading.Recordings.folder = 'a'\n", findings=[finding])[1].edits


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("np.array(json.load(file)), 1", "np.array(json.load(file)) + rng.random(), 1", "rng.random"),
        ("np.array(json.load(file)), 1", "np.array(json.load(file)) * time.time(), 1", "time.time"),
        ("with open(path) as", "with open(path, 'a') as", "write"),
        ("        return np.array(", "        log.write(path)\n        return np.array(", "write"),
        ("        return np.stack(", "        pairs[0][0][:] = 0\n        return np.stack(", "changed"),
        (
            "        return np.stack(",
            "        for x, _ in pairs:\n            x += 1\n        return np.stack(",
            "changed",
        ),
        ("        return np.stack(", "        flip(pairs)\n        return np.stack(", "changed"),
        ("read(path) for path in", "read(path + str(rng.random())) for path in", "no key"),
        ("read(path) for path in", "read(*path) for path in", "out of sight"),
        ("def read(path):", "def read(path, *more):", "any arguments"),
        ("def read(path):", "@traced\ndef read(path):", "decorated"),
        ("open(path) as", "open(FOLDER + path) as", "FOLDER"),
        ("epochs=5", "epochs=1", "once"),
        ("epochs=5", "epochs=args.epochs", "cannot be told"),
    ],
)
def test_a_function_that_may_give_something_else_is_called_every_time(fixed, before, after, reason):
    text = READS.replace(before, after)
    text = text.replace("import json\n", "import json\nimport time\nFOLDER = 'a'\nFOLDER = 'b'\n")
    changed, found = fixed(text, unsafe=True, findings=measured("python-in-pipeline", text, "json.load(file)"))
    assert changed is None
    assert found.advice


PARSED = READS.replace(
    "    with open(path) as file:\n        return np.array(json.load(file)), 1", "    return GIVEN"
)
GIVEN = "np.array(json.loads(path)), 1"
OF_PATHS = "[read(path) for path in self.paths[8 * index : 8 * index + 8]]"
EACH = "[]\n        for path in self.paths[8 * index : 8 * index + 8]:\n            "


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ("augmenting.flip(np.array(json.loads(path))), 1", OF_PATHS),
        ("keras.preprocessing.image.random_rotation(np.array(json.loads(path)), 20), 1", OF_PATHS),
        ("np.array(list(map(lambda v: v + rng.random(), json.loads(path)))), 1", OF_PATHS),
        ("np.array(list(map(noise, json.loads(path)))), 1", OF_PATHS),
        ("np.array(json.loads(path)), logging.error(path)", OF_PATHS),
        ("np.array(json.loads(path)), noted(path)", OF_PATHS),
        ("np.array(json.loads(path)), subprocess.run(['cp', path])", OF_PATHS),
        ("TABLE[path], json.loads('1')", "[read(path) for path in np.array_split(self.paths, 8)]"),
        ("(v for v in json.loads(path))", "[(list(read(path)), 1) for path in self.paths]"),
        ("map(float, json.loads(path))", "[(list(read(path)), 1) for path in self.paths]"),
        (GIVEN, f"{EACH}x, y = read(path)\n            np.random.shuffle(x)\n            pairs.append((x, y))"),
        (
            GIVEN,
            f"{EACH}x, y = read(path)\n            z = np.flip(x)\n            z += 1\n            pairs += [(z, y)]",
        ),
        (
            "{'x': json.loads(path)}",
            f"{EACH}d = read(path).copy()\n            d['x'] += [1]\n            pairs += [(d, 1)]",
        ),
        ("{'x': json.loads(path)}", f"{EACH}for k, v in read(path).items():\n                v += [1]"),
    ],
)
def test_what_may_differ_next_time_or_is_changed_out_of_sight_is_not_kept(fixed, given, rows):
    text = (
        PARSED.replace("GIVEN", given)
        .replace(OF_PATHS, rows)
        .replace(
            "def read(",
            "TABLE = np.ones((9, 2))\n\n\ndef noted(x, seen=[]):\n    seen.append(x)\n\n\n"
            "def noise(x):\n    return x + rng.normal()\n\n\ndef read(",
        )
    )
    text = text.replace("import json\n", "import json\nimport logging\nimport subprocess\nimport augmenting\n")
    assert fixed(text, unsafe=True, findings=measured("python-in-pipeline", text, "json.load"))[0] is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("rng.shuffle(self.paths)", "shuffle(self.paths)"),
        ("rng.shuffle(self.paths)", "rng.shuffle(x=self.paths)"),
        ("rng.shuffle(self.paths)", "mix(self.paths)\n\n\ndef mix(items):\n    items.sort(key=hash)"),
        ("rng.shuffle(self.paths)", "pass\n\n\ndef on_epoch_end(epoch, logs):\n    rng.shuffle(names)"),
        ("rng.shuffle(self.paths)", "pass\n\n\ndef on_epoch_end(epoch, logs):\n    data.paths[:] = mixed()"),
        ("rng.shuffle(self.paths)", "pass\n\n    @property\n    def noise(self):\n        return rng.random()"),
        ("rng.shuffle(self.paths)", "pass\n\n\nclass Noisy(Recordings):\n    def load(self):\n        return 1"),
        (OF_PATHS, "[self.base[i] for i in range(8)]"),
    ],
)
def test_batches_that_change_from_epoch_to_epoch_are_not_kept_whole(fixed, before, after):
    text = (
        PARSED.replace("GIVEN", GIVEN)
        .replace(before, after)
        .replace("import json\n", "import json\nfrom random import shuffle\n")
    )
    text = text.replace(
        "return np.stack(", "return self.noise * np.stack(" if "noise" in after else "return np.stack("
    )
    text = text.replace("self.paths = paths", "self.paths = paths\n        self.base = Other(paths)")
    if before == OF_PATHS:
        text = text.replace("        rng.shuffle(self.paths)", "        pass")
    changed, _ = fixed(text, unsafe=True, findings=measured("per-example-work", text, "pairs = "))
    assert "    @functools.cache\n    def __getitem__" not in (changed or "")


def test_a_function_that_a_loader_makes_anew_is_not_remembered(fixed):
    inner = "        def read(path):\n            return np.array(json.loads(path)), 1\n\n        pairs = ["
    text = PARSED.replace("def read(path):\n    # one recording\n    return GIVEN\n\n\n", "").replace(
        "        pairs = [", inner
    )
    assert "def read(path)" in text
    assert fixed(text, unsafe=True, findings=measured("python-in-pipeline", text, "json.loads"))[0] is None


def test_rows_that_are_no_keys_are_not_remembered(fixed):
    text = READS.replace(
        "    with open(path) as file:\n        return np.array(json.load(file)), 1", "    return path * 2, 1"
    )
    text = text.replace("    def on_epoch_end(self):\n        rng.shuffle(self.paths)\n\n\n", "")
    text = text.replace("super().__init__()", "super().__init__(use_multiprocessing=True)")
    assert fixed(text, unsafe=True, findings=measured("python-in-pipeline", text, "return path * 2"))[0] is None


EAGER_LAYERS = f"""{HEAD}augment = keras.Sequential([keras.layers.RandomFlip()])
images = np.ones((99, 8, 8, 3))


class Batches(keras.utils.PyDataset):
    def __init__(self, x):
        super().__init__()
        self.x = x

    def __getitem__(self, i):
        rows = slice(8 * i, 8 * i + 8)
        return BATCH


model.fit(Batches(images))
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "np.stack([augment(row.astype('float32') / 255.0, training=True) for row in self.x[rows]])",
            "np.asarray(augment(self.x[rows].astype('float32') / 255.0, training=True))",
        ),
        ("np.array([augment(2 * row) for row in self.x[rows]]), 1", "np.asarray(augment(2 * self.x[rows])), 1"),
        ("[augment(row) for row in self.x[rows]], 1", None),
        ("np.array([augment(row[None])[0] for row in self.x[rows]])", "np.asarray(augment(self.x[rows]))"),
        ("np.stack([augment(row[:4]) for row in self.x[rows]])", None),
        ("np.stack([augment(row - row.mean()) for row in self.x[rows]])", None),
        ("np.stack([augment(row)[0] for row in self.x[rows]])", None),
        ("np.stack([augment(row) for row in self.x[rows] if row.any()])", None),
        ("np.stack([augment(row, training=row[0] > 0) for row in self.x[rows]])", None),
        ("np.stack([augment(row) for row in load(rows)])", None),
    ],
)
def test_a_layer_that_is_called_for_each_row_is_called_for_the_batch(fixed, before, after):
    text = EAGER_LAYERS.replace("BATCH", before)
    changed, found = fixed(text, unsafe=True, findings=measured("eager-layers-in-pipeline", text, "        return "))
    assert changed == (EAGER_LAYERS.replace("BATCH", after) if after else None)
    assert after is None or not found.edits[0].safe
    plain = text.replace("keras.Sequential([keras.layers.RandomFlip()])", "keras.layers.Rescaling(2.0)")
    found = fixed(plain, findings=measured("eager-layers-in-pipeline", plain, "        return "))[1]
    assert after is None or found.edits[0].safe


def test_a_list_that_is_only_stacked_later_is_stacked_already(fixed):
    stacks = "np.stack([np.asarray(b) for b in made])"
    text = EAGER_LAYERS.replace(
        "        return BATCH", f"        made = [augment(row) for row in self.x[rows]]\n        return {stacks}"
    )
    after, _ = fixed(text, unsafe=True, findings=measured("eager-layers-in-pipeline", text, "made = "))
    assert "        made = augment(self.x[rows])\n        return np.asarray(made)\n" in after
    longer = text.replace(stacks, f"{stacks}, len(made)")
    after, _ = fixed(longer, unsafe=True, findings=measured("eager-layers-in-pipeline", text, "made = "))
    assert after is None
    plain = text.replace("keras.Sequential([keras.layers.RandomFlip()])", "keras.layers.Normalization()")
    finding = measured("eager-layers-in-pipeline", plain, "made = ")
    assert fixed(plain, findings=finding)[0] is None  # it adds an axis to a row
    axis = plain.replace("augment(row)", "augment(row[None])[0]")
    assert fixed(axis, findings=finding)[1].edits[0].safe


ONE_HOT = f"""{HEAD}ids = list(range(WORDS))


def batches():
    while True:
        rows = []
        for target in targets:
            rows.append([1.0 if number == target else 0.0 for number in ids])  # one
        yield np.array(rows, dtype="float32")


model.fit(batches(), steps_per_epoch=9)
"""


def test_windows_of_another_pipeline_stay(fixed):
    text = WINDOWS + "other = tf.data.Dataset.range(9).map(load)\nmodel.fit(other, epochs=2)\n"
    assert fixed(text, findings=measured("repeated-preprocessing", text, "other = "))[0] is None


def test_a_row_of_zeros_and_a_one_is_made_at_once(fixed):
    finding = measured("python-in-pipeline", ONE_HOT, "rows.append")
    after, found = fixed(ONE_HOT, findings=finding)
    assert only_line_changed(ONE_HOT, after) == ("            rows.append(np.arange(len(ids)) == target)  # one")
    assert found.edits[0].safe
    for array in ("np.array(rows, np.float32)", "np.stack(rows).astype('float32')"):
        text = ONE_HOT.replace('np.array(rows, dtype="float32")', array)
        assert "rows.append(np.arange(len(ids)) == target)" in fixed(text, findings=finding)[0]
    for before, instead, numbers in (
        ('np.array(rows, dtype="float32")', "np.array(rows)", "1.0, 0.0"),  # true and false would stay what they are
        ('np.array(rows, dtype="float32")', "np.array(rows), np.array(rows, dtype=float)", "1.0, 0.0"),
        ("[1.0 if", "[2.0 if", "2.0, 0.0"),
        ("else 0.0 for", "else 0.1 for", "1.0, 0.1"),
    ):
        text = ONE_HOT.replace(before, instead)
        made = f"rows.append(np.where(np.arange(len(ids)) == target, {numbers}))"
        assert made in fixed(text, findings=finding)[0]
    for before, instead in (
        ("number == target", "number >= target"),
        ("number == target", "number == order[number]"),
        ("        rows = []\n", "        rows = made()\n"),
        ("else 0.0 for", "else number for"),
        ("in ids]", "in words]"),
        ("        yield", "        rows = rows + rows\n        yield"),
        ("def batches", "ids.append(-1)\n\n\ndef batches"),
        ("number in ids]", "number in ids if number]"),
    ):
        text = ONE_HOT.replace(before, instead)
        assert fixed(text, findings=measured("python-in-pipeline", text, "rows.append"))[0] is None


SLIDING = f"""{HEAD}series = np.ones((99, 2))


def windowed(series, size):
    ds = tf.data.Dataset.from_tensor_slices(series)
    ds = ds.window(size + 1, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(size + 1))
    ds = ds.map(lambda w: (w[:-1], w[-1:, 0]))
    return ds.batch(8).prefetch(1)  # ready


model.fit(windowed(series, 9), epochs=2)
"""


def test_windows_of_a_series_are_cut_at_once(fixed):
    finding = measured("per-example-work", SLIDING, "ds.flat_map")
    after, found = fixed(SLIDING, findings=finding)
    assert after == SLIDING.split("    ds = tf.data")[0] + (
        "    ds = tf.data.Dataset.from_tensor_slices(tf.signal.frame(series, size + 1, 1, axis=0))\n"
        "    return ds.batch(8).map(lambda w: (w[:, :-1], w[:, -1:, 0])).prefetch(1)  # ready\n"
        "\n\nmodel.fit(windowed(series, 9), epochs=2)\n"
    )
    assert found.edits[0].safe
    for size in ("5000", "args.size"):
        text = SLIDING.replace("(series, 9)", f"(series, {size})")
        assert "memory" in fixed(text, findings=finding)[1].edits[0].unsafe
    apart = SLIDING.replace("shift=1", "shift=None")
    assert "frame(series, size + 1, size + 1, axis=0)" in fixed(apart, findings=finding)[0]
    shuffled = SLIDING.replace("    return ds", "    ds = ds.shuffle(99)\n    return ds")
    after, _ = fixed(shuffled, findings=finding)
    assert "axis=0))\n    ds = ds.map(lambda w: (w[:-1], w[-1:, 0]))\n    ds = ds.shuffle(99)\n" in after
    chained = SLIDING.replace("\n    ds = ds.", ".").replace("return ds.", "return ds.")
    after, _ = fixed(chained, findings=measured("per-example-work", chained, "flat_map"))
    assert "frame(series, size + 1, 1, axis=0))\n    return ds.batch(8).map(" in after
    for before, instead in (
        (", drop_remainder=True", ""),
        ("w.batch(size + 1)", "w.batch(size)"),
        ("slices(series)", "slices((series, series))"),
        ("shift=1", "shift=1, stride=2"),
        ("shift=1", "1, 2"),
        ("    ds = ds.window", "    print(len(ds))\n    ds = ds.window"),
        ("    ds = ds.window", "    other = ds.batch(4)\n    ds = ds.window"),
        ("lambda w: w.batch(size + 1)", "make"),
    ):
        text = SLIDING.replace(before, instead)
        assert "signal.frame" not in (
            fixed(text, findings=measured("per-example-work", text, "ds.flat_map"))[0] or ""
        )


IN_PYTHON = f"""{HEAD}import re

words = re.compile("[a-z]+")


def count(text):
    return np.float32(len(words.findall(text.decode())))


def load(text, label):
    return tf.numpy_function(count, [text], tf.float32), label


data = (
    tf.data.Dataset.from_tensor_slices((texts, labels))
    .map(load)  # slow
    .shuffle(99)
    .batch(8)
)
model.fit(data, epochs=5)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("blobs.shuffle(9).map(decode).batch(8)", "blobs.map(decode).cache().shuffle(9).batch(8)"),
        (
            "(\n    blobs.shuffle(9, 1)\n    .map(\n        decode,  # slow\n    )\n    .batch(8)\n)",
            "(\n    blobs\n    .map(\n        decode,  # slow\n    )\n    .cache().shuffle(9, 1)\n    .batch(8)\n)",
        ),
        (
            "blobs\ndata = data.shuffle(len(names))\ndata = data.map(decode)\ndata = data.batch(8)",
            "blobs\ndata = data.map(decode).cache().shuffle(len(names))\ndata = data.batch(8)",
        ),
    ],
)
def test_a_shuffle_before_a_map_that_is_kept_goes_behind_it(fixed, before, after):
    text = f"{DECODE}data = {before}\nmodel.fit(data, epochs=5)\n"
    changed, found = fixed(text, findings=measured("repeated-preprocessing", text, ".map("))
    assert changed == f"{DECODE}data = {after}\nmodel.fit(data, epochs=5)\n"
    assert found.edits[0].safe


@pytest.mark.parametrize(
    "between",
    [
        "w = tf.random.normal((3,))",
        "tf.random.set_seed(3)",
        "for x in data:\n    print(x)",
        "other = blobs.shuffle(9)",
    ],
)
def test_a_shuffle_does_not_go_past_what_draws_or_uses_it(fixed, between):
    text = f"{DECODE}data = blobs.shuffle(9)\n{between}\ndata = data.map(decode)\nmodel.fit(data, epochs=5)\n"
    assert fixed(text, findings=measured("repeated-preprocessing", text, "data.map("))[0] is None


def test_what_a_map_makes_of_a_variable_is_not_kept(fixed):
    text = f"{DECODE}scale = tf.Variable(1.0)\ndata = blobs.map(lambda blob: scale * decode(blob)).batch(8)\n"
    text += "model.fit(data, epochs=5)\n"
    assert fixed(text, findings=measured("repeated-preprocessing", text, "blobs.map("))[0] is None


def test_what_a_map_computes_in_python_is_kept_where_it_is_always_the_same(fixed):
    finding = measured("python-in-pipeline", IN_PYTHON, "len(words")
    after, found = fixed(IN_PYTHON, findings=finding)
    assert after == IN_PYTHON.replace("    .map(load)  # slow\n", "    .map(load)  # slow\n    .cache()\n")
    assert found.edits[0].safe
    waits = measured("slow-storage", IN_PYTHON, "len(words")
    assert fixed(IN_PYTHON, findings=waits)[0] is None
    at_once = IN_PYTHON.replace("map(load)", "map(load, num_parallel_calls=8)")
    assert ".cache()" in fixed(at_once, findings=waits)[0]
    for before, instead in (
        ("len(words", "np.random.rand() + len(words"),
        ("len(words", "noises.drawn() + len(words"),
        ("len(words", "SCALE[0] * len(words"),
        ("epochs=5", "epochs=1"),
        ("    .map(load)  # slow\n    .shuffle(99)\n", "    .shuffle(99)  # rows\n    .map(load)\n"),
        ("    .batch(8)", "    .take(8)"),
        ("re.compile(", "Counter("),
    ):
        text = IN_PYTHON.replace(before, instead).replace("import re\n", "import re\nimport noises\n")
        if "SCALE" in instead:
            text = text.replace("def load", "def on_epoch_end(epoch, logs):\n    SCALE[0] = epoch\n\n\ndef load")
        assert fixed(text, findings=measured("python-in-pipeline", text, "len(words"))[0] is None


ROWS_OF_TORCH = """import keras
import numpy as np
import torch
from torch.utils.data import DataLoader

model = keras.Sequential([keras.layers.Dense(1)])


class Rows(torch.utils.data.Dataset):
    def __init__(self, lines):
        self.lines = lines

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        row = np.zeros(9)
        for word in self.lines[i].split():
            row[len(word)] += 1
        return torch.from_numpy(row), i


loader = DataLoader(Rows(lines), batch_size=8)
model.fit(loader, epochs=5)
"""


def test_rows_of_a_dataset_are_made_once_and_not_by_processes(fixed):
    finding = measured("single-worker-loader", ROWS_OF_TORCH, "def __getitem__")
    after, found = fixed(ROWS_OF_TORCH, findings=finding)
    assert "    @functools.cache\n    def __getitem__(self, i):\n" in after
    assert "num_workers" not in after
    assert found.edits[0].safe
    for given in ("num_workers=2", "sampler=some", "collate_fn=joined", "**more", "batch_size=None"):
        text = ROWS_OF_TORCH.replace("batch_size=8", given)
        assert "functools" not in (fixed(text, findings=finding)[0] or "")
    text = ROWS_OF_TORCH.replace("DataLoader(Rows(lines)", "DataLoader(rows").replace(
        "loader =", "rows = Rows(lines)\nrows[0][0].zero_()\nloader ="
    )
    assert "functools" not in (fixed(text, findings=finding)[0] or "")


@pytest.mark.parametrize(
    "made",
    [
        "loader = DataLoader(Noisy(Rows(lines))",
        "rows = Rows(lines)\nspoil(rows)\nloader = DataLoader(rows",
        "def make():\n    return Rows(lines)\n\n\nrows = make()\nrows[0][0].zero_()\nloader = DataLoader(rows",
    ],
)
def test_rows_of_a_dataset_that_somebody_else_gets_are_not_kept(fixed, made):
    text = ROWS_OF_TORCH.replace("loader = DataLoader(Rows(lines)", made)
    changed, _ = fixed(text, unsafe=True, findings=measured("single-worker-loader", text, "def __getitem__"))
    assert "functools" not in (changed or "")
    split = ROWS_OF_TORCH.replace(
        "loader = DataLoader(Rows(lines)",
        "first, rest = torch.utils.data.random_split(Rows(lines), (8, 2))\nloader = DataLoader(first",
    )
    assert "functools" in fixed(split, findings=measured("single-worker-loader", split, "def __getitem__"))[0]


def test_an_object_that_is_called_for_each_row_is_remembered(fixed):
    text = """import keras
import torch

model = keras.Sequential([keras.layers.Dense(1)])


class Words:
    def __init__(self, index):
        self.index = index

    def __call__(self, text):
        return [self.index.get(word, 0) for word in text.split()]


class Joined:
    def __init__(self, words):
        self.words = words

    def __call__(self, rows):
        texts, labels = zip(*rows)
        return torch.tensor([self.words(text) for text in texts]), torch.tensor(labels)


model.fit(torch.utils.data.DataLoader(rows, collate_fn=Joined(Words(index))), epochs=3)
"""
    finding = measured("python-in-pipeline", text, "return torch.tensor([self.words")
    assert (
        "    @functools.cache\n    def __call__(self, text):\n        return [self.index"
        in fixed(text, findings=finding)[0]
    )
    grows = text.replace(
        "        return [self.index", "        self.index.setdefault(text, 1)\n        return [self.index"
    )
    assert fixed(grows, findings=finding)[0] is None


def test_what_a_server_answers_is_remembered_at_a_risk_and_threads_ask_for_it_at_first(fixed):
    text = READS.replace("with open(path) as", "with urllib.request.urlopen(path) as").replace(
        "import json\n", "import json\nimport urllib.request\n"
    )
    text = text.replace('"    # one recording\\n"', "").replace("path) as file", "path.strip()) as file")
    finding = measured("slow-storage", text, "pairs = [read")
    after, found = fixed(text, unsafe=True, findings=finding)
    assert "@functools.cache\ndef read(path):" in after
    assert "super().__init__(workers=4)" in after
    assert "urllib" in found.edits[0].unsafe


# --- steps by hand -----------------------------------------------------------------------------------------

JAX_STEP = """import os
os.environ["KERAS_BACKEND"] = "jax"
import jax
import keras

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()


def loss(weights, rest, x, y):
    predicted, rest = model.stateless_call(weights, rest, x)
    return keras.ops.mean((predicted - y) ** 2), rest


def step(state, x, y):
    weights, rest, slots = state
    (value, rest), grads = jax.value_and_grad(loss, has_aux=True)(weights, rest, x, y)
    weights, slots = optimizer.stateless_apply(slots, grads, weights)
    return value, (weights, rest, slots)


for x, y in rows:
    value, state = step(state, x, y)
"""


def test_a_step_in_jax_is_compiled(fixed):
    finding = measured("eager-execution", JAX_STEP, "for x, y")
    after, found = fixed(JAX_STEP, findings=finding)
    assert after == JAX_STEP.replace("def step(", "@jax.jit\ndef step(")
    assert found.edits[0].safe
    without = JAX_STEP.replace("import jax\n", "from jax import value_and_grad\n").replace("jax.value", "value")
    assert "import keras\nimport jax\n" in fixed(without, findings=finding)[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    weights, rest, slots = state\n", "    weights, rest, slots = state\n    print(x)\n"),
        (
            "    weights, rest, slots = state\n",
            "    weights, rest, slots = state\n    if y.sum() > 0:\n        x = -x\n",
        ),
        ("    weights, rest, slots = state\n", "    weights, rest, slots = state\n    metric.update_state(y, x)\n"),
        ("    weights, rest, slots = state\n", "    weights, rest, slots = state\n    seen[0] = x\n"),
        ("stateless_call(weights, rest, x)", "stateless_call(weights, rest, noise(np.random.rand(), x))"),
        ("predicted, rest = model.stateless_call(weights, rest, x)", "predicted = model(x)"),
        ("step(state, x, y)\n", "step(state, x, 'train')\n"),
        ("for x, y in rows:\n", "scale = 1.0\nfor x, y in rows:\n    scale *= 2\n"),
        ("for x, y in rows:\n    value", "jitted = jax.jit(step)\nvalue"),
        ("(predicted - y)", "(predicted - y + keras.random.normal((2,)))"),
        ("import jax\n", "import jax\nimport tensorflow as tf\n"),
        ("for x, y in rows:\n", "class State:\n    pass\n\n\nstate = State()\nfor x, y in rows:\n"),
        (
            "for x, y in rows:\n    value, state = step(state, x, y)\n",
            "def train(state, x, y):\n    while 1:\n        v, state = step(state, x, y)\n\n\ntrain(s, x, 'y')\n",
        ),
    ],
)
def test_a_step_in_jax_that_does_more_stays(fixed, before, after):
    text = JAX_STEP.replace(before, after).replace(
        "(predicted - y)", "scale * (predicted - y)" if "scale" in after else "(predicted - y)"
    )
    text = text.replace("import keras\n", "import keras\nimport numpy as np\n")
    assert (
        fixed(text, findings=measured("eager-execution", text, "(state, x," if "jitted" not in after else "jitted"))[
            0
        ]
        is None
    )


def test_a_step_in_jax_that_is_given_a_size_stays(fixed):
    text = JAX_STEP.replace("def step(state, x, y)", "def step(state, x, y, n)").replace(
        "= step(state, x, y)", "= step(state, x, y, 8)"
    )
    cut = text.replace("    weights, rest, slots = state\n", "    weights, rest, slots = state\n    x = x[:n]\n")
    assert fixed(cut, findings=measured("eager-execution", cut, "for x, y"))[0] is None
    scaled = cut.replace("x[:n]", "x * n")
    assert "@jax.jit" in fixed(scaled, findings=measured("eager-execution", scaled, "for x, y"))[0]


MADE_ANEW = """import tensorflow as tf


def train(model, optimizer, data):
    for epoch in range(9):
        def loss(x, y):
            return (model(x) - y) ** 2

        @tf.function(jit_compile=True)
        def step(x, y):
            return loss(x, y)  # squares

        for x, y in data:
            step(x, y)
"""


def test_a_function_that_a_loop_compiles_anew_is_made_before_it(fixed):
    finding = measured("retracing", MADE_ANEW, "step(x, y):")
    after, found = fixed(MADE_ANEW, findings=finding)
    assert (
        after
        == """import tensorflow as tf


def train(model, optimizer, data):
    def loss(x, y):
        return (model(x) - y) ** 2

    @tf.function(jit_compile=True)
    def step(x, y):
        return loss(x, y)  # squares

    for epoch in range(9):
        for x, y in data:
            step(x, y)
"""
    )
    assert found.edits[0].safe
    tabs = MADE_ANEW.replace("    ", "\t").replace("\n", "\r\n")
    assert fixed(tabs, findings=finding)[0] == after.replace("    ", "\t").replace("\n", "\r\n")
    for before, instead in (
        ("return (model(x) - y)", "return (model(x) - epoch * y)"),
        ("        @tf", "        rate = epoch / 9\n        @tf"),
        ("        @tf", "        optimizer = keras.optimizers.Adam()\n\n        @tf"),
        ("            step(x, y)\n", "            step(x, y)\n        step = None\n"),
        ("    for epoch", "    step = None\n    for epoch"),
        ("        def loss", "        model.layers[0].trainable = epoch > 3\n\n        def loss"),
        ("        def loss", "        unfreeze(model)\n\n        def loss"),
        ("return (model(x) - y)", "return np.random.rand() * (model(x) - y)"),
        ("return (model(x) - y)", "print('traced')\n            return (model(x) - y)"),
        ("        def loss", "        model.scale = 0.5 * epoch\n\n        def loss"),
    ):
        text = MADE_ANEW.replace(before, instead).replace(
            "return loss(x, y)",
            f"return rate * loss(x, y) + {'model.scale' if 'scale' in instead else 'optimizer.a'}",
        )
        text = text.replace("import tensorflow as tf\n", "import tensorflow as tf\nimport numpy as np\n")
        if "rate" not in instead:
            text = text.replace("rate * ", "")
        assert fixed(text, findings=finding)[0] is None


def test_a_factory_of_steps_is_called_before_the_loop(fixed):
    text = """import jax


def make(size):
    @jax.jit
    def step(x):
        return size * x
    return step


for x in rows:
    step = make(9)
    step(x)
"""
    finding = measured("recompilation", text, "for x in rows")
    assert "step = make(9)\nfor x in rows:\n    step(x)\n" in fixed(text, findings=finding)[0]
    assert fixed(text.replace("make(9)", "make(len(x))"), findings=finding)[0] is None
    grown = text.replace("    step = make", "    model.add(layer)\n    step = make").replace("size * x", "model(x)")
    assert fixed(grown, findings=finding)[0] is None


FOLDS = """import keras
import numpy as np


def build(width):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(width)])
    model.compile("adam", "mse")
    return model


for fold in range(9):
\tmodel = build(8)
\tmodel.fit(x[fold], y[fold], epochs=3)
\tscores.append(model.evaluate(x, y))
"""


def test_a_model_of_each_fold_is_set_back_instead_of_built(fixed):
    finding = measured("recompilation", FOLDS, "model.fit")
    after, found = fixed(FOLDS, unsafe=True, findings=finding)
    both = "(*model.weights, *model.optimizer.variables)"
    assert after == FOLDS.replace(
        "for fold in range(9):\n\tmodel = build(8)\n",
        "model = build(8)\nmodel.optimizer.build(model.trainable_variables)\n"
        f"first_values = [variable.numpy() for variable in {both}]\nfor fold in range(9):\n"
        f"\tfor variable, value in zip({both}, first_values):\n\t\tvariable.assign(value)\n",
    )
    assert not found.edits[0].safe
    for before, instead in (
        ("build(8)", "build(fold)"),
        ("keras.Input((2,)), ", ""),
        ("\tscores", "\tmodels.append(model)\n\tscores"),
        ("\tscores", "\tkeras.backend.clear_session()\n\tscores"),
        ("\tscores", "\tmodel.load_weights('best')\n\tscores"),
        ("build(8)\n", "build(8); rounds.append(fold)\n"),
    ):
        assert fixed(FOLDS.replace(before, instead), unsafe=True, findings=finding)[0] is None


CARRIED = """import keras


def build():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(8)])
    model.compile("adam", "mse")
    return model


weights = None
for chunk in stream:
    model = build()
    if weights is not None:
        model.set_weights(weights)
    model.fit(chunk, chunk)
    weights = model.get_weights()
"""


def test_a_model_that_goes_on_with_its_weights_is_built_once_and_its_optimizer_set_back(fixed, monkeypatch):
    finding = measured("recompilation", CARRIED, "model.fit")
    shuffled = f"import random\n{CARRIED}".replace("    model.fit", "    random.shuffle(chunk)\n    model.fit")
    shuffled_finding = measured("recompilation", shuffled, "model.fit")
    assert fixed(shuffled, findings=shuffled_finding)[0] is None  # a layer that is built draws from these, too
    after, found = fixed(CARRIED, findings=finding)
    assert after == CARRIED.replace(
        "for chunk in stream:\n    model = build()\n",
        "model = build()\nmodel.optimizer.build(model.trainable_variables)\n"
        "first_values = [variable.numpy() for variable in model.optimizer.variables]\nfor chunk in stream:\n"
        "    for variable, value in zip(model.optimizer.variables, first_values):\n"
        "        variable.assign(value)\n",
    )
    assert found.edits[0].safe
    always = CARRIED.replace("    if weights is not None:\n        model.set", "    model.set").replace(
        "= None", "= first"
    )
    assert fixed(always, findings=measured("recompilation", always, "model.fit"))[1].edits[0].safe
    for before, instead in (
        ("if weights is not None", "if chunk.any()"),
        ("weights = None", "weights = first"),  # the first round would not begin with it, if it may be None
        ("    weights = model", "    if good:\n        weights = model"),
        ("    weights = model", "    if bad:\n        continue\n    weights = model"),
        ("layers.Dense(8)", "layers.Dense(8), keras.layers.Dropout(0.5)"),
        ("layers.Dense(8)", "layers.Dense(8), Mine()"),
        ("    model.fit", "    kept.append(model)\n    model.fit"),
    ):
        text = CARRIED.replace(before, instead)
        assert text != CARRIED
        found = fixed(text, findings=measured("recompilation", text, "model.fit"))[1]
        assert not any(edit.safe for edit in found.edits)
    monkeypatch.setenv("KERAS_BACKEND", "jax")  # where its losses were others with the same seed
    assert not any(edit.safe for edit in fixed(CARRIED, findings=finding)[1].edits)


def test_a_model_that_a_fold_builds_in_place_is_set_back_as_well(fixed):
    text = """import keras

for rows, rest in folds:
    model = keras.Sequential(
        [keras.Input((2,))],  # two
    )
    model.add(keras.layers.Dense(1))
    model.compile("adam", "mse")
    model.fit(x[rows], y[rows], epochs=3)
"""
    finding = measured("recompilation", text, "model.fit")
    after, _ = fixed(text, unsafe=True, findings=finding)
    both = "(*model.weights, *model.optimizer.variables)"
    assert (
        after
        == f"""import keras

model = keras.Sequential(
    [keras.Input((2,))],  # two
)
model.add(keras.layers.Dense(1))
model.compile("adam", "mse")
model.optimizer.build(model.trainable_variables)
first_values = [variable.numpy() for variable in {both}]
for rows, rest in folds:
    for variable, value in zip({both}, first_values):
        variable.assign(value)
    model.fit(x[rows], y[rows], epochs=3)
"""
    )
    sized = text.replace("Dense(1)", "Dense(len(rows))")
    assert fixed(sized, unsafe=True, findings=finding)[0] is None


STATIC = """import jax
from functools import partial


def loss(weights, beta):
    return weights * beta


@partial(jax.jit, static_argnames=("beta", "size"))
def step(weights, beta, size):
    return jax.grad(loss)(weights, beta)


for epoch in range(9):
    beta = round(epoch / 9, 3)
    step(weights, beta=beta, size=3)
"""


def test_a_number_that_changes_is_no_longer_a_part_of_a_compiled_function(fixed):
    finding = measured("recompilation", STATIC, "step(weights, beta=")
    assert '@partial(jax.jit, static_argnames=("size",))\n' in fixed(STATIC, findings=finding)[0]
    alone = STATIC.replace('("beta", "size")', '"beta"')
    assert "\n@jax.jit\ndef step" in fixed(alone, findings=finding)[0]
    used = STATIC.replace("weights * beta", "weights[: int(beta)]")
    assert fixed(used, findings=finding)[0] is None
    for use in ("[: 2 * beta]", " * jax.numpy.arange(beta)", " * jax.numpy.ones(2 * beta)"):
        shaped = STATIC.replace("weights * beta", f"weights{use}")
        assert fixed(shaped, findings=finding)[0] is None
    named = STATIC.replace("    return weights * beta", "    n = beta * 2\n    return weights[:n]")
    assert fixed(named, findings=finding)[0] is None
    decided = STATIC.replace("    return jax.grad", "    if beta > 1:\n        return 0\n    return jax.grad")
    assert fixed(decided, findings=finding)[0] is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("longest = max(len(row) for row in rows)", "longest = -(-max(len(row) for row in rows) // 32) * 32"),
        ("longest = max(map(len, rows)) + 1", "longest = -(-(max(map(len, rows)) + 1) // 32) * 32"),
        ("longest = min(max(map(len, rows)), 9)", None),
        ("longest = max(map(len, rows)); other = max(map(len, rows))", None),
    ],
)
def test_batches_get_one_of_a_few_lengths(fixed, before, after):
    text = f"import os\nos.environ['KERAS_BACKEND'] = 'jax'\n{HEAD}def collate(rows):\n    {before}\n"
    text += "    return np.zeros((len(rows), longest))\n\n\nmodel.fit(x, y)\n"
    finding = measured(
        "recompilation", text, "model.fit", says="train_step was compiled 9 times more: changed shape.", share=0.5
    )
    changed, found = fixed(text, unsafe=True, findings=finding)
    assert changed == (text.replace(before, after) if after else None)
    assert after is None or not found.edits[0].safe
    assert fixed(text, unsafe=True, findings=measured("recompilation", text, "model.fit", share=0.5))[0] is None


@pytest.mark.parametrize(
    ("compiling", "steps", "size"),
    [(0.2, 0.3, 64), (0.2, 1.0, 32), (0.2, 30.0, 16)],  # the longer the training, the more padding costs
)
def test_lengths_are_as_few_as_pays_off_in_the_recorded_run(compiling, steps, size):
    assert _multiple(Recompiled(43, compiling, steps)) == size


def test_of_shapes_the_sizes_that_changed_are_told():
    assert changed_sizes("((16, 43), (16,)) -> ((16, 39), (16,))") == [43, 39]
    assert changed_sizes("((16, 43), (16,)) -> ((16, 39, 1), (16,))") == []
    assert changed_sizes("") == []


def test_a_prediction_of_a_few_batches_is_one_batch(fixed, monkeypatch):
    text = f"{HEAD}for rows in parts:\n    answers.append(model.predict(rows, verbose=0))\n"
    finding = measured("predict-in-loop", text, "model.predict")
    monkeypatch.setattr(Project, "few_batches_each", lambda self, call, where, most: True)
    assert "model.predict_on_batch(rows)" in fixed(text, findings=finding)[0]
    assert fixed(text.replace("verbose=0", "batch_size=4096"), findings=finding)[0] is None


def test_other_predictions_that_are_called_as_often_change_with_the_one_that_is_named(fixed, monkeypatch):
    text = f"{HEAD}other = keras.Sequential([])\nfor rows in parts:\n    a = model.predict(rows, verbose=0)\n"
    text += "    b = other.predict(rows)\n"
    text += "    c = model.predict(rows, steps=1)\nprint(model.predict(rows))\n"
    monkeypatch.setattr(Project, "one_batch_each", lambda self, call, where: True)
    monkeypatch.setattr(Project, "calls", lambda self, call, where: 1 if where.line == text.count("\n") else 100)
    after, _ = fixed(text, findings=measured("predict-in-loop", text, "a = model.predict"))
    changed = text.replace("a = model.predict(rows, verbose=0)", "a = model.predict_on_batch(rows)")
    assert after == changed.replace("other.predict(", "other.predict_on_batch(")


def test_a_record_of_numbers_is_no_longer_a_part_of_a_compiled_function(fixed):
    text = STATIC.replace("import jax\n", "import jax\nfrom typing import NamedTuple\n").replace(
        "def loss(", "class Rates(NamedTuple):\n    beta: float = 0.1\n    rest: float = 0.2\n\n\ndef loss("
    )
    text = (
        text.replace('("beta", "size")', '("rates",)')
        .replace("beta, size):", "rates):")
        .replace("(weights, beta)\n\n\nfor", "(weights, rates.beta)\n\n\nfor")
    )
    text = text.replace(
        "    beta = round(epoch / 9, 3)\n    step(weights, beta=beta, size=3)",
        "    rates = first._replace(beta=epoch / 9)\n    step(weights, rates=rates)",
    )
    text = text.replace("for epoch", "first = Rates()\nfor epoch")
    finding = measured("recompilation", text, "step(weights, rates=")
    assert "\n@jax.jit\ndef step(weights, rates):" in fixed(text, findings=finding)[0]
    assert fixed(text.replace("rest: float = 0.2", "rest: str = 'a'"), findings=finding)[0] is None


def test_epochs_of_one_step_become_the_steps_of_one_epoch(fixed, monkeypatch):
    text = f"{HEAD}x, y = np.ones((4, 2)), np.ones((4, 1))\nmodel.fit(x, y, batch_size=4, epochs=EPOCHS, verbose=0)\n"
    finding = measured("short-epochs", text, "model.fit")
    assert fixed(text, unsafe=True, findings=finding)[0] is None  # nobody counted the steps
    monkeypatch.setattr(Project, "one_step_epochs", lambda self, where: True)
    after, found = fixed(text, unsafe=True, findings=finding)
    assert "\nmodel.fit(tf.data.Dataset.from_tensors((x, y)).repeat(EPOCHS), verbose=0)\n" in after
    assert found.edits[0].safe
    for more, risk in (
        (text.replace("verbose=0", "verbose=2"), "one line is printed"),
        (f"{text}print(model.history.history)\n", "the history has one record"),
        (text.replace("Dense(1)", "Dense(1), keras.layers.Dropout(0.1)"), "draw others"),
        (text.replace("Dense(1)", "Dense(1), Mine()"), "draw others"),
    ):
        assert risk in fixed(more, unsafe=True, findings=finding)[1].edits[0].unsafe
    jax = f"import os\nos.environ['KERAS_BACKEND'] = 'jax'\n{text}"
    (moved,) = measured("short-epochs", jax, "model.fit")
    assert "\nmodel.fit(((x, y) for _ in range(EPOCHS)), verbose=0)\n" in fixed(jax, unsafe=True, findings=[moved])[0]
    for before, instead in (
        ("model.fit", "history = model.fit"),
        ("verbose=0", "verbose=0, callbacks=[stop]"),
        ("verbose=0", "verbose=1"),
        ("fit(x, y", "fit([x, x], y"),
        ("import numpy", "import pandas\nimport numpy"),
    ):
        other = text.replace(before, instead)
        assert (
            fixed(
                other,
                unsafe=True,
                findings=measured("short-epochs", other, "model.fit" if "history" not in other else "history"),
            )[0]
            is None
        )


def test_a_fit_of_a_few_steps_becomes_these_steps(fixed, monkeypatch):
    text = f"{HEAD}def learn(rows, answers):\n\tmodel.fit(rows, answers, epochs=1, verbose=0)\n"
    finding = measured("fit-in-loop", text, "model.fit")
    assert fixed(text, unsafe=True, findings=finding)[0] is None
    monkeypatch.setattr(Project, "on_arrays", lambda self, call, where: True)
    after, found = fixed(text, unsafe=True, findings=finding)
    assert after.endswith(
        "\tfor start in range(0, len(rows), 32):\n"
        "\t\tmodel.train_on_batch(rows[start : start + 32], answers[start : start + 32])\n"
    )
    assert not found.edits[0].safe
    ordered = text.replace("verbose=0", "batch_size=64, shuffle=False, verbose=0")
    after, found = fixed(ordered, findings=finding)
    assert "range(0, len(rows), 64)" in after
    assert found.edits[0].safe
    shown = ordered.replace(", verbose=0", "")
    assert "progress" in fixed(shown, findings=finding)[1].edits[0].unsafe
    assert fixed(f"{ordered}\tprint(model.history.history)\n", findings=finding)[0] is None
    assert fixed(ordered.replace("import numpy", "import pandas, numpy"), findings=finding)[0] is None
    for given in ("epochs=2", "callbacks=[c]", "sample_weight=w"):
        assert fixed(text.replace("epochs=1", given), unsafe=True, findings=finding)[0] is None


# --- callbacks, layers and validation ----------------------------------------------------------------------


def test_a_hook_is_called_so_seldom_that_it_takes_little(fixed):
    for share, number in ((0.2, 10), (0.6, 50), (0.9, 200), (0.999, 1000)):
        text = WATCH.replace("time.sleep(0.01)", "time.sleep(0.01); self.model.save('x.keras')")
        after, _ = fixed(text, unsafe=True, findings=measured("blocking-callback", text, "time.sleep", share=share))
        assert f"fitscope.Every(Watch(), batches={number})" in after


EPOCH_END = """import keras


class Neighbors(keras.callbacks.Callback):
\tdef on_epoch_end(self, epoch, logs=None):
\t\t\"\"\"Slow.\"\"\"
\t\tprint(count(self.model.layers[0].get_weights()))


model = keras.Sequential([keras.layers.Dense(1)])
model.fit(x, y, callbacks=[Neighbors()])
"""


def test_work_at_the_end_of_an_epoch_is_done_after_some_of_them(fixed):
    finding = measured("slow-epoch-callback", EPOCH_END, "print(count")
    assert fixed(EPOCH_END, findings=finding)[0] is None
    after, found = fixed(EPOCH_END, unsafe=True, findings=finding)
    assert after == EPOCH_END.replace(
        "\t\tprint(count",
        '\t\tif (epoch + 1) % 5 and epoch + 1 != self.params["epochs"]:\n\t\t\treturn\n\t\tprint(count',
    )
    assert not found.edits[0].safe
    longer = measured("slow-epoch-callback", EPOCH_END, "print(count", share=0.4)
    assert "if (epoch + 1) % 20 and" in fixed(EPOCH_END, unsafe=True, findings=longer)[0]
    for line in ("self.model.stop_training = True", "self.model.set_weights(w)", "logs['mine'] = 1"):
        text = EPOCH_END.replace("\t\tprint", f"\t\t{line}\n\t\tprint")
        assert fixed(text, unsafe=True, findings=finding)[0] is None


def test_a_backup_is_made_once_per_epoch(fixed):
    text = f"{HEAD}backup = keras.callbacks.BackupAndRestore(\n    folder,  # here\n    save_freq=args.steps,\n)\n"
    finding = measured("frequent-checkpoint", text, "BackupAndRestore", share=0.5)
    assert fixed(text, unsafe=True, findings=finding)[0] == text.replace("args.steps", '"epoch"')


RECURRENT = """from keras import layers as L


def build():
    return [
        L.LSTM(8, unroll=True),  # short
        L.RNN(L.LSTMCell(8, recurrent_dropout=0.1), return_sequences=True),
        L.GRU(8, recurrent_dropout=rate, dropout=0.2),
        L.RNN(L.GRUCell(units=8)),
    ]
"""


def test_recurrent_layers_get_the_usual_settings(fixed):
    finding = measured("unfused-recurrent", RECURRENT, "unroll", says="unroll=True writes the 9 steps out")
    after, found = fixed(RECURRENT, findings=finding)
    assert only_line_changed(RECURRENT, after) == "        L.LSTM(8),  # short"
    assert found.edits[0].safe
    says = "RNN is computed the long way, because of recurrent_dropout=0.1."
    finding = measured("unfused-recurrent", RECURRENT, "L.LSTMCell", says=says)
    after, found = fixed(RECURRENT, unsafe=True, findings=finding)
    assert "        L.LSTM(8, dropout=0.1, return_sequences=True),\n        L.GRU(8, dropout=0.2),\n" in after
    assert "        L.GRU(units=8),\n" in after
    assert not found.edits[0].safe
    finding = measured(
        "unfused-recurrent", RECURRENT, "GRUCell", says="RNN is computed the long way, because of RNN(GRUCell(…))."
    )
    only_cells = RECURRENT.replace(", recurrent_dropout=0.1", "")
    after, found = fixed(only_cells, findings=finding)
    assert (
        "        L.LSTM(8, return_sequences=True),\n        L.GRU(8, recurrent_dropout=rate, dropout=0.2),\n" in after
    )
    assert found.edits[0].safe
    saved = f"{only_cells}model.load_weights('last.weights.h5')\n"
    assert "load_weights" in fixed(saved, findings=finding)[1].edits[0].unsafe


METRIC = """import keras


def pairs(y, p):
    return ((y[:, None] - p) ** 2).mean()


model = keras.Sequential([keras.layers.Dense(1)])
model.compile(
    "sgd",
    metrics=[
        "mae",
        pairs,  # all of them
    ],
)
model.fit(x, y)
"""


def test_a_dear_metric_is_taken_out_of_compile(fixed):
    finding = measured("expensive-metric", METRIC, "def pairs", says="The metric pairs takes 80 % of every step.")
    after, found = fixed(METRIC, unsafe=True, findings=finding)
    assert after == METRIC.replace("        pairs,  # all of them\n", "")
    assert not found.edits[0].safe
    assert fixed(METRIC, findings=finding)[0] is None
    for given, left in (("[pairs]", ""), ('["mae", pairs]', '["mae"]'), ('[pairs, "mae"]', '["mae"]')):
        text = METRIC.replace('[\n        "mae",\n        pairs,  # all of them\n    ]', given)
        changed = fixed(text, unsafe=True, findings=finding)[0]
        assert f"metrics={left}" in changed if left else "metrics" not in changed
    unpacked = METRIC + "loss, mae, last = model.evaluate(x, y)\n"
    assert fixed(unpacked, unsafe=True, findings=finding)[0] is None
    watched = METRIC + "print(history['val_pairs'])\n"
    assert fixed(watched, unsafe=True, findings=finding)[0] is None


def test_rows_are_padded_to_what_nearly_all_of_them_fill(fixed):
    text = f"{HEAD}MAXLEN = 400\nx = keras.utils.pad_sequences(texts, maxlen=MAXLEN)\nmodel.fit(x, y)\n"
    (finding,) = measured("overlong-sequence", text, "pad_sequences")
    shown = (Evidence("positions in each row", 400, "count"),)
    finding = dataclasses.replace(
        finding, evidence=shown, remedy="Pad to less: maxlen=64 holds 95 % of the rows whole; or"
    )
    after, found = fixed(text, unsafe=True, findings=[finding])
    assert after == text.replace("400", "64")
    assert not found.edits[0].safe
    assert fixed(text + "y = y[:400]\n", unsafe=True, findings=[finding])[0] is None
    assert fixed(text.replace("MAXLEN", "N"), unsafe=True, findings=[finding])[0] is None


def test_a_training_that_went_on_past_its_best_stops_early(fixed):
    text = f"{HEAD}model.fit(\n    x, y,  # rows\n    validation_data=z,\n    epochs=50,\n)\n"
    finding = measured("epochs-past-best", text, "model.fit")
    after, found = fixed(text, unsafe=True, findings=finding)
    new = "keras.callbacks.EarlyStopping(patience=4, restore_best_weights=True)"
    assert after == text.replace("    epochs=50,\n", f"    epochs=50,\n    callbacks=[{new}],\n")
    assert not found.edits[0].safe
    for given, expected in (
        ("[log]", f"[log, {new}]"),
        ("calls", f"[*calls, {new}]"),
        ("[keras.callbacks.EarlyStopping(patience=99)]", f"[{new}]"),
    ):
        other = text.replace("model.fit(", "calls = [log]\nmodel.fit(").replace("epochs=50", f"callbacks={given}")
        changed = fixed(other, unsafe=True, findings=measured("epochs-past-best", other, "model.fit"))[0]
        assert f"callbacks={expected},\n" in changed
    for given in ("made()", "[keras.callbacks.EarlyStopping('val_acc', patience=99)]"):
        other = text.replace("epochs=50", f"callbacks={given}")
        assert fixed(other, unsafe=True, findings=finding)[0] is None
    assert fixed(text.replace("validation_data=z", "epochs=3"), unsafe=True, findings=finding)[0] is None


def test_the_patience_of_a_setting_is_changed_where_it_is_written(fixed):
    text = (
        f"{HEAD}p.add_argument('--patience', type=int, default=50)\nargs = p.parse_args()\n"
        "stop = keras.callbacks.EarlyStopping(patience=args.patience, restore_best_weights=True)\n"
        "model.fit(x, y, validation_data=z, callbacks=[stop])\n"
    )
    finding = measured("epochs-past-best", text, "model.fit")
    assert fixed(text, unsafe=True, findings=finding)[0] == text.replace("default=50", "default=4")


def test_a_validation_of_single_rows_takes_many_at_once(fixed):
    text = f"{TORCH}held_out = DataLoader(rows, batch_size=1)\nmodel.fit(x, y, validation_data=held_out, epochs=2)\n"
    text = text.replace("import torch\n", "import torch\nimport keras\nmodel = keras.Sequential([])\n")
    finding = measured("dominant-validation", text, "model.fit", share=0.6)
    after, found = fixed(text, unsafe=True, findings=finding)
    assert after == text.replace("batch_size=1)", "batch_size=256)")
    assert "shapes" in found.edits[0].unsafe
    alike = text.replace(
        "held_out = DataLoader(rows",
        "_, rest = torch.utils.data.random_split(torch.utils.data.TensorDataset(x, y), n)\n"
        "held_out = DataLoader(rest",
    )
    place = measured("dominant-validation", alike, "model.fit", share=0.6)
    assert fixed(alike, findings=place)[1].edits[0].safe
    small = alike.replace("epochs=2", "batch_size=4, epochs=2")
    assert "memory" in fixed(small, findings=place)[1].edits[0].unsafe
    many = text.replace("batch_size=1)", "batch_size=32)")
    after, found = fixed(many, findings=finding)
    assert after == text.replace("batch_size=1)", "batch_size=256)")
    assert found.edits[0].safe
    assert fixed(many + "print(len(held_out))\n", findings=finding)[0] is None
    for before, instead in (
        ("batch_size=32", "batch_size=32, drop_last=True"),
        ("batch_size=32", "batch_sampler=some"),
        ("epochs=2", "epochs=2, validation_steps=10"),
    ):
        assert fixed(many.replace(before, instead), findings=finding)[0] is None
    arrays = f"{HEAD}model.fit(x, y, validation_data=(a, b), epochs=9)\n"
    finding = measured("dominant-validation", arrays, "model.fit", share=0.6)
    assert "validation_batch_size=256)" in fixed(arrays, findings=finding)[0]
    own = arrays.replace(
        "model.fit", "def score(y, p):\n    return y\n\n\nmodel.compile('sgd', metrics=[score])\nmodel.fit"
    )
    few = arrays.replace("epochs=9", "batch_size=2, epochs=9")
    for other in (
        own,
        own.replace("[score]", "[scores.of_batch]"),
        own.replace("metrics=[score]", "loss={'a': made(score)}"),
        arrays.replace(
            "model.fit", "class M(keras.Model):\n    def test_step(self, data):\n        ...\n\n\nmodel.fit"
        ),
        few,
    ):
        finding = measured("dominant-validation", other, "model.fit(", share=0.6)
        assert not fixed(other, findings=finding)[1].edits[0].safe
    usual = own.replace("[score]", "['mae', keras.metrics.AUC()]")
    assert fixed(usual, findings=measured("dominant-validation", usual, "model.fit(", share=0.6))[1].edits[0].safe


BY_HAND = """import torch

EVERY = 12


def score(model, held_out):
    with torch.no_grad():
        return sum(model(x) for x in held_out)


for step, (x, y) in enumerate(rows):
    train(x, y)
    if (step + 1) % EVERY == 0:  # look
        print(score(model, held_out))
"""


def test_a_loop_by_hand_validates_after_more_steps(fixed):
    finding = measured("dominant-validation", BY_HAND, "for x in held_out", share=0.2)
    after, found = fixed(BY_HAND, unsafe=True, findings=finding)
    assert after == BY_HAND.replace("EVERY = 12", "EVERY = 120")
    assert not found.edits[0].safe
    written = BY_HAND.replace("% EVERY", "% 12")
    assert (
        "% 600 == 0:  # look"
        in fixed(
            written,
            unsafe=True,
            findings=[dataclasses.replace(finding[0], evidence=(Evidence("of the training", 0.9, "share"),))],
        )[0]
    )
    few = dataclasses.replace(finding[0], evidence=(Evidence("training steps", 200, "count"),))
    assert "EVERY = 60\n" in fixed(BY_HAND, unsafe=True, findings=[few])[0]
    assert fixed(BY_HAND + "print(EVERY)\n", unsafe=True, findings=finding)[0] is None
    assert fixed(BY_HAND + "print(score(model, rest))\n", unsafe=True, findings=finding)[0] is None
    assert fixed(BY_HAND.replace("(step + 1) % EVERY == 0", "late(step)"), unsafe=True, findings=finding)[0] is None


def test_a_validation_that_others_watch_is_made_on_a_part_of_its_rows(fixed):
    text = (
        f"{HEAD}stop = keras.callbacks.EarlyStopping()\n"
        "model.fit(x, y, validation_data=((a, b), c), batch_size=64, epochs=9, callbacks=[stop])\n"
    )
    finding = measured("dominant-validation", text, "model.fit", share=0.6)
    after, found = fixed(text, unsafe=True, findings=finding)
    assert "validation_data=((a[:256], b[:256]), c[:256])" in after
    assert not found.edits[0].safe
    pair = text.replace("((a, b), c)", "held_out").replace("stop =", "held_out = (a, b)\nstop =")
    after, _ = fixed(pair, unsafe=True, findings=measured("dominant-validation", pair, "model.fit", share=0.6))
    assert "validation_data=(held_out[0][:256], held_out[1][:256])" in after
    named = text.replace("((a, b), c)", "(a, c)").replace("stop =", "a = {'first': b}\nstop =")
    finding = measured("dominant-validation", named, "model.fit", share=0.6)
    assert fixed(named, unsafe=True, findings=finding)[0] is None
    for data in ("held_out", "load()", "(load(), c)"):
        other = text.replace("((a, b), c)", data)
        assert fixed(other, unsafe=True, findings=finding)[0] is None


# --- together ----------------------------------------------------------------------------------------------


def test_edits_of_the_same_place_are_not_both_made(fixed, folder):
    text = FETCH + "data = tf.data.Dataset.range(9).map(load)\n"
    _, found = fixed(text)
    (edit,) = found.edits
    project = Project(folder / "train.py", here=folder)
    other = type(edit)(edit.finding, edit.file, (edit.replacements[0],), "the same again")
    applied = apply(project, [edit, other])
    assert applied.edits == (edit,)
    assert applied.left_out == ((other, "it would change the same place as another edit"),)


def test_where_results_must_not_change_a_kind_that_is_safe_is_taken_before_one_that_is_not(fixed):
    text = READS.replace("pairs = [", "time.sleep(0.1)\n        pairs = [").replace(
        "import json", "import json\nimport time"
    )
    finding = measured("single-worker-loader", text, "time.sleep", share=0.9)
    after, found = fixed(text, findings=finding)
    assert after == text.replace("super().__init__()", "super().__init__(workers=4)")
    assert found.edits[0].safe
    assert "functools.cache" in fixed(text, unsafe=True, findings=finding)[0]


def test_a_finding_in_an_installed_package_or_a_notebook_is_advice(folder, fixed):
    (folder / "site-packages").mkdir()
    (folder / "site-packages" / "theirs.py").write_text(WATCH)
    for file, reason in (("site-packages/theirs.py", "installed"), ("a.ipynb:cell 3", "no script")):
        finding = measured("blocking-callback", WATCH, "time.sleep(0.01)", file=file)
        assert reason in fixed(WATCH, findings=finding)[1].advice[0].why
