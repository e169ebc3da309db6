"""Materializing: identical elements on three backends, nothing random frozen, nothing stale, no kill that hurts."""

import fcntl
import functools
import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import time
from collections import namedtuple

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch

from fitscope.remedy.loading.choice import Chooser
from fitscope.remedy.storing import sources
from fitscope.remedy.storing.cuts import Cut, choose
from fitscope.remedy.storing.elements import Layout, StoreError
from fitscope.remedy.storing.materialize import materialize
from fitscope.remedy.storing.records import Store

X = np.random.default_rng(0).random((150, 6, 6)).astype("float32")
Y = np.arange(150)
Pair = namedtuple("Pair", "left right")

pytestmark = pytest.mark.shared
without_backend = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="no backend takes part in it")


def prepare(image, label):
    large = tf.image.resize(image[..., None], (12, 12))
    return {"image": large, "name": tf.strings.as_string(label)}, Pair(label, tf.cast(label, tf.float16))


def augment(inputs, label):
    return inputs | {"image": inputs["image"] + tf.random.uniform(())}, label


def first(one, other):
    return one


def slices():
    return tf.data.Dataset.from_tensor_slices((X, Y))


def leaves(dataset):
    return [[np.asarray(leaf.numpy()) for leaf in tf.nest.flatten(element)] for element in dataset]


def assert_same(first, second):
    first, second = leaves(first), leaves(second)
    assert len(first) == len(second)
    for one, two in zip(first, second, strict=True):
        for left, right in zip(one, two, strict=True):
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right)


def test_a_pipeline_gives_the_same_elements_bit_for_bit(tmp_path):
    dataset = slices().map(prepare).batch(32).prefetch(2)
    store = materialize(dataset, tmp_path / "store")
    served = store.as_tf()
    assert served.element_spec == dataset.element_spec
    assert served.cardinality() == dataset.cardinality() == 5
    assert_same(served, dataset)
    store.verify()
    assert len(store) == 150
    assert "Stored after map prepare (cases_materialize.py:" in store.why
    inputs, pair = store[7]
    assert type(pair) is Pair
    assert list(inputs) == ["image", "name"]
    assert pair.right.dtype == np.float16


def test_a_pipeline_without_batches_gives_single_elements(tmp_path):
    dataset = slices().map(prepare)
    served = materialize(dataset, tmp_path / "store").as_tf()
    assert served.element_spec == dataset.element_spec
    assert served.cardinality() == 150
    assert_same(served, dataset)


def test_shapes_that_differ_and_texts_come_back(tmp_path):
    def ragged(i):
        return tf.range(i), tf.fill((i % 3, 2), tf.strings.as_string(i)), tf.cast(i, tf.bfloat16), i % 2 == 0

    dataset = tf.data.Dataset.range(40).map(ragged)
    store = materialize(dataset, tmp_path / "store")
    assert store.as_tf().element_spec == dataset.element_spec
    assert_same(store.as_tf(), dataset)
    assert store[5][1].tolist() == [[b"5", b"5"], [b"5", b"5"]]
    store.verify()


def test_a_shuffle_before_the_preprocessing_draws_the_same_order(tmp_path):
    dataset = slices().shuffle(60, seed=7).map(prepare).repeat(2).batch(16, drop_remainder=True)
    served = materialize(dataset, tmp_path / "store").as_tf()
    assert served.cardinality() == dataset.cardinality()
    assert_same(served, dataset)
    firsts = [next(iter(served))[1].left.numpy().tolist() for _ in range(2)]
    assert firsts[0] != firsts[1], "the order of the second epoch is drawn anew"


def test_random_stages_are_never_frozen(tmp_path):
    dataset = slices().map(prepare).map(augment).batch(32)
    store = materialize(dataset, tmp_path / "store")
    assert "is random or keeps a state (RandomUniform)" in store.why
    served = store.as_tf()
    epochs = [np.concatenate([batch[0]["image"] for batch in served]) for _ in range(2)]
    assert (epochs[0] != epochs[1]).all()
    plain = np.concatenate([batch[0]["image"] for batch in slices().map(prepare).batch(32)])
    assert ((epochs[0] - plain).reshape(150, -1).std(axis=1) < 1e-6).all()


