from dataclasses import replace
from pathlib import Path

import pytest
from made import FOLDER, Tree

from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.model import Called, Compile, MachineSample, Mark, Sampled, Speedup, Stage, Waits, Where
from fitscope.rules.case import Case
from fitscope.rules.keeping import RepeatedPreprocessing
from fitscope.rules.reading import _cuts_out
from fitscope.source import Script

TRAIN = Where("train.py", 40)


def training(seconds_of, *, steps=100, epochs=2, calls=1, call="fit", backend="tensorflow", **changes):
    """The report on a training whose parts took so long."""
    tree = Tree()
    root = tree.region(call, TRAIN)
    for (phase, name), seconds in seconds_of.items():
        tree.add(root, phase, name, seconds, count=steps, where=changes.pop("hook", None))
    called = {root: Called(calls, steps, epochs, changes.pop("durations", (0.01,) * steps))}
    stages = {root: tuple(changes.pop("stages", ()))}
    facts = tuple({"root": root, **fact} for fact in changes.pop("facts", ()))
    run = tree.run(called=called, stages=stages, facts=facts, backend=backend, **changes)
    return diagnose(run, account(run))


def names(report):
    return [finding.name for finding in report.findings]


def loader(working, *, parallelism=1, seconds=0.09):
    return Stage("Items.__getitem__", Where("load.py", 7), seconds, parallelism, 1.0, None, working)


def test_a_training_that_computes_has_nothing_to_be_said_of():
    report = training({("step", "step"): 20, ("data", "arrays"): 0.5, ("compile", "tracing"): 1})
    assert report.findings == ()
    assert report.doubts == ()


def test_a_loader_that_waits_needs_workers():
    report = training({("data", "PyDataset"): 9, ("step", "step"): 1}, stages=[loader(0.02)])
    assert names(report) == ["single-worker-loader"]
    finding = report.findings[0]
    assert finding.where == Where("load.py", 7)
    assert 1 < finding.estimated.low < finding.estimated.high <= 2 * finding.estimated.low


def test_a_loader_that_computes_needs_no_workers():
    report = training({("data", "PyDataset"): 9, ("step", "step"): 1}, stages=[loader(0.95)])
    assert names(report) == ["python-in-pipeline"]


def test_threads_that_take_turns_are_said_to():
    stages = [loader(0.26, parallelism=4, seconds=0.36)]
    report = training({("data", "PyDataset"): 9, ("step", "step"): 1}, stages=stages)
    # What the code computes costs more than that its threads take turns.
    assert names(report) == ["python-in-pipeline", "counterproductive-workers"]


def test_a_wait_that_nothing_explains_is_still_a_wait():
    report = training({("data", "DataLoader"): 5, ("step", "step"): 5}, backend="torch")
    assert names(report) == ["input-bound"]


def test_a_small_wait_is_nobodys_fault():
    report = training({("data", "PyDataset"): 0.7, ("step", "step"): 9.3}, stages=[loader(0.02, seconds=0.007)])
    assert names(report) == []


def test_a_slow_batch_hook_blocks_and_a_slow_epoch_hook_is_slow():
    report = training(
        {("callback", "Watch.on_train_batch_end"): 4, ("callback", "Plot.on_epoch_end"): 2, ("step", "step"): 4}
    )
    assert names(report) == ["blocking-callback", "slow-epoch-callback"]


def test_a_hook_behind_which_the_loader_works_on_may_gain_nothing_alone():
    parts = {("data", "PyDataset"): 5, ("callback", "Watch.on_train_batch_end"): 4, ("step", "step"): 1}
    found = {}
    for backend in ("tensorflow", "jax"):  # on JAX a loader without workers stands still during the hook
        report = training(parts, stages=[loader(0.02, seconds=0.099)], backend=backend)
        found[backend] = next(finding for finding in report.findings if finding.name == "blocking-callback")
    assert found["tensorflow"].estimated.low < 1.02 < found["tensorflow"].estimated.high
    assert "this gains little" in found["tensorflow"].remedy
    assert found["jax"].estimated.low > 1.3
    assert "this gains little" not in found["jax"].remedy


def test_estimates_together_never_promise_more_than_all():
    report = training(
        {
            ("callback", "A.on_train_batch_end"): 30,
            ("callback", "B.on_train_batch_end"): 30,
            ("callback", "C.on_epoch_end"): 30,
            ("step", "step"): 1,
        }
    )
    saved = sum(1 - 1 / finding.estimated.high for finding in report.findings)
    assert len(report.findings) == 3
    assert saved <= 1 + 1e-9


def test_the_dearest_comes_first():
    report = training(
        {("callback", "A.on_train_batch_end"): 1, ("callback", "B.on_epoch_end"): 5, ("step", "step"): 4}
    )
    assert names(report) == ["slow-epoch-callback", "blocking-callback"]


@pytest.mark.parametrize(("calls", "seconds", "found"), [(100, 0.9, []), (10, 0.9, ["slow"]), (100, 1.5, ["slow"])])
def test_a_hook_of_short_epochs_is_slow_only_if_it_takes_a_tenth(calls, seconds, found):
    report = training({("callback", "A.on_epoch_end"): seconds, ("step", "step"): 10 - seconds}, steps=calls)
    assert names(report) == [f"{each}-epoch-callback" for each in found]


@pytest.mark.parametrize(
    ("hook", "call", "found"),
    [
        ("on_epoch_end", "predict", "predict-in-callback"),
        ("on_epoch_end", "predict_on_batch", "slow-epoch-callback"),
        ("on_train_batch_end", "predict_on_batch", "predict-in-callback"),
    ],
)
def test_a_prediction_that_sets_up_nothing_is_an_epoch_hooks_own_work(hook, call, found):
    tree = Tree()
    root = tree.region("fit", TRAIN)
    tree.add(root, "step", "step", 6, count=100)
    scores = tree.add(root, "callback", f"Scores.{hook}", 0.1, count=2)
    tree.add(tree.add(scores, "call", call, 0, 0, where=TRAIN), "step", "step", 4, count=60)
    run = tree.run(called={root: Called(1, 100, 2, (0.06,) * 100)})
    assert names(diagnose(run, account(run))) == [found]


def test_what_takes_less_than_three_percent_is_not_said():
    assert names(training({("callback", "A.on_train_batch_end"): 0.28, ("step", "step"): 9.72})) == []


def test_an_eager_model_is_named_except_on_torch():
    eager = [{"fact": "settings", "run_eagerly": True}]
    assert names(training({("step", "step"): 10}, facts=eager)) == ["eager-execution"]
    assert names(training({("step", "step"): 10}, facts=eager, backend="torch")) == []


def test_an_update_outside_of_the_compiled_gradient_is_named_at_its_line():
    tree = Tree()
    root = tree.region("loop", TRAIN)
    step = tree.add(root, "step", "your code in the loop", 10, count=100)
    run = tree.run(
        called={root: Called(1, 100, 0, (0.1,) * 100)},
        facts=(
            {"fact": "loop-trains", "root": root, "eager": True},
            {"fact": "gradient-compiled", "root": root},
        ),
        compiles={root: (Compile("jit(loss)", "first", "", 1, 0.2, TRAIN),)},
        sampled=(Sampled(step, TRAIN, "update", 80), Sampled(step, Where("train.py", 99), "update", 20)),
        backend="jax",
    )
    (finding,) = diagnose(run, account(run)).findings
    assert (finding.name, finding.where) == ("eager-execution", TRAIN)
    assert "outside of any compiled function" in finding.says
    assert finding.estimated.low < 10 / (10 - 0.85 * 8) < finding.estimated.high <= 2 * finding.estimated.low


def test_a_blink_is_too_short_to_judge():
    report = training({("callback", "A.on_train_batch_end"): 0.5, ("step", "step"): 0.1})
    assert report.findings == ()
    assert "too little" in report.doubts[0]


