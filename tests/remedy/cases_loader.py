"""Loader: the elements and the order of the plain source, whoever loads them, and nothing left over at the end."""

import collections
import contextlib
import gc
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import cloudpickle
import keras
import numpy as np
import psutil
import pytest

import fitscope
from fitscope.remedy.loading.workers import Outcome

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as in a script: a worker must not import these tests

pytestmark = pytest.mark.shared

BACKEND = keras.config.backend()
LENGTH = 12


def batch(index):
    values = np.random.default_rng(index).normal(size=(4, 3)).astype("float32")
    return values, values.sum(axis=1, keepdims=True)


def slow_batch(index):
    time.sleep(0.002 * (index % 4))
    return batch(index)


class Plain(keras.utils.PyDataset):
    """Batches that depend on the index alone."""

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return slow_batch(index)


WAYS = {
    "by the reader": {"workers": 0},
    "by one thread": {"workers": 1, "processes": False},
    "by four threads": {"workers": 4, "processes": False},
    "by two processes": {"workers": 2, "processes": True},
    "automatically": {},
}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def way(request):
    return request.param


MODEL = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, activation="tanh"), keras.layers.Dense(1)])
MODEL.compile(loss="mse", optimizer=keras.optimizers.SGD(0.1))
WEIGHTS = [np.random.default_rng(1).normal(size=each.shape) for each in MODEL.weights]


def fresh_model():
    """What comes out of its training depends on every batch and on their order."""
    MODEL.set_weights(WEIGHTS)
    return MODEL


def trained(data, **options):
    keras.utils.set_random_seed(2)
    model = fresh_model()
    history = model.fit(data, epochs=3, verbose=0, **options)
    return history.history["loss"], [numbers(each.value) for each in model.weights]


def numbers(tensor):
    return np.asarray(tensor.detach() if BACKEND == "torch" else tensor)


def same(one, other):
    return one[0] == other[0] and all(np.array_equal(a, b) for a, b in zip(one[1], other[1], strict=True))


def children():
    return psutil.Process().children(recursive=True)