@pytest.mark.parametrize(
    "rest",
    [
        lambda dataset: dataset.cache().prefetch(3).shuffle(20, seed=1).batch(7),
        lambda dataset: dataset.shuffle(30, seed=4).skip(3).take(50).shard(2, 1).batch(4, num_parallel_calls=2),
        lambda dataset: dataset.shuffle(9, seed=5).filter(lambda x: x[0] > 3).padded_batch(4, drop_remainder=True),
        lambda dataset: dataset.batch(4).unbatch().flat_map(tf.data.Dataset.from_tensor_slices).batch(9),
        lambda dataset: dataset.repeat(2).batch(4).interleave(tf.data.Dataset.from_tensor_slices, cycle_length=3),
        lambda dataset: dataset.shuffle(5, seed=6).interleave(
            tf.data.Dataset.from_tensors, cycle_length=2, num_parallel_calls=2
        ),
        lambda dataset: dataset.batch(3).map(lambda x: x * 2, num_parallel_calls=2, deterministic=True).cache(),
    ],
)
def test_the_stages_behind_the_cut_are_put_on_top(tmp_path, rest):
    dataset = rest(tf.data.Dataset.range(60).map(lambda i: tf.fill((3,), i)))
    store = materialize(dataset, tmp_path / "store")
    assert len(store) == 60
    served = store.as_tf()
    assert served.element_spec == dataset.element_spec
    assert served.cardinality() == dataset.cardinality()
    assert_same(served, dataset)


def test_a_stage_that_cannot_be_put_on_top_is_named_at_once(tmp_path):
    dataset = tf.data.Dataset.range(60).map(lambda i: i * 2).batch(4).window(3)
    with pytest.raises(StoreError, match="cannot put _WindowDataset on top of a store: materialize"):
        materialize(dataset, tmp_path / "store")


def test_records_that_are_interleaved_are_stored(tmp_path):
    for number in range(3):
        with tf.io.TFRecordWriter(str(tmp_path / f"{number}.tfrecord")) as writer:
            for record in range(10):
                writer.write(f"{number}-{record}".encode())
    files = tf.data.Dataset.list_files(str(tmp_path / "*.tfrecord"), shuffle=False)
    lines = files.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=2)
    dataset = lines.apply(tf.data.experimental.assert_cardinality(30)).map(tf.strings.length).shuffle(9, seed=2)
    store = materialize(dataset, tmp_path / "store")
    assert_same(store.as_tf(), dataset)
    with tf.io.TFRecordWriter(str(tmp_path / "1.tfrecord")) as writer:
        writer.write(b"other")
    with pytest.raises(StoreError, match="made from other inputs"):
        materialize(dataset, tmp_path / "store")


def test_an_infinite_repeat_is_put_on_top(tmp_path):
    dataset = slices().map(prepare).repeat().batch(100)
    served = materialize(dataset, tmp_path / "store").as_tf()
    assert served.cardinality() == tf.data.INFINITE_CARDINALITY
    assert_same(served.take(4), dataset.take(4))


def test_files_in_folders_as_keras_reads_them(tmp_path):
    for number in range(12):
        folder = tmp_path / "images" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.full((9, 9, 3), number * 20, np.uint8)
        (folder / f"{number}.png").write_bytes(tf.io.encode_png(pixels).numpy())
    dataset = keras.utils.image_dataset_from_directory(
        tmp_path / "images", image_size=(8, 8), batch_size=4, seed=3, verbose=False
    )
    store = materialize(dataset, tmp_path / "store")
    assert_same(store.as_tf(), dataset)
    image = tmp_path / "images" / "a" / "0.png"
    image.write_bytes(tf.io.encode_png(np.zeros((5, 5, 3), np.uint8)).numpy())
    with pytest.raises(StoreError, match=r"was made from other inputs .* pass overwrite=True"):
        materialize(dataset, tmp_path / "store")