def test_other_programs_are_mentioned():
    sample = MachineSample(1.0, (0.9, 0.9), 0.6, 10**9, 0.0, 0, 0)
    report = training({("step", "step"): 10}, samples=(sample,) * 5)
    assert "Other programs used 1.2 processors" in report.doubts[0]


def test_a_source_that_changed_since_is_not_read(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("model.compile(run_eagerly=True)\n")
    tree = Tree()
    root = tree.region("fit", Where("train.py", 9))
    tree.add(root, "step", "step", 10)
    facts = ({"fact": "settings", "root": root, "run_eagerly": True},)
    run = tree.run(facts=facts, backend="tensorflow", called={root: Called(1, 100, 1)})
    later, earlier = (replace(run, cwd=str(tmp_path), started=started) for started in (9e12, 1.0))
    assert diagnose(later, account(later)).findings[0].where == Where("train.py", 1)
    assert diagnose(earlier, account(earlier)).findings[0].where == Where("train.py", 9)


@pytest.mark.parametrize("cwd", [FOLDER, "/nowhere"])
def test_a_run_is_diagnosed_where_its_source_is_not_at_hand(cwd):
    report = training({("callback", "A.on_train_batch_end"): 5, ("step", "step"): 5}, cwd=cwd)
    assert names(report) == ["blocking-callback"]


def test_a_hook_that_the_validation_calls_is_a_hook_and_no_fault_of_the_validation():
    tree = Tree()
    root = tree.region("fit", TRAIN)
    tree.add(root, "step", "step", 3, count=100)
    inside = tree.add(root, "validation", "validation", 0)
    tree.add(inside, "step", "step", 1, count=100)
    tree.add(inside, "callback", "Bootstrap.on_test_batch_end", 6, count=100, where=Where("train.py", 12))
    run = tree.run(called={root: Called(1, 100, 2, (0.1,) * 100)}, backend="tensorflow")
    report = diagnose(run, account(run))
    assert names(report) == ["blocking-callback"]
    assert report.findings[0].where == Where("train.py", 12)
    assert "of the validation" in report.findings[0].says


def test_a_wait_inside_the_validation_is_promised_once():
    tree = Tree()
    root = tree.region("fit", TRAIN)
    tree.add(root, "step", "step", 2, count=100)
    tree.add(root, "data", "PyDataset", 2, count=100)
    inside = tree.add(root, "validation", "validation", 0)
    tree.add(inside, "data", "PyDataset", 14, count=300)
    tree.add(inside, "step", "step", 2, count=300)
    stage = {root: (loader(0.02, seconds=0.1),)}
    run = tree.run(called={root: Called(1, 100, 2, (0.04,) * 100)}, stages=stage, backend="tensorflow")
    report = diagnose(run, account(run))
    assert set(names(report)) == {"single-worker-loader", "dominant-validation"}
    validation = next(finding for finding in report.findings if finding.name == "dominant-validation")
    alone = 20 / (20 - 0.85 * 16)
    assert validation.estimated.high < alone


@pytest.mark.parametrize(("looks", "line"), [(60, 7), (15, TRAIN.line)])
def test_steps_that_get_slower_are_named_at_the_line_they_were_found_at(looks, line):
    durations = tuple(0.004 + 0.000_04 * step for step in range(500))
    tree = Tree()
    root = tree.region("fit", TRAIN)
    step = tree.add(root, "step", "step", sum(durations), count=500)
    lines = (
        Sampled(step, Where("watch.py", 7), "hook", looks, ""),
        Sampled(step, Where("train.py", 9), "call", 20, ""),
    )
    run = tree.run(called={root: Called(1, 500, 5, durations)}, sampled=lines, backend="torch")
    finding = diagnose(run, account(run)).findings[0]
    assert (finding.name, finding.where.line) == ("slowing-down", line)
    # As fast as the first of the steps, all would be 3.5 times as fast; the first fifth is slower than that.
    assert finding.estimated.low < 3.5 < finding.estimated.high


@pytest.mark.parametrize(
    ("stretches", "found"),
    [
        ((5, 7, 9, 11, 13), ["slowing-down"]),
        ((5, 5.3, 6.5, 9, 14), ["slowing-down"]),
        ((7, 11.1, 11.3, 11.4, 11.5), []),
        ((28.4, 28.5, 29.5, 36, 44), []),
        ((10, 11, 13, 20, 80), ["slowing-down"]),
    ],
)
def test_what_grows_does_so_all_along(stretches, found):
    durations = tuple(each / 1000 for each in stretches for _ in range(100))
    report = training({("step", "step"): sum(durations)}, steps=500, durations=durations, backend="torch")
    assert names(report) == found


def test_what_grows_in_a_hook_is_promised_once():
    tree = Tree()
    root = tree.region("fit", TRAIN)
    durations = tuple(0.01 + 0.0001 * number for number in range(500))
    tree.add(
        root, "callback", "Remember.on_train_batch_end", sum(durations) - 2, count=500, where=Where("train.py", 9)
    )
    tree.add(root, "step", "step", 2, count=500)
    run = tree.run(called={root: Called(1, 500, 1, durations)}, backend="tensorflow")
    report = diagnose(run, account(run))
    assert set(names(report)) == {"slowing-down", "blocking-callback"}
    hook = next(finding for finding in report.findings if finding.name == "blocking-callback")
    grows = next(finding for finding in report.findings if finding.name == "slowing-down")
    assert grows.where == Where("train.py", 9)
    saved = sum(1 - 1 / finding.estimated.low for finding in (hook, grows))
    assert saved <= (sum(durations) - 2) / sum(durations)


def generator(working):
    python = Stage("rows (Python)", Where("load.py", 3), 0.09, 1, 1.0, None, working)
    return [python, Stage("Generator", Where("train.py", 20), 0.09, 1, 1.0)]


def test_a_generator_that_waits_is_no_python_that_computes():
    report = training({("data", "tf.data"): 9, ("step", "step"): 1}, stages=generator(0.03))
    assert names(report) == ["single-worker-loader"]
    assert "interleave" in report.findings[0].remedy


def test_a_generator_that_computes_is_python_in_the_pipeline():
    report = training({("data", "tf.data"): 9, ("step", "step"): 1}, stages=generator(0.97))
    assert names(report)[0] == "python-in-pipeline"


def test_what_eight_read_at_once_is_not_called_slow_storage():
    found = {}
    for workers in (2, 8):
        tree = Tree()
        root = tree.region("fit", TRAIN)
        tree.add(root, "data", "PyDataset", 9, count=100)
        tree.add(root, "step", "step", 1, count=100)
        sampled = (Sampled(-root, Where("load.py", 8), "read", 50, "network"),)
        stages = {root: (loader(0.02, parallelism=workers, seconds=0.3),)}
        called = {root: Called(1, 100, 2, (0.1,) * 100)}
        run = tree.run(called=called, stages=stages, sampled=sampled, backend="jax")
        found[workers] = names(diagnose(run, account(run)))
    assert found[2] == ["slow-storage"]
    assert "slow-storage" not in found[8]


def test_a_loader_that_waits_on_a_line_that_reads_waits_for_its_storage(tmp_path):
    found = {}
    for line in ('rows = open(name, "rb").read()', "rows = queue.get()"):
        (tmp_path / "load.py").write_text(line + "\n")
        tree = Tree()
        root = tree.region("fit", TRAIN)
        tree.add(root, "data", "PyDataset", 9, count=100)
        tree.add(root, "step", "step", 1, count=100)
        stages = {root: (loader(0.02, parallelism=2, seconds=0.3),)}
        looks = (Sampled(-root, Where("load.py", 1), "read", 50),)
        called = {root: Called(1, 100, 2, (0.1,) * 100)}
        run = tree.run(called=called, stages=stages, sampled=looks, backend="jax", cwd=str(tmp_path), started=9e12)
        found[line] = names(diagnose(run, account(run)))
    assert list(found.values()) == [["slow-storage"], ["input-bound"]]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('x[k] = self.file["X"][day]', "slow-storage"),
        ('x[k] = np.array(self.file["X"][day])', "slow-storage"),
        ("x[k] = json.loads(rows[day])", "python-in-pipeline"),
        ("x[k] = self.archive.read(self.names[day])", "python-in-pipeline"),
        ("x[k] = soundfile.read(self.paths[day])[0]", "python-in-pipeline"),
        ("x[k] = decompressed(day)", "python-in-pipeline"),
    ],
)
def test_rows_that_a_library_takes_out_of_a_file_are_reading_though_they_compute(tmp_path, line, expected):
    (tmp_path / "load.py").write_text(f"import numpy as np; {line}\n")
    tree = Tree()
    root = tree.region("fit", TRAIN)
    waits = tree.add(root, "data", "PyDataset", 9, count=100)
    tree.add(root, "step", "step", 1, count=100)
    run = tree.run(
        called={root: Called(1, 100, 2, (0.1,) * 100)},
        stages={root: (replace(loader(0.99), where=Where("load.py", 13)),)},
        sampled=(Sampled(waits, Where("load.py", 1), "__getitem__", 50, "files"),),
        backend="jax",
        cwd=str(tmp_path),
        started=9e12,
    )
    assert names(diagnose(run, account(run)))[0] == expected