def descriptors():
    """How many are open of the kinds that a Loader needs."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(each.readlink()))
    return sum("memfd:fitscope" in name for name in found), sum("socket" in name or "pipe" in name for name in found)


@pytest.fixture(scope="module", autouse=True)
def built():
    """The first fit builds the model and reads more than later ones."""
    trained(Plain())


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = left_over()
    yield
    if not all(now <= then for now, then in zip(left_over(), before, strict=True)):
        gc.collect()
        assert all(now <= then for now, then in zip(left_over(), before, strict=True)), left_over()


def left_over():
    return set(children()), descriptors()


def shared_memory():
    """Segments as the standard library would name them."""
    return {path for path in Path("/dev/shm").iterdir() if path.name.startswith("psm_")}


# --- the same elements ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [True, False])
def test_training_is_bit_equal_to_that_on_the_plain_dataset(way, shuffle):
    expected = trained(Plain(), shuffle=shuffle)
    assert shuffle != same(expected, trained(Plain(), shuffle=False))
    with fitscope.Loader(Plain(), **way) as loader:
        assert same(trained(loader, shuffle=shuffle), expected)


def test_evaluate_and_predict_give_what_the_plain_dataset_gives(way):
    model = fresh_model()
    with fitscope.Loader(Plain(), **way) as loader:
        assert model.evaluate(loader, verbose=0) == model.evaluate(Plain(), verbose=0)
        assert np.array_equal(model.predict(loader, verbose=0), model.predict(Plain(), verbose=0))


def test_iterating_gives_every_batch_once_and_in_order(way):
    with fitscope.Loader(slow_batch, length=40, **way) as loader:
        for _ in range(2):
            found = list(loader)
            assert len(found) == len(loader) == 40
            for index, (x, y) in enumerate(found):
                assert np.array_equal(x, batch(index)[0])
                assert np.array_equal(y, batch(index)[1])


def test_the_loaders_own_order_is_the_same_whatever_fit_asks_for(way):
    results = []
    for shuffle in (True, False):
        with fitscope.Loader(Plain(), shuffle=True, seed=7, **way) as loader:
            results.append(trained(loader, shuffle=shuffle))
    assert same(*results)
    with fitscope.Loader(Plain(), shuffle=True, seed=8, **way) as loader:
        assert not same(trained(loader), results[0])
    with fitscope.Loader(Plain(), shuffle=False, **way) as loader:
        assert same(trained(loader, shuffle=True), trained(Plain(), shuffle=False))


def test_shuffled_epochs_differ_and_have_each_index_once():
    with fitscope.Loader(
        lambda index: (np.full((1, 1), index), np.zeros((1, 1))), 2, length=20, shuffle=True
    ) as loader:
        epochs = [[int(x[0, 0]) for x, _ in loader] for _ in range(3)]
    assert all(sorted(epoch) == list(range(20)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_all_kinds_of_batches_come_back_from_a_process():
    Pair = collections.namedtuple("Pair", "x y", module="__main__")
    whole = np.arange(60, dtype="int16").reshape(3, 4, 5)

    def source(index):
        gaps = whole[:, ::2, 1:]
        return [
            {
                "a": whole + index,
                "turned": whole.T,
                "gaps": gaps,
                "none": None,
                "text": "ä",
                "empty": np.zeros((0, 3)),
            },
            Pair(np.float64(2.5), np.array(["x", None], dtype=object)),
            np.array(b"bytes"),
        ][index]

    with fitscope.Loader(source, 2, processes=True, length=3) as loader:
        wait_for(lambda: not loader._crew.starting)
        for _ in range(2):
            first, second, third = list(loader)
    assert children() == []
    assert type(second) is Pair
    assert second.x == 2.5
    assert list(second.y) == ["x", None]
    assert third == np.array(b"bytes")
    assert first["none"] is None
    assert first["text"] == "ä"
    for key, expected in source(0).items():
        if isinstance(expected, np.ndarray):
            assert first[key].dtype == expected.dtype
            assert np.array_equal(first[key], expected)


def test_batches_of_all_sizes_share_the_memory_and_none_is_overwritten():
    def source(index):
        return np.full(((index * 7919) % 300_000,), index, "int32")

    with fitscope.Loader(source, 2, processes=True, length=60, ahead=7) as loader:
        wait_for(lambda: not loader._crew.starting)
        next(iter(loader))
        kept = list(loader)
        assert str(loader._crew.plan) == "2 processes"
    for index, found in enumerate(kept):
        assert found.shape == ((index * 7919) % 300_000,)
        assert (found == index).all()


# --- epochs -----------------------------------------------------------------------------------------------------


class Turning(keras.utils.PyDataset):
    """Every epoch has other batches, in another order."""

    def __init__(self):
        super().__init__()
        self.order = list(range(LENGTH))
        self.random = random.Random(3)
        self.epochs = 0
        self.begun = 0

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        assert self.epochs in (self.begun, self.begun - 1, self.begun + 1)
        return slow_batch(self.order[index] + 100 * self.epochs)

    def on_epoch_begin(self):
        self.begun += 1

    def on_epoch_end(self):
        self.epochs += 1
        self.random.shuffle(self.order)


@pytest.mark.parametrize("options", [{}, {"steps_per_epoch": 4}], ids=["whole epochs", "parts"])
def test_what_a_dataset_does_between_epochs_is_seen_by_all_workers(way, options):
    if options and BACKEND == "tensorflow":
        pytest.skip("tf.data reads ahead of the end of a part of an epoch, with and without a Loader")
    plain = Turning()
    expected = trained(plain, shuffle=False, **options)
    turning = Turning()
    with fitscope.Loader(turning, **way) as loader:
        assert same(trained(loader, shuffle=False, **options), expected)
    assert (turning.epochs, turning.begun) == (plain.epochs, plain.begun)


def test_a_change_by_the_script_is_seen_by_the_processes_in_the_next_epoch():
    class Level(keras.utils.PyDataset):
        level = 0

        def __len__(self):
            return LENGTH

        def __getitem__(self, index):
            return np.full((2, 3), self.level), np.zeros((2, 1))

    level = Level()
    with fitscope.Loader(level, 2, processes=True) as loader:
        wait_for(lambda: not loader._crew.starting)
        for level.level in (0, 5, 6):
            assert {int(x[0, 0]) for x, _ in loader} == {level.level}


def test_an_endless_source_goes_on_through_the_epochs(way):
    if way.get("workers") == 4:
        pytest.skip("like the others")
    with fitscope.Loader(slow_batch, length=math.inf, **way) as loader:
        assert loader.num_batches is None
        with pytest.raises(TypeError, match="no end"):
            len(loader)
        found = trained(loader, steps_per_epoch=5, shuffle=False)

    class Endless(keras.utils.PyDataset):
        num_batches = None

        def __getitem__(self, index):
            return batch(index)

    assert same(found, trained(Endless(), steps_per_epoch=5, shuffle=False))


# --- iterators --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"workers": 1}, {"workers": 0}, {"processes": True}], ids=str)
def test_an_iterator_is_read_in_order_and_anew_for_each_epoch(options):
    calls = []

    def stream():
        calls.append(1)
        for index in range(LENGTH):
            yield batch(index)

    with fitscope.Loader(stream, length=LENGTH, **options) as loader:
        assert same(trained(loader), trained(Plain(), shuffle=False))
    if "processes" not in options:
        assert len(calls) == 3  # what Keras looked at before is not lost


def test_an_endless_iterator_loses_nothing_on_the_way():
    seen = []

    def stream():
        for index in range(1000):
            seen.append(index)
            yield batch(index)

    with fitscope.Loader(stream, 1) as loader:
        found = trained(loader, steps_per_epoch=LENGTH, shuffle=False)
    assert len(seen) == len(set(seen))

    class Long(Plain):
        def __len__(self):
            return 3 * LENGTH

    assert same(found, trained(Long(), steps_per_epoch=LENGTH, shuffle=False))


@pytest.mark.parametrize("length", [None, 10])
def test_an_iterator_that_ends_too_early_says_so(length):
    def stream():
        for index in range(7):
            yield batch(index)

    with fitscope.Loader(stream, length=length) as loader:
        with pytest.raises(Exception, match=r"ended after 7 (of length=10 )?batches"):
            fresh_model().fit(loader, shuffle=False, verbose=0)


# --- exceptions -------------------------------------------------------------------------------------------------


class OddError(Exception):
    """One that pickle cannot make again from its arguments."""

    def __init__(self, code, *, hint):
        super().__init__(f"odd {code}")
        self.hint = hint


def failing(index):
    if index == 5:
        raise KeyError("no such file")
    if index == 9:
        raise OddError(9, hint="h")
    return slow_batch(index)


def test_an_exception_is_raised_at_its_batch_with_a_note_of_the_index(way):
    with fitscope.Loader(failing, length=LENGTH, **way) as loader:
        if way.get("processes"):
            wait_for(lambda: not loader._crew.starting)
        walk = iter(loader)
        for index in range(5):
            assert np.array_equal(next(walk)[0], batch(index)[0])
        with pytest.raises(KeyError, match="no such file") as caught:
            next(walk)
        assert "fitscope.Loader: raised by batch 5" in caught.value.__notes__


def test_an_exception_that_cannot_travel_is_told_in_words():
    def source(index):
        raise OddError(index, hint="h")

    with fitscope.Loader(source, 1, processes=True, length=2) as loader:
        wait_for(lambda: not loader._crew.starting)
        with pytest.raises((OddError, RuntimeError), match="odd 0"):
            list(loader)


def test_fit_ends_with_the_exception_of_the_source(way):
    seen = []

    class Count(keras.callbacks.Callback):
        def on_train_batch_end(self, index, logs=None):
            seen.append(index)

    with fitscope.Loader(failing, length=LENGTH, **way) as loader:
        with pytest.raises(Exception, match="no such file") as caught:
            fresh_model().fit(loader, shuffle=False, verbose=0, callbacks=[Count()])
    if BACKEND == "tensorflow":  # it wraps every exception of Python code in one of its own
        assert "KeyError" in str(caught.value)
        assert "batch 5" in str(caught.value)
    else:
        assert type(caught.value) is KeyError
        assert seen == [0, 1, 2, 3, 4]


def test_a_worker_process_that_dies_is_an_error_if_processes_were_asked_for():
    def source(index):
        if index == 6 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch(index)

    here = os.getpid()
    with fitscope.Loader(source, 2, processes=True, length=LENGTH) as loader:
        wait_for(lambda: not loader._crew.starting)
        next(iter(loader))
        with pytest.raises(RuntimeError, match="ended by signal 9"):
            list(loader)


def test_a_worker_process_that_dies_is_replaced_by_the_training_if_it_was_an_automatic_choice():
    here = os.getpid()

    def source(index):
        if index == 6 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch(index)

    with fitscope.Loader(source, length=LENGTH) as loader:
        loader._crew.start(2)
        wait_for(lambda: not loader._crew.starting)
        loader._crew.use(loader._crew.plan.__class__("processes", 2))
        loader._chooser.plan = loader._crew.plan
        for _ in range(2):
            found = list(loader)
            assert all(np.array_equal(x, batch(index)[0]) for index, (x, _) in enumerate(found))
        assert "signal 9" in loader._crew.refused


# --- what auto must not do --------------------------------------------------------------------------------------


class Counting(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def __len__(self):
        return 60

    def __getitem__(self, index):
        self.calls += 1
        time.sleep(0.002)
        return batch(self.calls)


class Drawing(Counting):
    def __getitem__(self, index):
        time.sleep(0.002)
        return np.random.normal(size=(4, 3)), np.zeros((4, 1))


class Locked(Counting):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def __getitem__(self, index):
        time.sleep(0.002)
        return batch(index)


@pytest.mark.parametrize("kind", [Counting, Drawing, Locked])
def test_a_source_that_two_workers_could_spoil_is_loaded_one_batch_at_a_time(kind):
    keras.utils.set_random_seed(5)
    plain = kind()
    expected = [plain[index] for index in range(60)] + [plain[index] for index in range(60)]
    keras.utils.set_random_seed(5)
    source = kind()
    with fitscope.Loader(source) as loader:
        found = [*loader, *loader]
        assert str(loader._crew.plan) in ("1 thread", "no worker")
        assert "one batch at a time" in repr(loader)
    assert all(np.array_equal(one[0], other[0]) for one, other in zip(found, expected, strict=True))


def test_two_processes_never_draw_the_same_random_numbers():
    found = []
    for _ in range(2):
        with fitscope.Loader(lambda index: np.random.normal(size=3), 2, processes=True, length=30, seed=1) as loader:
            wait_for(lambda: not loader._crew.starting)
            next(iter(loader))
            found.append(np.array(list(loader)))
    assert len({tuple(row) for row in found[0]}) == 30
    assert np.array_equal(*found)


def test_waiting_is_shared_by_several_threads_and_holding_the_lock_is_not():
    def waits(index):
        time.sleep(0.01)
        return batch(index)

    def holds(index):
        sum(range(400_000))
        return batch(index)

    def chosen(function, length):
        """Three times: what is measured on a busy machine may mislead once."""
        for _ in range(3):
            with fitscope.Loader(function, length=length) as loader:
                list(loader)
                yield loader._crew.plan

    assert any(plan.kind == "threads" and plan.count > 1 for plan in chosen(waits, 120))
    assert any(str(plan) in ("no worker", "1 thread", "2 processes") for plan in chosen(holds, 60))


def test_the_choice_goes_on_where_no_other_plan_could_be_faster():
    with fitscope.Loader(batch, length=LENGTH) as loader:
        chooser = loader._chooser
        chooser._expected = 0, b""
        chooser._probe._naps, chooser._probe._seconds = 1, 1.0  # the lock is held
        for read in range(40):  # and nothing else takes time
            chooser.note(0.005 * read, 0.005 * (read + 1), False, Outcome(wall=0.005, processor=0.005))
        assert str(chooser.plan) == "no worker"


def test_what_is_there_at_once_gets_no_worker():
    def quick(index):
        return ready

    ready = batch(0)
    with fitscope.Loader(quick, length=300) as loader:
        for _ in loader:
            time.sleep(0.001)
        assert str(loader._crew.plan) == "no worker"


# --- wrong arguments --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        (batch, {}, "give length="),
        (batch, {"length": 0}, "1 or more"),
        (batch, {"length": 2.5}, "1 or more"),
        (batch, {"length": 3, "workers": -1}, "0 or more"),
        (batch, {"length": 3, "workers": "many"}, '"auto" or a number'),
        (batch, {"length": 3, "ahead": 0}, "ahead must be"),
        (batch, {"length": 3, "workers": 0, "processes": True}, "workers=0"),
        (batch, {"length": math.inf, "shuffle": True}, "cannot be shuffled"),
        (lambda: iter([]), {"shuffle": True}, "order of its own"),
        (lambda: iter([]), {"workers": 2}, "one worker at most"),
        ([], {}, "has no batches"),
        ([1, 2], {"length": 3}, "has 2 batches"),
        (7, {}, "cannot be loaded from a int"),
        (iter([1]), {}, "the function, not what it returns"),
        (Locked(), {"processes": True}, "cannot be sent to another process"),
    ],
)
def test_a_wrong_argument_is_refused_with_a_sentence(source, options, says):
    with pytest.raises((ValueError, TypeError), match=says):
        fitscope.Loader(source, **options)


# --- the end ----------------------------------------------------------------------------------------------------


def wait_for(condition, seconds=30.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_threads_end_with_the_epoch_and_processes_with_the_loader():
    loader = fitscope.Loader(batch, 2, processes=True, length=LENGTH)
    crew = loader._crew
    wait_for(lambda: not crew.starting)
    list(loader)
    wait_for(lambda: not [each for each in threading.enumerate() if each.name.startswith("fitscope")])
    assert len(children()) == 2
    del loader
    gc.collect()
    wait_for(lambda: not children())


def test_a_closed_loader_says_so():
    with fitscope.Loader(batch, length=LENGTH) as loader:
        pass
    with pytest.raises(ValueError, match="closed"):
        list(loader)
    loader.close()


SCRIPT = """
import os, sys, time
import numpy as np, keras, fitscope