def test_files_that_cannot_be_seen_must_be_named(tmp_path):
    (tmp_path / "f0").write_text("zero")
    (tmp_path / "f1").write_text("one")
    folder = str(tmp_path)
    names = tf.data.Dataset.range(2).map(lambda i: tf.strings.join([folder, "/f", tf.strings.as_string(i)]))
    dataset = names.map(tf.io.read_file)
    with pytest.raises(StoreError, match="pass inputs="):
        materialize(dataset, tmp_path / "stores" / "s")
    store = materialize(dataset, tmp_path / "stores" / "s", inputs=[tmp_path / "f0", tmp_path / "f1"])
    assert [element.tolist() for element in store] == [b"zero", b"one"]


class Squares:
    def __init__(self, count=30):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        values = np.arange(index % 4, dtype=np.int16) ** 2
        return {"n": index, "f": index / 2, "b": index % 2 == 0, "s": "é" * index, "v": values, "none": None}, [
            np.float32(index),
            b"\0" * index,
        ]


def test_python_examples_come_back_with_their_types(tmp_path):
    store = materialize(Squares(), tmp_path / "store")
    for index, (one, other) in enumerate(zip(store, [Squares()[i] for i in range(30)], strict=True)):
        np.testing.assert_array_equal(one[0].pop("v"), other[0].pop("v"))
        assert one == other, index
        for left, right in zip(one[0].values(), other[0].values(), strict=True):
            assert type(left) is type(right)
        assert [type(leaf) for leaf in one[1]] == [np.float32, bytes]
    element = next(iter(store.as_tf().skip(3)))
    assert element[0]["s"].numpy().decode() == "ééé"
    assert element[0]["none"] is None
    assert element[1][1].numpy() == b"\0\0\0"


class Batches(keras.utils.PyDataset):
    def __init__(self, scale=2.0, **options):
        super().__init__(**options)
        self.scale = scale

    def __len__(self):
        return 5

    def __getitem__(self, index):
        rows = slice(index * 32, (index + 1) * 32)
        return X[rows].reshape(-1, 36) * self.scale, (Y[rows] % 2).astype("float32")


def test_a_pydataset_comes_back_batch_by_batch_and_trains(tmp_path):
    store = materialize(Batches(), tmp_path / "store")
    assert len(store) == 150
    served = store.as_pydataset()
    assert len(served) == 5
    for index in range(5):
        for left, right in zip(served[index], Batches()[index], strict=True):
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right)
    model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy")
    shuffled = store.as_pydataset(batch_size=16, shuffle=True, seed=1, workers=2)
    history = model.fit(shuffled, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2
    model.fit(store.as_tf().batch(16), shuffle=False, verbose=0)
    model.fit(torch.utils.data.DataLoader(store.as_torch(), batch_size=16), shuffle=False, verbose=0)


def test_each_epoch_is_shuffled_anew_and_misses_nothing(tmp_path):
    served = materialize(list(range(20)), tmp_path / "store").as_pydataset(batch_size=6, shuffle=True, seed=0)
    epochs = []
    for _ in range(2):
        epochs.append(np.concatenate([served[index] for index in range(len(served))]).tolist())
        served.on_epoch_end()
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(20))
    again = pickle.loads(pickle.dumps(served))
    assert len(again) == 4