FLIPPED = """
def clean(blob):
    return {cleaned}


class Casting:
    def clean(self):
        return {cleaned}


class Castings(Dataset):
    def __getitem__(self, index):
        x = {call}
        return x[::-1] if self.rng.random() < 0.5 else x

    def on_epoch_end(self):
        self.angle = self.rng.random()
"""


@pytest.mark.parametrize(
    ("call", "cleaned", "doing", "found"),
    [
        ("clean(self.blobs[index])", "image_of(blob).filter(5)", "images", "repeated-preprocessing"),
        ("clean(self.blobs[index])", "numpy.median(blob)", "", "repeated-preprocessing"),
        ("clean(self.blobs[index])", "[value + 1 for value in blob]", "", "python-in-pipeline"),
        ("clean(self.rng.choice(self.blobs))", "image_of(blob).filter(5)", "images", "python-in-pipeline"),
        ("clean(self.blobs[index] * self.angle)", "numpy.median(blob)", "", "python-in-pipeline"),
        ("self.castings[index].clean()", "numpy.median(self.blob)", "", "repeated-preprocessing"),
        ("self.castings[index].clean()", "numpy.random.permutation(self.blob)", "", "python-in-pipeline"),
        ("self.castings[self.rng.choice(9)].clean()", "numpy.median(self.blob)", "", "python-in-pipeline"),
    ],
)
def test_what_a_loader_computes_before_it_draws_is_worth_keeping(tmp_path, call, cleaned, doing, found):
    (tmp_path / "load.py").write_text("import numpy\n" + FLIPPED.format(call=call, cleaned=cleaned))
    tree = Tree()
    root = tree.region("fit", TRAIN)
    waits = tree.add(root, "data", "PyDataset", 9, count=100)
    tree.add(root, "step", "step", 1, count=100)
    run = tree.run(
        called={root: Called(1, 100, 5, (0.1,) * 100)},
        stages={root: (replace(loader(0.99), where=Where("load.py", 13)),)},
        sampled=(Sampled(waits, Where("load.py", 9 if ".clean" in call else 4), "clean", 50, doing),),
        backend="jax",
        cwd=str(tmp_path),
        started=9e12,
    )
    assert names(diagnose(run, account(run)))[0] == found


DRAWN = """
import numpy


def spectrum(path):
    return numpy.median(path)


class Windows(PyDataset):
    def on_epoch_end(self):
        {between}

    def window_of(self, path, gain):
        return spectrum({given}) * gain

    def __getitem__(self, index):
        chosen = self.rng.integers(0, len(self.files), 16)
        order = self.order[index * 16 : (index + 1) * 16]
        return [self.window_of(self.files[{index}][0], self.rng.random()) for i in {through}]
"""


@pytest.mark.parametrize(
    ("given", "index", "through", "between", "files", "found"),
    [
        ("path", "i", "chosen", "self.rng.shuffle(self.files)", 48, "repeated-preprocessing"),
        ("path", "i", "chosen", "self.files[:] = self.play()", 48, "python-in-pipeline"),
        ("path", "i", "chosen", "pass", 48_000, "python-in-pipeline"),
        ("path", "i", "chosen", "pass", None, "python-in-pipeline"),
        ("path", "i", "order", "pass", 400, "repeated-preprocessing"),
        ("path * gain", "i", "chosen", "pass", 48, "python-in-pipeline"),
        ("path, random.choice(self.files)", "i", "chosen", "pass", 48, "python-in-pipeline"),
        ("[self.files[k] for k in chosen]", "i", "chosen", "pass", 48, "python-in-pipeline"),
        ("path", "self.rng.integers(48)", "chosen", "pass", 48, "repeated-preprocessing"),
        ("path", "i + self.rng.integers(3)", "chosen", "pass", 48, "python-in-pipeline"),
    ],
)
def test_items_that_are_drawn_are_worth_keeping_if_they_are_fewer_than_the_draws(
    tmp_path, given, index, through, between, files, found
):
    text = DRAWN.format(given=given, index=index, through=through, between=between)
    (tmp_path / "load.py").write_text(text)
    tree = Tree()
    root = tree.region("fit", TRAIN)
    waits = tree.add(root, "data", "PyDataset", 9, count=100)
    tree.add(root, "step", "step", 1, count=100)
    sizes = {"files": files} if files else {}
    run = tree.run(
        called={root: Called(1, 100, 5, (0.1,) * 100)},
        stages={root: (replace(loader(0.99), where=Where("load.py", 16)),)},
        sampled=(Sampled(waits, Where("load.py", 6), "spectrum", 50),),
        facts=({"fact": "items", "root": root, "rows": 16, "sizes": sizes},),
        backend="jax",
        cwd=str(tmp_path),
        started=9e12,
    )
    first = diagnose(run, account(run)).findings[0]
    assert first.name == found
    assert ("drawn out of" in first.says) == (found == "repeated-preprocessing")


PAINTED = """import numpy, scipy.ndimage
class Scenes:
    def __getitem__(self, index):
        planes = numpy.zeros((64, 64, 7))
        for y in range(64):
            {inner}
        return planes
"""


@pytest.mark.parametrize(
    ("inner", "found"),
    [
        ("for x in range(64): planes[y, x, self.kinds[y, x]] = 1", "python-in-pipeline"),
        ("for x in range(64): planes[y, x] = scipy.ndimage.median_filter(self.kinds[y, x])", "single-worker-loader"),
        ("planes[y] = numpy.eye(7)[self.kinds[y]]", "single-worker-loader"),
    ],
)
def test_work_on_single_values_is_cheaper_as_work_on_arrays_than_with_workers(tmp_path, inner, found):
    (tmp_path / "load.py").write_text(PAINTED.format(inner=inner))
    tree = Tree()
    root = tree.region("fit", TRAIN)
    waits = tree.add(root, "data", "DataLoader", 7, count=100)
    tree.add(root, "step", "step", 3, count=100)
    run = tree.run(
        called={root: Called(1, 100, 5, (0.1,) * 100)},
        stages={root: (replace(loader(0.99), where=Where("load.py", 3)),)},
        sampled=(Sampled(waits, Where("load.py", 6), "__getitem__", 50),),
        backend="torch",
        cwd=str(tmp_path),
        started=9e12,
    )
    assert names(diagnose(run, account(run)))[0] == found


@pytest.mark.parametrize(("spent", "found"), [((1.0,) * 4, ["slow-epoch-callback"]), ((0.0, 0.0, 0.0, 4.0), [])])
def test_an_epoch_hook_that_worked_in_one_epoch_only_cannot_work_less_often(spent, found):
    tree = Tree()
    root = tree.region("fit", TRAIN)
    tree.add(root, "step", "step", 6, count=100)
    hook = tree.add(root, "callback", "Scores.on_epoch_end", 4, count=4)
    marks = tuple(Mark(root, 3.0 * at, at, 25 * at, {hook: each}) for at, each in enumerate(spent, start=1))
    run = tree.run(called={root: Called(1, 100, 4, (0.06,) * 100)}, marks=marks)
    assert names(diagnose(run, account(run))) == found