def source(index):
    if index == 40 and {raises}:
        raise KeyError("planted")
    time.sleep(0.005)
    return np.full((8, 4), index, "float32"), np.zeros((8, 1), "float32")

class Tell(keras.callbacks.Callback):
    def on_train_batch_end(self, index, logs=None):
        if index == 30:
            print("TRAINING", *[each.pid for each in loader._crew.processes], flush=True)

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(loss="mse")
loader = fitscope.Loader(source, 2, processes=True, length=60)
while loader._crew.starting:
    time.sleep(0.01)
model.fit(loader, epochs={epochs}, shuffle=False, verbose=0, callbacks=[Tell()])
print("DONE", flush=True)
"""


def test_no_process_outlives_an_unguarded_script_however_that_ends(tmp_path):
    ends = {"exception": 1, signal.SIGINT: None, signal.SIGTERM: -15, signal.SIGKILL: -9}
    shared = shared_memory()
    running = []
    try:
        for end in ends:
            script = tmp_path / f"{end}.py"
            script.write_text(SCRIPT.format(raises=end == "exception", epochs=1 if isinstance(end, str) else 1000))
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            running.append(subprocess.Popen([sys.executable, script], **pipes, text=True))
        for process, (end, code) in zip(running, ends.items(), strict=True):
            line = process.stdout.readline()
            assert line.startswith("TRAINING"), line + process.stderr.read()
            workers = [int(pid) for pid in line.split()[1:]]
            assert len(workers) == 2
            if not isinstance(end, str):
                process.send_signal(end)
            _, errors = process.communicate(timeout=60)
            if code is None:
                assert "KeyboardInterrupt" in errors
            else:
                assert process.returncode == code, errors
            wait_for(lambda workers=workers: not any(loads(pid) for pid in workers))
    finally:
        for process in running:
            process.kill()
            process.communicate()
    assert shared_memory() <= shared


def loads(pid):
    try:
        return any("fitscope.remedy.loading.worker" in word for word in psutil.Process(pid).cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def test_a_worker_needs_neither_keras_nor_a_backend_for_a_dataset_of_the_script(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, numpy as np, keras, fitscope\n"
        "class Data(keras.utils.PyDataset):\n"
        "    def __len__(self): return 6\n"
        "    def __getitem__(self, index):\n"
        "        return np.array([m in sys.modules for m in ('keras', 'tensorflow', 'jax', 'torch')]), __name__\n"
        "with fitscope.Loader(Data(), 1, processes=True) as loader:\n"
        "    while loader._crew.starting: pass\n"
        "    list(loader)\n"
        "    print(*list(loader)[-1])\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    )
    assert done.stdout.strip() == "[False False False False] __main__", done.stderr