class Tensors(torch.utils.data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        if index >= 10:
            raise IndexError
        return torch.full((3,), index, dtype=torch.bfloat16), torch.tensor(index), np.ones(2), index


def test_a_torch_dataset_comes_back_as_tensors(tmp_path):
    served = materialize(Tensors(), tmp_path / "store").as_torch()
    assert isinstance(served, torch.utils.data.Dataset)
    for one, other in zip(served, Tensors(), strict=True):
        assert one[0].dtype == torch.bfloat16
        assert all(torch.equal(left, right) for left, right in zip(one[:2], other[:2], strict=True))
        assert one[3] == other[3]
    assert pickle.loads(pickle.dumps(served))[3][3] == 3


def test_what_is_left_out_on_other_backends_is_said(tmp_path):
    store = materialize(slices().map(prepare).map(augment).batch(32), tmp_path / "store")
    with pytest.warns(UserWarning, match=r"come without map augment .* pass augment="):
        store.as_torch()
    doubled = store.as_pydataset(batch_size=10, augment=lambda batch: batch[0]["image"] * 2)
    np.testing.assert_array_equal(doubled[0], store.batch(range(10))[0]["image"] * 2)


class Once(Squares):
    def __getitem__(self, index):
        if "FITSCOPE_MADE" in os.environ:
            raise AssertionError("the elements are on disk")
        return index


def once(value):
    return np.int64(Once()[value])


def test_a_complete_store_is_opened_without_running_anything(tmp_path, monkeypatch):
    dataset = tf.data.Dataset.range(30).map(lambda i: tf.ensure_shape(tf.numpy_function(once, [i], tf.int64), ()))
    materialize(Once(), tmp_path / "examples")
    materialize(dataset, tmp_path / "pipeline")
    monkeypatch.setenv("FITSCOPE_MADE", "1")
    assert list(materialize(Once(), tmp_path / "examples")) == list(range(30))
    assert list(materialize(dataset, tmp_path / "pipeline").as_tf()) == list(range(30))


def test_a_change_behind_the_cut_does_not_make_a_store_stale(tmp_path):
    materialize(slices().map(prepare).map(augment).batch(32), tmp_path / "store")
    store = materialize(slices().map(prepare).shuffle(10).batch(50), tmp_path / "store")
    assert len(list(store.as_tf())) == 3


def made(power):
    def function(image, label):
        return image**power, label

    return function


@pytest.mark.parametrize(
    ("now", "what"),
    [
        (lambda: slices().map(made(3)), "code"),
        (lambda: slices().map(prepare), "code"),
        (lambda: tf.data.Dataset.from_tensor_slices((X + 1, Y)).map(made(2)), "from other inputs"),
        (lambda: slices().take(100).map(made(2)), "code"),
    ],
)
def test_a_stale_pipeline_is_refused_and_made_again_if_asked(tmp_path, now, what):
    materialize(slices().map(made(2)), tmp_path / "store")
    assert_same(materialize(slices().map(made(2)), tmp_path / "store").as_tf(), slices().map(made(2)))
    with pytest.raises(StoreError, match=f"{what}.*delete .* or pass overwrite=True"):
        materialize(now(), tmp_path / "store")
    assert_same(materialize(now(), tmp_path / "store", overwrite=True).as_tf(), now())


FACTOR = 2


def scaled(value):
    return value * FACTOR


class Scaled(Squares):
    def __getitem__(self, index):
        return scaled(index)


def test_a_global_that_the_code_reads_counts(tmp_path, monkeypatch):
    materialize(Scaled(), tmp_path / "store")
    monkeypatch.setitem(globals(), "FACTOR", 3)
    with pytest.raises(StoreError, match="made by other code"):
        materialize(Scaled(), tmp_path / "store")
    with pytest.raises(StoreError, match="made by other code"):
        materialize(Batches(3.0), tmp_path / "store")


def test_a_store_of_a_later_version_is_refused(tmp_path):
    materialize(Squares(), tmp_path)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema": 99, "fitscope": "9.0"}))
    for open_ in (Store, lambda folder: materialize(Squares(), folder)):
        with pytest.raises(StoreError, match=r"later fitscope \(9.0, schema 99"):
            open_(tmp_path)


def test_damage_is_found(tmp_path):
    store = materialize(Squares(), tmp_path)
    path = next(tmp_path.glob("leaf-000-*.npy"))
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match="is damaged in elements 0 to 29"):
        store.verify()
    path.write_bytes(data[:-8])
    with pytest.raises(StoreError, match="its manifest says"):
        Store(tmp_path)


@pytest.mark.parametrize(
    ("dataset", "says"),
    [
        (lambda: slices().map(prepare).filter(lambda *_: True).take(0).map(lambda *_: 1), None),
        (lambda: slices().take(0).map(prepare), "is empty"),
        (lambda: [], "is empty"),
        (lambda: tf.data.Dataset.zip((slices().repeat(), slices().repeat())).map(first), "an infinite number"),
        (
            lambda: tf.data.TextLineDataset(__file__).map(tf.strings.length),
            "an unknown number.*assert_card",
        ),
        (lambda: slices().batch(3), "no preprocessing to store"),
        (
            lambda: slices().map(lambda x, y: (x + tf.random.normal(()), y)),
            "no preprocessing.*RandomStandard",
        ),
        (lambda: tf.data.Dataset.random(3).map(lambda x: x), "RandomDataset is not a stage"),
        (lambda: tf.data.Dataset.zip((slices().shuffle(3), slices())).map(first), "a shuffle draws the order anew"),
    ],
)
def test_what_cannot_be_stored_is_said_at_once(tmp_path, dataset, says):
    if says is None:
        assert "number of elements is not known" in materialize(dataset(), tmp_path / "store").why
        return
    with pytest.raises(StoreError, match=says):
        materialize(dataset(), tmp_path / "store")