def test_a_dear_hook_hides_no_other_that_works_in_every_epoch():
    tree = Tree()
    root = tree.region("fit", TRAIN)
    tree.add(root, "step", "step", 6, count=100)
    hooks = {
        tree.add(root, "callback", f"{name}.on_epoch_end", 4 * each, count=4): each for name, each in BOTH.items()
    }
    marks = tuple(
        Mark(root, 13.0 * at, at, 25 * at, {hook: each * at for hook, each in hooks.items()}) for at in range(1, 5)
    )
    run = tree.run(called={root: Called(1, 100, 4, (0.06,) * 100)}, marks=marks)
    assert names(diagnose(run, account(run))) == ["slow-epoch-callback", "slow-epoch-callback"]


BOTH = {"Scores": 1.0, "Noise": 10.0}


def test_a_loader_that_wants_a_processor_and_has_none_is_not_said_to_wait():
    beside = MachineSample(1.0, (1.0, 1.0), 0.4, 10**9, 0.0, 0, 0)
    parts = {("data", "PyDataset"): 9, ("step", "step"): 1}
    assert names(training(parts, stages=[loader(0.3)])) == ["single-worker-loader"]
    assert names(training(parts, stages=[loader(0.3)], samples=(beside,) * 5)) == ["python-in-pipeline"]
    assert names(training(parts, stages=[loader(0.02)], samples=(beside,) * 5)) == ["single-worker-loader"]


def cached(behind, passes=4, *, loads_anew):
    """A training whose maps lie before a cache, and are at work in every pass or in the first one."""
    stages = ["tensorslice", "map", "cache", *behind, "batch"]
    written = [{"kind": kind, "where": Where("train.py", line)} for line, kind in enumerate(stages, start=10)]
    written[1] |= {"python": False, "random": False}
    seen = 400 if loads_anew else 400 // passes
    measured = [
        Stage("ParallelMap", Where("train.py", 11), 0.1, 2, 8.0, batches=seen),
        Stage("MemoryCache", None, 0.0001, 1, 8.0, batches=400),
        Stage("Batch", written[-1]["where"], 0.001, 1, 1.0, batches=400),
    ]
    fact = {"fact": "pipeline", "stages": written[::-1]}
    parts = {("data", "tf.data"): 25, ("step", "step"): 15}
    return training(parts, steps=400, epochs=passes, stages=measured, facts=[fact])


def test_a_cache_that_a_take_keeps_from_its_end_is_misplaced():
    report = cached(["take"], loads_anew=True)
    assert names(report) == ["misplaced-cache"]
    assert report.findings[0].where == Where("train.py", 12)
    assert "misplaced-cache" not in names(cached(["take"], loads_anew=False))
    assert "misplaced-cache" not in names(cached([], loads_anew=True))


@pytest.mark.parametrize(
    ("order", "found"), [("repeat cache", True), ("cache repeat", False), ("repeat cache map", False)]
)
def test_a_cache_behind_an_endless_repeat_is_never_read(order, found):
    kinds = ("tensorslice", "map", *order.split(), "batch")
    written = [{"kind": kind, "where": Where("train.py", line)} for line, kind in enumerate(kinds, start=10)]
    for stage in written:
        stage |= {"python": False, "random": False} if stage["kind"] == "map" else {}
    next(stage for stage in written if stage["kind"] == "repeat")["size"] = -1
    fact = {"fact": "pipeline", "stages": written[::-1]}
    parts = {("data", "tf.data"): 25, ("step", "step"): 15}
    # Of the passes of a repeat only one is seen: no stage explains the wait.
    report = training(parts, steps=400, epochs=4, facts=[fact])
    assert names(report) == (["misplaced-cache"] if found else ["input-bound"])
    if found:
        assert report.findings[0].where == Where("train.py", 13)
    alone = training(parts, steps=400, epochs=1, facts=[fact])
    assert names(alone) == ["input-bound"]


@pytest.mark.parametrize(("between", "found"), [({}, True), ({"kind": "shuffle"}, True), ({"random": True}, False)])
def test_a_cache_with_the_work_behind_it_is_misplaced_also_where_a_shuffle_is_between(between, found):
    kinds = ("tensorslice", "cache", "map", "map", "batch")
    written = [{"kind": kind, "where": Where("train.py", line)} for line, kind in enumerate(kinds, start=10)]
    written[2] |= between
    stages = [Stage("ParallelMap", Where("train.py", 13), 0.1, 2, 8.0, batches=400)]
    fact = {"fact": "pipeline", "stages": written[::-1]}
    parts = {("data", "tf.data"): 25, ("step", "step"): 15}
    report = training(parts, steps=400, epochs=4, stages=stages, facts=[fact])
    assert ("misplaced-cache" in names(report)) is found
    if found:
        assert ("Shuffle behind" in report.findings[0].remedy) is ("kind" in between)


@pytest.mark.parametrize(
    ("callbacks", "found"),
    [
        ([], True),
        ([("EarlyStopping", 50)], True),
        ([("EarlyStopping", 10)], False),
        ([("EarlyStopping", None)], False),
    ],
)
def test_epochs_past_the_best_are_named_unless_something_watched_for_them(callbacks, found):
    scores = [0.5, 0.4, *(0.41 + number / 100 for number in range(28))]
    facts = [
        {"fact": "history", "scores": {"val_loss": scores}},
        {"fact": "settings", "callbacks": [{"name": name, "patience": patience} for name, patience in callbacks]},
    ]
    report = training({("step", "step"): 30}, steps=300, epochs=30, facts=facts)
    assert ("epochs-past-best" in names(report)) is found


def test_a_stage_that_a_full_cache_replaces_is_not_the_slowest():
    kinds = ("tensorslice", "map", "cache", "map", "batch")
    written = [{"kind": kind, "where": Where("train.py", line)} for line, kind in enumerate(kinds, start=10)]
    for full, slowest in ((False, "ParallelMap"), (True, "Map")):
        stages = [
            Stage("ParallelMap", Where("train.py", 11), 0.1, 1, 8.0, batches=10 if full else 400),
            Stage("Map", Where("train.py", 13), 0.05, 1, 8.0, batches=400),
            Stage("MemoryCache", None, 1e-6, 1, 8.0, batches=4000),  # that of the validation is among them
        ]
        tree = Tree()
        root = tree.region("fit", TRAIN)
        tree.add(root, "data", "tf.data", 20)
        facts = ({"fact": "pipeline", "root": root, "stages": written[::-1]},)
        run = tree.run(called={root: Called(1, 400, 40)}, stages={root: tuple(stages)}, facts=facts)
        data = Case(run, account(run)).inputs[0]
        assert data.at_work(stages[1]) == 1
        assert data.slowest.name == slowest


def windows(each):
    """A training on windows that a map makes one by one; tf.data has made one stage of it and of the batching."""
    kinds = ["tensorslice", "window", "flatmap", "map", "batch"]
    written = [{"kind": kind, "where": Where("train.py", line)} for line, kind in enumerate(kinds, start=10)]
    written[3] |= {"python": False, "random": False}
    stages = [
        Stage("MapAndBatch", Where("train.py", 13), 64 * each, 1, 1.0),
        Stage("FlatMap", Where("train.py", 12), 64 * each / 2, 1, 64.0),
    ]
    fact = {"fact": "pipeline", "stages": written[::-1]}
    return training({("data", "tf.data"): 1, ("step", "step"): 1}, steps=500, stages=stages, facts=[fact])


def test_a_map_that_was_joined_with_the_batch_still_works_example_by_example():
    report = windows(30e-6)
    assert names(report)[0] == "per-example-work"
    assert "64 times for each batch" in report.findings[0].says
    assert "per-example-work" not in names(windows(300e-6))


