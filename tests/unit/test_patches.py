import os

from made import Tree

from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.model import Called, Where
from fitscope.patches import with_patches

SCRIPT = """import keras


class Waits(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print(batch)


model = keras.Sequential()
model.fit(x, y, callbacks=[Waits()])
"""


def report(folder, **changes):
    path = folder / "train.py"
    path.write_text(SCRIPT)
    tree = Tree()
    fit = tree.region(where=Where("train.py", 10))
    tree.add(fit, "step", "step", 20, 200)
    tree.add(fit, "callback", "Waits.on_train_batch_end", 20, 200, Where("train.py", 5))
    called = {fit: Called(1, 200, 1, (0.2,) * 200)}
    started = path.stat().st_mtime + 1
    run = tree.run(**{"script": "train.py", "cwd": str(folder), "called": called, "started": started, **changes})
    return diagnose(run, account(run))


def test_a_finding_gets_the_edit_that_fix_would_make(tmp_path):
    found = with_patches(report(tmp_path))
    (finding,) = [finding for finding in found.findings if finding.name == "blocking-callback"]
    assert finding.patch is not None
    assert "-model.fit(x, y, callbacks=[Waits()])" in finding.patch.diff.splitlines()
    assert (tmp_path / "train.py").read_text() == SCRIPT


def test_a_script_that_has_changed_since_gets_none(tmp_path):
    before = report(tmp_path, started=1.0)
    assert before.findings
    assert with_patches(before) == before


def test_a_script_that_is_gone_gets_none(tmp_path):
    before = report(tmp_path)
    os.remove(tmp_path / "train.py")  # noqa: PTH107
    assert with_patches(before) == before