@pytest.mark.parametrize("dataset", [iter([1]), 5, torch.utils.data.DataLoader(Tensors())])
def test_what_is_no_dataset_is_said_at_once(tmp_path, dataset):
    with pytest.raises(TypeError, match="by index"):
        materialize(dataset, tmp_path / "store")


def test_lines_with_an_asserted_number_are_stored(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\nthree\n")
    lines = tf.data.TextLineDataset(str(file)).apply(tf.data.experimental.assert_cardinality(3))
    dataset = lines.map(tf.strings.upper)
    assert_same(materialize(dataset, tmp_path / "store").as_tf(), dataset)
    file.write_text("one\ntwo\nfour\n")
    with pytest.raises(StoreError, match="made from other inputs"):
        materialize(dataset, tmp_path / "store")


def test_python_in_a_pipeline_is_stored_only_if_it_repeats_itself(tmp_path):
    count = iter(range(10**6))

    def steady(x):
        return np.float32(x * 2)

    def counting(x):
        return np.float32(next(count))

    def drawing(x):
        return np.float32(x + (np.random.random() < 1e-9))

    def dataset(function):
        first = tf.data.Dataset.range(50).map(lambda x: x + 1)
        return first.map(lambda x: tf.ensure_shape(tf.numpy_function(function, [x], tf.float32), ()))

    stores = {}
    for function in (steady, counting, drawing):
        stores[function] = materialize(dataset(function), tmp_path / function.__name__)
    assert stores[steady].plan.cut == 2
    assert stores[counting].plan.cut == stores[drawing].plan.cut == 1
    assert "gives other results when run again" in stores[counting].why
    assert "seems to draw at random (random)" in stores[drawing].why
    assert_same(stores[drawing].as_tf(), dataset(drawing))
    assert materialize(dataset(drawing), tmp_path / "vouched", deterministic=True).plan.cut == 2


class Jittered(Squares):
    def __getitem__(self, index):
        return index + next(COUNT)


class Noisy(Squares):
    def __getitem__(self, index):
        return index + np.random.normal()


COUNT = iter(range(10**9))


def test_random_examples_are_refused(tmp_path):
    with pytest.raises(StoreError, match=r"Jittered\[0\] gives other values when it is asked for again"):
        materialize(Jittered(), tmp_path / "store")
    with pytest.raises(StoreError, match=r"Noisy seems to draw at random \(random\)"):
        materialize(Noisy(), tmp_path / "store")


def test_elements_that_change_their_kind_are_refused_and_nothing_is_served(tmp_path):
    with pytest.raises(StoreError, match="give all elements the same kind"):
        materialize([*range(99), 0.5, *range(99)], tmp_path / "store", workers=1)
    with pytest.raises(StoreError, match="is not complete: call fitscope"):
        Store(tmp_path / "store")


def test_a_folder_that_cannot_hold_the_store_is_refused_early(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="No store can be made in"):
        materialize(Squares(), tmp_path / "file" / "store")
    with pytest.raises(StoreError, match="holds other files"):
        materialize(Squares(), tmp_path)
    huge = tf.data.Dataset.range(10**12).map(lambda i: tf.fill((1000,), i))
    with pytest.raises(OSError, match="free, and the store needs about"):
        materialize(huge, tmp_path / "huge")


def test_the_cut_is_where_an_element_is_had_soonest():
    layout = Layout({"leaf": 0}, ())
    encoded = Cut(1, "map read", layout, 1000, 10e3, 0.001)
    decoded = Cut(2, "map decode", layout, 1000, 100e3, 0.010)
    inflated = Cut(3, "map inflate", layout, 1000, 10e6, 0.011)
    chosen, why = choose([encoded, decoded, inflated], warm=1e9, cold=1e9)
    assert chosen is decoded
    assert "Stored after map decode: 100 kB per element, 100 MB in all" in why
    assert "after map inflate 10.0 MB, 10.0 ms" in why


@without_backend
def test_the_command_makes_a_store_that_the_script_opens(tmp_path):
    script = tmp_path / "prepare.py"
    script.write_text(
        "import fitscope.remedy.storing.materialize as m\n"
        "class Data:\n"
        "    def __len__(self): return 7\n"
        "    def __getitem__(self, i): return i * 2\n"
        "def dataset(): return Data()\n"
        "def nothing(): return []\n"
        "if __name__ == '__main__': print(list(m.materialize(dataset(), 'prepared')))\n"
    )

    def command(*words):
        program = "from fitscope.cli.materialize_ import command; from fitscope.cli import group, main\n"
        program += "group.get_command = lambda context, name: command\nmain()"
        line = [sys.executable, "-c", program, "materialize", *words]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=100)

    done = command("prepare.py:dataset", "-o", "prepared")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("7 elements, ")
    opened = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert opened.stdout == "[0, 2, 4, 6, 8, 10, 12]\n", opened.stderr
    for words, says in {
        ("prepare.py:nothing", "-o", "other"): "list is empty",
        ("prepare.py:absent", "-o", "other"): "has no function absent",
        ("absent.py:dataset", "-o", "other"): "There is no script absent.py",
        ("prepare.py:dataset", "-o", "prepare.py/x"): "No store can be made in",
    }.items():
        failed = command(*words)
        assert failed.returncode == 2
        assert says in failed.stderr
        assert "Traceback" not in failed.stderr