@pytest.mark.parametrize(("kind", "found"), [("Window", True), ("TensorSlice", False)])
def test_datasets_that_are_opened_for_each_example_are_work_on_single_examples(kind, found):
    kinds = ["tensorslice", "interleave", "batch"]
    written = [{"kind": each, "where": Where("train.py", line)} for line, each in enumerate(kinds, start=10)]
    stages = [
        Stage(kind, None, 0.0001, 1, 32.0, batches=1000),  # of ten datasets that take turns, each in all batches
        Stage("Interleave", Where("train.py", 11), 0.0002, 1, 64.0, batches=500),
    ]
    fact = {"fact": "pipeline", "stages": written[::-1]}
    report = training({("data", "tf.data"): 10, ("step", "step"): 5}, steps=500, stages=stages, facts=[fact])
    assert names(report) == (["per-example-work"] if found else ["input-bound"])
    if found:
        assert report.findings[0].where == Where("train.py", 11)
        assert "64 times for each batch" in report.findings[0].says


def sampled(tmp_path, source, phase, name, call="fit", backend="torch"):
    """A training that was found on the last line of a script."""
    script = tmp_path / "train.py"
    script.write_text(source)
    lines = len(source.splitlines())
    tree = Tree()
    root = tree.region(call, Where("train.py", 1))
    part = tree.add(root, phase, name, 8, count=100)
    tree.add(root, "step", "step", 2)
    facts = ({"fact": "loop-trains", "root": root},)
    looks = (Sampled(part, Where("train.py", lines), "send", 50),)
    called = {root: Called(1, 100, 1)}
    run = tree.run(called=called, sampled=looks, facts=facts, cwd=str(tmp_path), started=9e12, backend=backend)
    return names(diagnose(run, account(run)))


def beside(call, *, calls=10, steps=1000, updates=("train",), seconds=6):
    """A loop that trains, and another loop or an `evaluate` that is called again and again."""
    tree = Tree()
    roots = {"train": tree.region("loop", Where("train.py", 1)), "other": tree.region(call, Where("train.py", 5))}
    tree.add(roots["train"], "step", "your code in the loop", 4)
    tree.add(roots["other"], "step", "your code in the loop", seconds)
    facts = [{"fact": "loop-trains", "root": root} for root in roots.values()]
    facts += [{"fact": "loop-updates", "root": roots[name]} for name in updates]
    called = {roots["train"]: Called(10, 500, 0), roots["other"]: Called(calls, steps, 0)}
    run = tree.run(called=called, facts=tuple(facts), backend="tensorflow")
    return [(each.name, each.where) for each in diagnose(run, account(run)).findings]


@pytest.mark.parametrize("call", ["loop", "evaluate"])
def test_what_goes_through_its_data_again_and_again_beside_a_loop_that_trains_is_its_validation(call):
    assert beside(call) == [("dominant-validation", Where("train.py", 5))]
    assert beside(call, seconds=1) == []
    assert beside(call, calls=1) == []  # once, at the end
    assert beside("evaluate", steps=20) == []  # a row or two at a time


def test_a_backward_pass_inside_the_loop_is_the_loops_own(tmp_path):
    (tmp_path / "model.py").write_text(EXPERTS.format(line="loss = ops.sum(self.w[k] * x); loss.backward()"))
    number = EXPERTS[: EXPERTS.index("{line}")].count("\n") + 1
    tree = Tree()
    root = tree.region("fit", TRAIN)
    step = tree.add(root, "step", "step", 8, count=400)
    run = tree.run(
        called={root: Called(1, 400, 2, (0.02,) * 400)},
        sampled=(Sampled(step, Where("model.py", number), "call", 60),),
        facts=({"fact": "settings", "root": root, "parameters": 10_000, "batch_size": 32},),
        backend="torch",
        cwd=str(tmp_path),
        started=9e12,
    )
    (finding,) = diagnose(run, account(run)).findings
    assert all(each.value <= 1 for each in finding.evidence if each.unit == "share")
    assert finding.estimated.low < finding.estimated.high


def test_a_fit_has_its_own_validation():
    tree = Tree()
    once, fit, scores = (
        tree.region(call, Where("train.py", line))
        for line, call in enumerate(("train_on_batch", "fit", "evaluate"), start=1)
    )
    tree.add(once, "step", "step", 0.1)
    tree.add(fit, "step", "step", 7)
    tree.add(scores, "step", "step", 3.2)
    called = {once: Called(1, 1, 0), fit: Called(1, 4000, 4, (0.002,) * 4000), scores: Called(10, 400, 0)}
    run = tree.run(called=called, backend="tensorflow")
    assert names(diagnose(run, account(run))) == []


def test_loops_are_no_validation_where_nobody_knows_which_of_them_trains():
    assert beside("loop", updates=()) == []
    assert beside("loop", updates=("train", "other")) == []


def test_a_hook_that_waits_for_a_socket_is_in_the_network(tmp_path):
    hook = ("callback", "Sends.on_train_batch_end")
    assert sampled(tmp_path, "import socket\nanswer = link.recv(16)\n", *hook) == ["network-in-callback"]
    assert sampled(tmp_path, "import multiprocessing\nanswer = link.recv()\n", *hook) == ["blocking-callback"]


@pytest.mark.parametrize(("seconds", "found"), [(0.5, []), (1.2, ["network-in-callback"])])
def test_a_request_per_epoch_is_nobodys_fault_where_it_is_brief(seconds, found):
    tree = Tree()
    root = tree.region("fit", TRAIN)
    hook = tree.add(root, "callback", "Rate.on_epoch_begin", seconds, count=40)
    tree.add(root, "step", "step", 10 - seconds)
    looks = (Sampled(hook, Where("train.py", 9), "send", 50, "network"),)
    run = tree.run(called={root: Called(1, 1000, 40)}, sampled=looks, backend="jax")
    assert names(diagnose(run, account(run))) == found


def test_numpy_in_a_function_that_the_step_calls_is_python_in_the_model(tmp_path):
    source = "import numpy as np\ndef smooth(x):\n    return np.median(x, axis=-1)\n"
    assert sampled(tmp_path, source, "step", "the model") == ["python-in-model"]
    assert sampled(tmp_path, source.replace("np.median", "torch.median"), "step", "the model") == []
    scaled = "import numpy as np\ndef attend(q, k, width):\n    return q @ k / np.sqrt(width)\n"
    assert sampled(tmp_path, scaled, "step", "the model") == []
    # In a loop by hand the same line may prepare a batch.
    assert sampled(tmp_path, source, "step", "the model", call="loop") == []


def test_single_rows_for_train_on_batch_are_an_overhead_of_steps():
    settings = {"fact": "settings", "multiplications": 200, "batch_size": 1, "steps_per_execution": 1}
    parts = {("step", "step"): 4, ("data", "your code between calls"): 0.2}
    report = training(parts, steps=4000, epochs=0, calls=4000, call="train_on_batch", facts=[settings])
    assert names(report) == ["step-overhead"]
    assert "train_on_batch" in report.findings[0].remedy
    larger = training(parts, steps=4000, epochs=0, call="train_on_batch", facts=[settings | {"batch_size": 4096}])
    assert names(larger) == []


def test_single_long_steps_are_no_growth():
    found = {}
    for name, spike in (("grows", 0.0), ("spikes", 0.3)):
        durations = tuple(0.005 + (0.000_01 if spike else 0.000_05) * n + spike * (n % 12 == 0) for n in range(400))
        tree = Tree()
        root = tree.region("fit", TRAIN)
        tree.add(root, "step", "step", sum(durations), count=400)
        run = tree.run(called={root: Called(1, 400, 1, durations)}, backend="tensorflow")
        found[name] = names(diagnose(run, account(run)))
    assert found == {"grows": ["slowing-down"], "spikes": []}


def test_what_a_saver_of_keras_does_beside_saving_is_no_hook_of_its_own():
    tree = Tree()
    root = tree.region("fit", TRAIN)
    keras = Where("/lib/site-packages/keras/src/callbacks/backup_and_restore.py", 160)
    hook = tree.add(root, "callback", "BackupAndRestore.on_train_batch_end", 2, count=100, where=keras)
    tree.add(hook, "checkpoint", "saving", 5, count=50)
    tree.add(root, "step", "step", 3, count=100)
    run = tree.run(called={root: Called(1, 100, 2, (0.1,) * 100)}, backend="torch")
    report = diagnose(run, account(run))
    assert names(report) == ["frequent-checkpoint"]
    assert report.findings[0].evidence[0].value == pytest.approx(0.7)


@pytest.mark.parametrize(("seconds", "said"), [(0.5, False), (2, True)])
def test_a_short_training_that_mostly_compiled_is_said_to_tell_little_of_the_rest(seconds, said):
    report = training({("step", "step"): 1, ("compile", "XLA"): seconds})
    assert report.findings == ()
    assert any("of this training was compiling" in doubt for doubt in report.doubts) is said


def test_a_wait_without_a_reason_promises_no_more_than_a_factor_of_two_of_what_a_free_input_gives():
    report = training({("data", "generator"): 9, ("step", "step"): 1})
    (finding,) = report.findings
    assert (finding.name, finding.estimated) == ("input-bound", Speedup(pytest.approx(5), pytest.approx(10)))


@pytest.mark.parametrize(
    ("backend", "kind", "found"),
    [
        ("jax", "Dense", ["float16-on-cpu"]),
        ("jax", "Conv2D", []),
        ("tensorflow", "Conv2D", ["float16-on-cpu"]),
    ],
)
def test_float16_costs_something_on_jax_where_the_work_is_in_dense_layers(backend, kind, found):
    costs = [{"name": "one", "kind": kind, "flops": 900}, {"name": "other", "kind": "LSTM", "flops": 100}]
    facts = {"fact": "settings", "compute_dtype": "float16", "device": "cpu", "costs": costs, "work": 1000}
    report = training({("step", "step"): 10}, backend=backend, facts=[{**facts, "costs_complete": True}])
    assert names(report) == found


def test_many_predictions_of_a_few_batches_are_a_loop_if_setting_them_up_costs_as_much():
    found = {}
    for calls in (20, 400):
        parts = {("step", "step"): 2, ("setup", "preparing"): 3}
        found[calls] = names(training(parts, call="predict", calls=calls, steps=4 * calls, epochs=0, backend="jax"))
    assert found == {20: [], 400: ["predict-in-loop"]}


EXPERTS = """
from keras import layers, ops


class Experts(layers.Layer):
    def build(self, shape):
        self.w = self.add_weight(shape=(self.number, shape[-1], 8))

    def call(self, x):
        out = 0.0
        for k in range(self.number):
            {line}
        return out
"""


@pytest.mark.parametrize(
    ("line", "weights", "backward", "expected"),
    [
        ("out = out + ops.matmul(x, self.w[k])", 10_000, "loss.backward()", ["loop-in-model"]),
        ("out = out + ops.matmul(x, self.w[k])", 10_000, "loss = self.others(x)", []),
        ("out = out + ops.matmul(x, self.w[k])", 10_000_000, "loss.backward()", []),
        ("x = self.blocks[k](x)", 10_000, "loss.backward()", []),
    ],
    ids=["small operations", "a small part", "large ones", "layers"],
)
def test_a_loop_that_counts_through_weights_is_one_if_they_are_too_few_to_explain_the_step(
    tmp_path, line, weights, backward, expected
):
    (tmp_path / "model.py").write_text(EXPERTS.format(line=line))
    (tmp_path / "train.py").write_text(f"{backward}\n")
    tree = Tree()
    root = tree.region("fit", TRAIN)
    step = tree.add(root, "step", "step", 8, count=400)
    number = EXPERTS[: EXPERTS.index("{line}")].count("\n") + 1
    settings = {"fact": "settings", "root": root, "parameters": weights, "batch_size": 32}
    run = tree.run(
        called={root: Called(1, 400, 2, (0.02,) * 400)},
        sampled=(
            Sampled(step, Where("model.py", number), "call", 60),
            Sampled(step, Where("train.py", 1), "train_step", 240),
        ),
        facts=(settings,),
        backend="torch",
        cwd=str(tmp_path),
        started=9e12,
    )
    assert names(diagnose(run, account(run))) == expected


FRAMES = """
import keras
from keras import layers, ops


class Frames(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = layers.Dense(8)
        self.cell = layers.GRUCell(8)

    def call(self, x):
        out, h = [], 0.0
        for t in range(60):
            {line}
        return ops.stack(out)
"""


@pytest.mark.parametrize(
    ("line", "seconds", "expected"),
    [
        ("out.append(self.encoder(x[:, t]))", 8, ["loop-in-model"]),
        ("out.append(self.encoder(x[:, t]))", 80, []),
        ("h = self.cell(x[:, t], h)", 8, []),
        ("out.append(self.encoder(x))", 8, []),
    ],
    ids=["small calls", "long calls", "one after the other", "no slices"],
)
def test_a_layer_that_is_given_slice_after_slice_is_a_loop_if_its_calls_are_short(tmp_path, line, seconds, expected):
    (tmp_path / "model.py").write_text(FRAMES.format(line=line))
    number = FRAMES[: FRAMES.index("{line}")].count("\n") + 1
    tree = Tree()
    root = tree.region("fit", TRAIN)
    step = tree.add(root, "step", "step", seconds, count=400)
    run = tree.run(
        called={root: Called(1, 400, 2, (seconds / 400,) * 400)},
        sampled=(Sampled(step, Where("model.py", number), "call", 60),),
        facts=({"fact": "settings", "root": root, "parameters": 10_000, "batch_size": 32},),
        backend="torch",
        cwd=str(tmp_path),
        started=9e12,
    )
    report = diagnose(run, account(run))
    assert names(report) == expected
    assert all(finding.where == Where("model.py", number) for finding in report.findings)


PAIRS = """
import keras
from keras import layers, ops


class Distance(layers.Layer):
    def call(self, one, other):
        return ops.sum(ops.square(one - other))


class Pairs(keras.Model):
    def __init__(self):
        super().__init__()
        self.distance = Distance()

    def score(self, one, other):
        return self.distance(one, other)

    def call(self, inputs):
        {before}
        rows = zip(*[ops.unstack(each, axis={axis}) for each in inputs])
        return ops.stack([self.score(one, other) for one, other in rows])
"""


@pytest.mark.parametrize(
    ("axis", "rows", "before", "expected"),
    [
        (0, 32, "pass", ["loop-in-model"]),
        (0, 32, "inputs = ops.transpose(inputs, (1, 0, 2))", []),
        (0, 4, "pass", []),
        (1, 32, "pass", []),
    ],
)
def test_what_a_loop_over_the_examples_calls_is_part_of_it(tmp_path, axis, rows, before, expected):
    text = PAIRS.format(axis=axis, before=before)
    (tmp_path / "model.py").write_text(text)
    inside, loop = (text[: text.index(part)].count("\n") + 1 for part in ("return ops.sum", "return ops.stack"))
    tree = Tree()
    root = tree.region("fit", TRAIN)
    step = tree.add(root, "step", "step", 8, count=400)
    run = tree.run(
        called={root: Called(1, 400, 2, (0.02,) * 400)},
        sampled=(Sampled(step, Where("model.py", inside), "call", 60),),
        facts=({"fact": "settings", "root": root, "parameters": 10_000, "batch_size": rows},),
        backend="torch",
        cwd=str(tmp_path),
        started=9e12,
    )
    report = diagnose(run, account(run))
    assert names(report) == expected
    assert all(finding.where == Where("model.py", loop) for finding in report.findings)