BUSY = """
import os, numpy as np, fitscope
class Busy:
    def __len__(self):
        return 120
    def __getitem__(self, i):
        if i == int(os.environ.get("BREAKS", -1)):
            raise LookupError("no such picture")
        total = sum(number * i % 7 for number in range(60_000))
        return np.full(3, total, np.int64), os.getpid() * 0
store = fitscope.materialize(Busy(), "store")
assert [int(x[0]) for x, _ in store] == [sum(number * i % 7 for number in range(60_000)) for i in range(120)]
"""


@without_backend
def test_an_item_that_fails_is_named_and_the_rest_goes_on_when_it_does_not(tmp_path):
    (tmp_path / "busy.py").write_text(BUSY)
    run = functools.partial(subprocess.run, [sys.executable, "busy.py"], cwd=tmp_path, capture_output=True, text=True)
    failed = run(env={**os.environ, "BREAKS": "114"})
    assert "LookupError: no such picture" in failed.stderr
    assert re.search(r"fitscope.materialize: raised by (item 114|one of the items \d+ to \d+)", failed.stderr)
    done = run()
    assert done.returncode == 0, done.stderr


class Where:
    """Says which process made an item."""

    def __len__(self):
        return 60

    def __getitem__(self, index):
        time.sleep(0.005)
        return np.array([index, os.getpid()])


@without_backend
def test_items_that_processes_make_come_in_order(tmp_path, monkeypatch):
    def with_processes(crew, workers, **_):
        chooser = Chooser(crew, 2, processes=True)
        while crew.starting:
            time.sleep(0.01)
        return chooser

    monkeypatch.setattr(sources, "Chooser", with_processes)
    monkeypatch.setattr(sources, "RUN_SECONDS", 0.0)
    store = materialize(Where(), tmp_path / "store", deterministic=True)
    assert [item[0] for item in store] == list(range(60))
    assert {item[1] for item in store} - {os.getpid()}


@without_backend
def test_an_item_that_other_processes_make_otherwise_is_made_here(tmp_path):
    """Whatever is chosen, the store holds what this process gives."""
    store = materialize(Where(), tmp_path / "store", deterministic=True)
    assert [tuple(item) for item in store] == [(index, os.getpid()) for index in range(60)]


@without_backend
def test_runs_of_items_cover_all_of_them_once():
    runs = sources.Runs(list("abcdefghij"), range(2, 10), size=3)
    assert [runs.batch(index) for index in range(len(runs))] == [["c", "d", "e"], ["f", "g", "h"], ["i", "j"]]
    assert (runs.named(0), runs.named(2)) == ("one of the items 2 to 4", "one of the items 8 to 9")