def test_a_shuffle_that_is_filled_anew_behind_a_misplaced_cache_is_the_caches_fault():
    stages = ["tensorslice", "cache", "map", "shuffle", "batch"]
    described = [{"kind": kind, "where": Where("train.py", line)} for line, kind in enumerate(stages, start=10)]
    tree = Tree()
    root = tree.region("fit", TRAIN)
    tree.add(root, "data", "tf.data", 6, count=200)
    tree.add(root, "step", "step", 2, count=200)
    run = tree.run(
        called={root: Called(1, 200, 8, (0.04,) * 200)},
        facts=({"fact": "pipeline", "root": root, "stages": described[::-1]},),
        first_waits={root: Waits(5.5, 8)},
        backend="tensorflow",
    )
    assert names(diagnose(run, account(run)))[0] == "misplaced-cache"


def test_what_the_first_save_loads_is_not_saved_by_saving_less_often():
    reports = []
    for first in (0.5, 2.1):
        tree = Tree()
        root = tree.region("fit", TRAIN)
        tree.add(root, "step", "step", 8, count=400)
        hook = tree.add(root, "callback", "ModelCheckpoint.on_epoch_end", 0.01, count=5)
        tree.add(hook, "checkpoint", "saving", 2.5, count=5)
        fact = {"fact": "first-save", "root": root, "seconds": first}
        run = tree.run(called={root: Called(1, 400, 5, (0.02,) * 400)}, facts=(fact,), backend="torch")
        reports.append(names(diagnose(run, account(run))))
    assert reports == [["frequent-checkpoint"], []]


@pytest.mark.parametrize(
    ("reading", "using", "told"),
    [
        ("np.load(path)", "whole[a:b]", True),
        ("np.load(path)", "whole[a:b, 1:]", True),
        ("np.load(path)", "(whole[a:b], whole[b:])", False),
        ("np.load(path, mmap_mode='r')", "whole[a:b]", False),
        ("np.load(path)", "whole", False),
        ("np.load(path)", "whole[:]", False),
        ("np.load(path)", "(whole[:, :-1], whole[:, -1:])", False),
        ("np.load(path)", "whole['x']", False),
        ("open(path).read()", "whole[a:b]", False),
    ],
)
def test_windows_that_are_cut_out_of_whole_files_are_told_from_the_source(reading, using, told):
    text = f"import numpy as np\ndef window(path, a, b):\n    whole = {reading}\n    return {using}\n"
    run = Tree().run()
    case = Case(run, account(run), lambda file: Script.parse(file, text))
    assert _cuts_out(case, Where("train.py", 3)) is told


@pytest.mark.parametrize(
    ("reading", "using", "told"),
    [
        ("np.load(path)", "study['ct'][k]", True),
        ("np.load(path)", "study['ct'][k, 1:]", True),
        ("np.load(path)", "(study['ct'][k], study['seg'][k])", True),
        ("np.load(path)", "(study['ct'], study['spacing'][0])", False),
        ("np.load(path)", "study['ct'][..., None]", False),
        ("np.load(path)", "study['ct'][None]", False),
        ("np.load(path)", "(study['ct'][:-1], study['ct'][1:])", False),
        ("np.load(path)", "study['ct'][order]", False),
        ("np.load(path)", "(study['ct'][few], study['seg'][few])", True),
        ("np.load(path)", "study['ct'][most]", False),
        ("np.load(path, mmap_mode='r')", "study['ct'][k]", False),
        ("np.load(path)", "study['ct'][:]", False),
        ("np.load(path)", "study['ct'][...]", False),
        ("np.load(path)", "study['ct']", False),
        ("np.load(path)", "study[k][0]", False),
        ("h5py.File(path)", "study['ct'][k]", False),
    ],
)
def test_a_row_of_an_array_in_an_archive_costs_the_whole_array(reading, using, told):
    head = "import h5py\nimport numpy as np\ndef row(path, k):\n    order = np.argsort(x)\n"
    head += "    few = slice(k, k + 8)\n    most = slice(None, -1)\n"
    text = f"{head}    with {reading} as study:\n        return {using}\n"
    run = Tree().run()
    case = Case(run, account(run), lambda file: Script.parse(file, text))
    assert _cuts_out(case, Where("train.py", 8)) is told


@pytest.mark.parametrize(
    ("alone", "found"), [(0.005, ["counterproductive-workers"]), (0.03, ["input-bound"]), (None, ["input-bound"])]
)
def test_batches_that_come_slower_from_processes_than_they_are_made_are_sent_in_vain(alone, found):
    tree = Tree()
    root = tree.region("fit", TRAIN)
    tree.add(root, "data", "PyDataset", 8, count=200)
    tree.add(root, "step", "step", 6, count=200)
    facts = [{"fact": "workers", "root": root, "source": "PyDataset", "workers": 4, "processes": True}]
    if alone is not None:
        facts += [{"fact": "peeked", "root": root, "nanoseconds": int(taken * 1e9)} for taken in (0.2, alone)]
    run = tree.run(
        called={root: Called(1, 200, 10, (0.07,) * 200)},
        facts=tuple(facts),
        first_waits={root: Waits(0.4, 10)},
        backend="tensorflow",
    )
    assert names(diagnose(run, account(run))) == found


@pytest.mark.parametrize(("opening", "found"), [(3.0, ["counterproductive-workers"]), (0.2, [])])
def test_workers_that_a_loop_starts_anew_cost_something_even_if_no_batch_is_waited_for(opening, found):
    tree = Tree()
    root = tree.region("loop", TRAIN)
    tree.add(root, "epoch", "opening the input pipeline", opening, count=30)
    tree.add(root, "data", "DataLoader", 0.3, count=300)
    tree.add(root, "step", "your code in the loop", 10, count=300)
    workers = {"fact": "workers", "root": root, "source": "DataLoader", "workers": 4, "processes": True}
    run = tree.run(
        called={root: Called(30, 300, 0, (0.03,) * 300)},
        facts=({"fact": "loop-trains", "root": root}, workers),
        first_waits={root: Waits(0.1, 30)},
        backend="torch",
    )
    assert names(diagnose(run, account(run))) == found


@pytest.mark.parametrize(
    ("epochs", "kept", "found"), [(2, False, ["counterproductive-workers"]), (2, True, []), (1, False, [])]
)
def test_workers_that_are_started_for_the_second_time_are_started_anew(epochs, kept, found):
    tree = Tree()
    root = tree.region("fit", TRAIN)
    tree.add(root, "data", "DataLoader", 7.3 * epochs, count=90 * epochs)
    tree.add(root, "epoch", "closing the input pipeline", 6 * epochs, count=epochs)
    tree.add(root, "setup", "first batch, to build the model", 4, count=1)
    tree.add(root, "step", "step", 2 * epochs, count=90 * epochs)
    workers = {"fact": "workers", "root": root, "source": "DataLoader", "workers": 2, "processes": True}
    workers["persistent"] = kept
    run = tree.run(
        called={root: Called(1, 90 * epochs, epochs, (0.02,) * 90 * epochs)},
        facts=(workers,),
        first_waits={root: Waits(7 * epochs, epochs)},
        backend="torch",
    )
    assert names(diagnose(run, account(run))) == found


IN_MEMORY = """import numpy as np
import torch
class Rows(torch.utils.data.Dataset):
    def __init__(self, x, transform=None):
        self.x, self.transform = x, transform
    def __getitem__(self, index):
        BODY
"""


@pytest.mark.parametrize(
    ("body", "size", "waited", "found"),
    [
        ("return torch.from_numpy(self.x[index]).float(), 1", 112, 4, ["counterproductive-workers"]),
        ("return self.transform(self.x[index]) if self.transform else self.x[index]", 112, 4, None),
        ("return self.x[index].astype('float32')", 112, 4, None),
        ("return self.x[index]", 112, 0.6, []),
        ("return self.x[index]", 300_000, 4, ["input-bound"]),
        ("return self.x[index]", None, 4, ["input-bound"]),
        ("return self.augment(self.x[index])", 112, 4, ["input-bound"]),
        ("return self.x[index] @ self.basis", 112, 4, ["input-bound"]),
        ("return torch.tensor(self.x.astype('float64')[index])", 112, 4, ["input-bound"]),
        ("return np.fft.rfft(self.x[index])", 112, 4, ["input-bound"]),
        ("return sum(self.x[index + k] for k in range(9))", 112, 4, ["input-bound"]),
    ],
)
def test_workers_that_send_rows_of_arrays_in_memory_send_them_in_vain(tmp_path, body, size, waited, found):
    (tmp_path / "train.py").write_text(IN_MEMORY.replace("BODY", body))
    tree = Tree()
    where = Where(str(tmp_path / "train.py"), 1)
    root = tree.region("loop", where)
    tree.add(root, "data", "DataLoader", waited, count=2000)
    tree.add(root, "step", "your code in the loop", 4, count=2000)
    workers = {"fact": "workers", "root": root, "source": "DataLoader", "workers": 2, "processes": True}
    workers |= {"persistent": True, "rows": 32, "dataset": "Rows", "stacked": True, "row_bytes": size}
    workers["without"] = ["transform"]
    workers["where"] = Where(where.file, 6)
    run = tree.run(
        called={root: Called(4, 2000, 0, (0.004,) * 2000)},
        facts=({"fact": "loop-trains", "root": root}, workers),
        backend="torch",
        started=2e9,
    )
    assert names(diagnose(run, account(run))) == (["counterproductive-workers"] if found is None else found)


@pytest.mark.parametrize(("looks", "seconds", "found"), [(8, 5, ["loop-in-model"]), (3, 5, []), (8, 1, [])])
def test_a_loop_that_is_traced_round_by_round_is_named_by_what_it_costs_to_compile(tmp_path, looks, seconds, found):
    loss = (
        "def loss(y_true, y_pred):\n    for row in range(64):\n        far = y_pred[row] - y_pred\n    return far\n"
    )
    (tmp_path / "train.py").write_text(f"{loss}model.compile('sgd', loss)\n")
    where = Where(str(tmp_path / "train.py"), 6)
    tree = Tree()
    root = tree.region("fit", where)
    tree.add(root, "step", "step", 8, count=400)
    traced = tree.add(root, "compile", "tracing", seconds, count=1)
    lines = (Sampled(traced, Where(where.file, 3), "loss", looks, ""), Sampled(traced, where, "<module>", 3, ""))
    run = tree.run(called={root: Called(1, 400, 2, (0.02,) * 400)}, sampled=lines, backend="tensorflow", started=2e9)
    assert names(diagnose(run, account(run))) == (["counterproductive-workers"] if found is None else found)


def test_of_a_librarys_loader_the_line_that_uses_it_is_named():
    stage = replace(loader(0.9), where=Where("/venv/lib/site-packages/keras/image.py", 57))
    report = training({("data", "PyDataset"): 8, ("step", "step"): 2}, stages=[stage])
    assert [(finding.name, finding.where) for finding in report.findings] == [("python-in-pipeline", TRAIN)]


def test_a_line_is_found_in_a_module_that_the_script_imports(tmp_path):
    (tmp_path / "helpers.py").write_text("import torch\n\ntorch.set_num_threads(1)\n")
    (tmp_path / "train.py").write_text("import helpers\n")
    (tmp_path / "others.py").write_text("torch.set_num_threads(2)\n")
    tree = Tree()
    tree.region("fit", Where(str(tmp_path / "train.py"), 1))
    run = tree.run(called={})

    def read(file):
        return Script.parse(file, Path(file).read_text()) if Path(file).is_file() else None

    case = Case(run, account(run), read)
    assert case.find(r"set_num_threads") is None
    assert case.find(r"set_num_threads", imported=True) == Where(str(tmp_path / "helpers.py"), 3)


def test_steps_that_jax_computes_beside_the_loading_come_to_light():
    highest = []
    for cores in (1.0, 1.8):
        sample = MachineSample(1.0, (0.9, 0.9), cores, 10**9, 0.0, 0, 0)
        parts = {("data", "PyDataset"): 9, ("step", "step"): 1}
        machine = {"cores": 2}
        report = training(parts, stages=[loader(0.95)], samples=(sample,) * 6, backend="jax", machine=machine)
        assert names(report)[0] == "python-in-pipeline"
        highest.append(report.findings[0].estimated.high)
    assert highest[1] < 0.6 * highest[0]


def test_steps_of_single_rows_go_away_only_where_the_rows_are_at_hand_together(tmp_path):
    lows = []
    for loop, row in (("for row in rows", "row[None]"), ("for step in range(500)", "state[None]")):
        script = tmp_path / "train.py"
        script.write_text(f"import keras\nmodel = keras.Sequential()\n{loop}:\n    model.predict({row})\n")
        tree = Tree()
        root = tree.region("predict", Where(str(script), 4))
        tree.add(root, "step", "step", 4, count=500)
        tree.add(root, "setup", "preparing", 4, count=500)
        called = {root: Called(500, 500, 0, (0.016,) * 500)}
        run = replace(tree.run(called=called, backend="tensorflow"), cwd=str(tmp_path), started=9e12)
        (finding,) = diagnose(run, account(run)).findings
        assert finding.name == "predict-in-loop"
        lows.append(finding.estimated.low)
    assert lows[0] > 2 > lows[1]


def test_a_buffer_that_a_loop_fills_for_a_few_batches_is_not_needed():
    lows = []
    for buffered in (80.0, 2000.0):
        stages = ["textline", "map", "shuffle", "batch", "take"]
        described = [{"kind": kind, "where": Where("train.py", line)} for line, kind in enumerate(stages, start=10)]
        tree = Tree()
        root = tree.region("loop", TRAIN)
        tree.add(root, "data", "tf.data", 6, count=200)
        tree.add(root, "step", "your code in the loop", 2, count=200)
        run = tree.run(
            called={root: Called(8, 200, 0, (0.04,) * 200)},
            facts=(
                {"fact": "pipeline", "root": root, "stages": described[::-1]},
                {"fact": "loop-trains", "root": root, "eager": False},
            ),
            stages={root: (Stage("Shuffle", Where("train.py", 12), 0.001, 1, 8.0, buffered, None),)},
            first_waits={root: Waits(5.5, 8)},
            backend="tensorflow",
        )
        (finding,) = diagnose(run, account(run)).findings
        assert finding.name == "shuffle-refill"
        lows.append(finding.estimated.low)
    assert lows[1] > 1.5 > lows[0]


LOADING = """
import numpy as np
class Items(keras.utils.PyDataset):
    def __getitem__(self, index):
        {body}
    def on_epoch_end(self):
        {between}
def spectrum(path):
    return np.abs(np.fft.rfft(np.load(path)))
"""


@pytest.mark.parametrize(
    ("body", "between", "epochs", "wait", "told"),
    [
        ("return spectrum(self.files[index])", "self.rng.shuffle(self.files)", 4, 8, True),
        ("return spectrum(self.files[index])", "pass", 1, 8, False),
        ("return spectrum(self.files[index])", "pass", 4, 2, False),
        ("return spectrum(self.files[index]) + np.random.normal()", "pass", 4, 8, False),
        ("return spectrum(self.files[index]) + self.noise", "self.noise = self.rng.normal(size=9)", 4, 8, False),
        ("return self.pipeline.apply(self.files[index])", "pass", 4, 8, False),
    ],
)
def test_a_loader_that_computes_the_same_in_every_epoch_is_told_from_its_source(body, between, epochs, wait, told):
    tree = Tree()
    root = tree.region("fit", TRAIN)
    tree.add(root, "data", "PyDataset", wait, count=100)
    tree.add(root, "step", "step", 10 - wait, count=100)
    run = tree.run(
        called={root: Called(1, 100, epochs, (0.1,) * 100)},
        stages={root: (replace(loader(0.95, seconds=wait / 100), where=Where("load.py", 4)),)},
        backend="jax",
    )
    script = Script.parse("load.py", LOADING.format(body=body, between=between))
    case = Case(run, account(run), lambda file: script)
    found = [cause.says for cause in RepeatedPreprocessing().diagnose(case)]
    assert found == (["Items.__getitem__ computes the same 4 times over, once in every epoch."] if told else [])