KILLED = """
import sys, time
import numpy as np
from fitscope.remedy.storing import materialize as module
module.CHUNK_BYTES = 6000
class Slow:
    def __len__(self): return 200
    def __getitem__(self, i):
        time.sleep(0.001)
        return np.full((4, 4), i, np.float32), np.arange(i % 7), "x" * (i % 11), i
if __name__ == "__main__":
    print("begun", flush=True)
    module.materialize(Slow(), sys.argv[1], workers=2, deterministic=True)
"""


def late(value):
    time.sleep(0.003)  # so that it is worth storing
    if value >= 100 and "FITSCOPE_BREAK" in os.environ:
        raise RuntimeError("broken off")
    return np.full((20,), value)


def test_a_pipeline_that_broke_off_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr("fitscope.remedy.storing.materialize.CHUNK_BYTES", 1000)
    numbers = tf.data.Dataset.range(200).skip(10).map(lambda i: i * 1)
    dataset = numbers.map(lambda i: tf.ensure_shape(tf.numpy_function(late, [i], tf.int64), (None,))).shuffle(
        9, seed=2
    )
    monkeypatch.setenv("FITSCOPE_BREAK", "1")
    with pytest.raises(tf.errors.UnknownError, match="broken off"):
        materialize(dataset, tmp_path / "store")
    with pytest.raises(StoreError, match="is not complete"):
        Store(tmp_path / "store")
    lines = (tmp_path / "store" / "journal.jsonl").read_text().splitlines()
    assert len(lines) > 10
    monkeypatch.delenv("FITSCOPE_BREAK")
    store = materialize(dataset, tmp_path / "store")
    assert_same(store.as_tf(), dataset)
    assert [element[0] for element in store] == list(range(10, 200))
    store.verify()


@without_backend
def test_a_kill_at_any_moment_leaves_a_store_that_resumes_and_no_wrong_element(tmp_path):
    (tmp_path / "slow.py").write_text(KILLED)
    sys.path.insert(0, str(tmp_path))
    from slow import Slow

    kills, resumed, number = int(os.environ.get("FITSCOPE_KILLS", "10")), 0, 1
    chance = random.Random(1)
    wanted = [Slow()[index] for index in range(200)]
    folder = tmp_path / "store-0"

    def start():
        child = subprocess.Popen([sys.executable, tmp_path / "slow.py", folder], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "begun\n"
        return child

    def complete():
        try:
            store = Store(folder)
        except StoreError as error:
            if "not complete" in str(error) or "holds no store" in str(error):
                return False
            raise
        store.verify()
        for one, other in zip(store, wanted, strict=True):
            assert all(np.array_equal(left, right) for left, right in zip(one, other, strict=True))
            assert [type(leaf) for leaf in one] == [type(leaf) for leaf in other]
        return True

    began = time.monotonic()
    start().communicate()
    spent = time.monotonic() - began
    assert complete()
    folder = tmp_path / "store-1"
    while kills:
        child = start()
        time.sleep(chance.uniform(0, 0.7 * spent))
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            kills -= 1
        child.communicate()
        journal = folder / "journal.jsonl"
        resumed += journal.exists() and journal.stat().st_size > 0
        if complete():
            number += 1
            folder = tmp_path / f"store-{number}"
    child = start()
    child.communicate()
    assert child.returncode == 0
    assert complete()
    assert resumed
    sys.path.remove(str(tmp_path))


class Nested(Squares):
    folder = None

    def __getitem__(self, index):
        with pytest.raises(StoreError, match="Another process is making the store"):
            materialize(Squares(), self.folder)
        return index


def test_two_processes_do_not_write_one_store(tmp_path):
    nested = Nested(2)
    (tmp_path / "store").mkdir()
    nested.folder = tmp_path / "store"
    with (tmp_path / "store" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert nested[0] == 0
    materialize(Squares(), tmp_path / "store")


def test_nothing_is_imported_that_is_not_needed():
    program = (
        "import sys; import fitscope.remedy.storing.materialize; "
        "print({'keras', 'tensorflow', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr
