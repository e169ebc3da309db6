"""`tune`: the same elements, whatever is changed; nothing random frozen; nothing changed that does not gain."""

import itertools
import random
import time

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
import keras

from fitscope.remedy.tuning import rewrite
from fitscope.remedy.tuning.elementwise import batched
from fitscope.remedy.tuning.nature import nature
from fitscope.remedy.tuning.pipeline import KEPT, build, read, stages
from fitscope.remedy.tuning.tune import Tuning, tune

BACKEND = keras.backend.backend()
pure_tf = pytest.mark.skipif(BACKEND != "tensorflow", reason="tf.data is the same on every backend")

AMPLE = 20
"""Seconds where a change must be found: a clear gain is found in few of them, unless the machine is busy."""

AUTO = tf.data.AUTOTUNE
Data = tf.data.Dataset


def elements(dataset):
    """The elements, down to the last bit; without the autotuner, which keeps a finished iterator for a while."""
    quiet = tf.data.Options()
    quiet.autotune.enabled = False
    return [
        [
            part.numpy().tolist() if part.dtype == tf.string else (part.dtype, part.shape, part.numpy().tobytes())
            for part in tf.nest.flatten(element, expand_composites=True)
        ]
        for element in dataset.with_options(quiet)
    ]


def look(stage):
    return nature(stage.wrapper)


def variants(dataset):
    """All that any sequence of changes can make of a dataset, whether it gains or not."""
    plan = read(dataset)
    wide = rewrite.parallel_maps(rewrite.parallel_maps(plan, look), look, 16)
    whole = rewrite.vectorized_maps(plan, look)
    reads = rewrite.parallel_reads(wide, look)
    ends = rewrite.prefetched(reads)
    found = {"parallel": rewrite.parallel_maps(plan, look), "whole": whole, "ends": ends}
    for name, below in (("reads", reads), ("whole", whole)):
        sunk = rewrite.sunk_maps(below, look)
        for place in rewrite.cache_places(sunk, look)[:1]:
            found[f"{name}, cached after {place}"] = rewrite.parallel_maps(rewrite.cached(sunk, place), look, 16)
    return {name: build(changed) for name, changed in found.items() if changed is not plan}


def scale(number):
    return tf.cast(number, tf.float32) / 7.0 - 0.5


def spell(number):
    return tf.strings.join(["n", tf.strings.as_string(number)])


def busy(number):
    return tf.reduce_sum(tf.linalg.matmul(tf.fill((60, 60), tf.cast(number, tf.float32)), tf.eye(60)))


def in_python(number):
    return tf.ensure_shape(tf.numpy_function(lambda value: value * 3, [number], tf.int64), ())


def pair(number):
    return {"x": tf.fill((3,), number), "y": number}


def files(tmp_path):
    for number in range(5):
        lines = "\n".join(f"{number} {line}" for line in range(10 + number))
        (tmp_path / f"{number}.txt").write_text(lines)
    return sorted(str(path) for path in tmp_path.iterdir())


def many_pipelines(tmp_path):
    names = files(tmp_path)
    numbers = Data.range(50)
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["n1", "n2"], tf.constant([5, 6], tf.int64)), -1
    )
    strict = tf.data.Options()
    strict.experimental_optimization.apply_default_optimizations = False
    strict.autotune.enabled = False
    return {
        "map and batch": numbers.map(scale).batch(8),
        "two maps": numbers.map(busy).map(scale).batch(8, drop_remainder=True),
        "seeded shuffle": numbers.map(scale).shuffle(20, seed=4).batch(8),
        "shuffle below a map": numbers.shuffle(20, seed=4).map(busy).batch(8),
        "fixed shuffle": numbers.shuffle(20, seed=4, reshuffle_each_iteration=False).map(busy).batch(8),
        "repeat in the middle": numbers.repeat(3).map(busy).shuffle(9, seed=1).map(scale).batch(7),
        "python": numbers.map(in_python).map(scale).batch(8),
        "parallel already": numbers.map(busy, AUTO).map(scale, 3, deterministic=True).batch(8, num_parallel_calls=2),
        "dictionary": numbers.map(pair).batch(8).map(lambda element: (element["x"], element["y"])),
        "filter": numbers.map(busy).filter(lambda number: number > 1000.0).batch(4),
        "take, skip, shard": numbers.map(scale).skip(3).take(30).shard(2, 1).batch(4),
        "padded": numbers.map(lambda number: tf.range(number % 5)).padded_batch(6, padding_values=np.int64(-1)),
        "ragged": numbers.map(lambda number: tf.range(number % 5)).ragged_batch(6),
        "sparse": numbers.map(lambda number: tf.sparse.from_dense(tf.stack([number, 0]))).batch(4),
        "strings and a table": numbers.map(spell).map(table.lookup).batch(8),
        "unbatch": numbers.batch(5).map(scale).unbatch().map(lambda x: x * 2).batch(3),
        "zip": Data.zip((numbers.map(busy), numbers.map(spell))).map(lambda x, word: (scale(x), word)).batch(8),
        "concatenate": numbers.map(busy).concatenate(numbers.map(scale)).batch(8),
        "window": numbers.window(5, 2, drop_remainder=True)
        .flat_map(lambda piece: piece.batch(5))
        .map(scale)
        .batch(3),
        "grouped": numbers.map(scale).enumerate().map(lambda index, x: (index, x + 1.0)).batch(4),
        "scan": numbers.map(scale).scan(0.0, lambda total, x: (total + x, total)).map(lambda x: x * 2).batch(4),
        "text": tf.data.TextLineDataset(names).map(tf.strings.length).batch(8),
        "files in turn": Data.from_tensor_slices(names).flat_map(tf.data.TextLineDataset).batch(8),
        "files interleaved": Data.from_tensor_slices(names)
        .interleave(tf.data.TextLineDataset, cycle_length=3, block_length=2)
        .batch(8),
        "files, cycle of any length": Data.from_tensor_slices(names).interleave(tf.data.TextLineDataset).batch(8),
        "cached by hand": numbers.map(busy).cache().shuffle(9, seed=3).batch(8).prefetch(1),
        "rewrites off": numbers.map(busy).batch(8).with_options(strict),
        "options in the middle": numbers.map(busy).with_options(strict).map(scale).batch(8),
    }


@pure_tf
def test_every_change_leaves_elements_and_order_as_they_are(tmp_path):
    for name, dataset in many_pipelines(tmp_path).items():
        epochs = [elements(dataset), elements(dataset)]
        for change, changed in variants(dataset).items():
            assert changed.element_spec == dataset.element_spec, (name, change)
            assert changed.options() == dataset.options(), (name, change)
            assert int(changed.cardinality()) == int(dataset.cardinality()), (name, change)
            assert elements(changed) == epochs[0], (name, change)
            if "cached" in change or "shuffle" in name:
                assert elements(changed) == epochs[1], (name, change)


@pure_tf
def test_the_changes_do_happen(tmp_path):
    numbers = Data.range(50)

    def kinds(plan):
        return [(stage.kind, stage.calls, stage.function is not None) for stage in rewrite.trunk(plan)]

    plan = rewrite.vectorized_maps(read(numbers.map(scale).shuffle(20).batch(8)), look)
    assert kinds(plan)[1:] == [("shuffle", None, False), ("batch", None, False), ("map", AUTO, True)]
    plan = rewrite.sunk_maps(read(numbers.shuffle(20).map(busy).batch(8)), look)
    assert [kind for kind, _, _ in kinds(plan)] == [KEPT, "map", "shuffle", "batch"]
    plan = rewrite.parallel_reads(read(tf.data.TextLineDataset(files(tmp_path)).batch(8)), look)
    assert ("flat_map", AUTO, False) in kinds(plan)
    plan = rewrite.parallel_maps(read(numbers.map(in_python).map(scale).batch(8)), look)
    assert kinds(plan)[1] == ("map", AUTO, False)
    assert kinds(plan)[2] == ("map", None, False), "TensorFlow makes a stateless map parallel by itself"
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    plan = rewrite.parallel_maps(read(numbers.map(busy).with_options(options)), look)
    assert ("map", AUTO, False) in kinds(plan)


@pure_tf
def test_a_cache_never_stands_behind_anything_random(tmp_path):
    generator = tf.random.Generator.from_seed(1)
    weight = tf.Variable(1.0)
    mutable = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    changing = {
        "random": lambda number: scale(number) + tf.random.uniform([]),
        "seeded": lambda number: scale(number) + tf.random.uniform([], seed=3),
        "generator": lambda number: scale(number) + generator.uniform([]),
        "variable": lambda number: scale(number) + weight,
        "table": mutable.lookup,
        "python": in_python,
        "branch": lambda number: tf.cond(number > 3, lambda: tf.random.uniform([]), lambda: 0.0),
        "clock": lambda number: scale(number) + tf.cast(tf.timestamp(), tf.float32),
    }
    for name, function in changing.items():
        dataset = Data.range(20).map(busy).map(tf.function(lambda x: tf.cast(x, tf.int64))).map(function).batch(4)
        plan = read(dataset)
        after = [rewrite.trunk(plan)[place].made for place in rewrite.cache_places(plan, look)]
        assert len(after) == 2, name
        assert all(each is not dataset._input_dataset for each in after), name
    reshuffled = Data.range(20).map(scale).shuffle(5).batch(4)
    assert rewrite.cache_places(read(reshuffled), look) == [1]
    assert rewrite.cache_places(read(Data.from_tensor_slices(files(tmp_path)).shuffle(3)), look) == []
    shuffled_files = tf.data.TextLineDataset(Data.from_tensor_slices(files(tmp_path)).shuffle(3))
    assert rewrite.cache_places(read(shuffled_files.map(tf.strings.length)), look) == []
    assert rewrite.cache_places(read(Data.random(seed=1).map(scale)), look) == []


@pure_tf
def test_a_random_map_stays_random_behind_the_cache():
    def slow(number):
        return tf.reduce_mean(tf.linalg.matmul(tf.fill((300, 300), scale(number)), tf.eye(300)))

    dataset = Data.range(200).map(slow).map(lambda x: x + tf.random.uniform([])).batch(20)
    tuned = tune(dataset, seconds=AMPLE, verbose=False)
    assert any("cache" in change for change in tuned.tuning.changes), tuned.tuning
    first, second = elements(tuned), elements(tuned)
    assert first != second
    assert len(first) == 10


class Counter:
    def __init__(self):
        self.count = 0

    def __call__(self, value):
        self.count += 1
        return value + self.count


@pure_tf
def test_what_must_be_called_in_turn_is_called_in_turn():
    numbers, draws, counter = itertools.count(), np.random.default_rng(0), Counter()
    total = 0

    def adds(value):
        nonlocal total
        total += 1
        return value + total

    def of_python(function):
        return lambda number: tf.numpy_function(function, [number], tf.int64)

    state = tf.Variable(0, dtype=tf.int64)
    in_turn = [
        lambda number: tf.random.uniform([], seed=2),
        lambda number: state.assign_add(number),
        of_python(lambda value: value + next(numbers)),
        of_python(lambda value: value + draws.integers(9)),
        of_python(adds),
        of_python(counter),
        of_python(counter.__call__),
    ]
    at_once = [
        lambda number: tf.random.uniform([]),
        of_python(lambda value: value + np.random.randint(9)),
        of_python(lambda value: value * 2),
        lambda number: number + state,
    ]
    for function in in_turn:
        assert nature(Data.range(3).map(function)._map_func).reason is not None
    for function in at_once:
        assert nature(Data.range(3).map(function)._map_func).reason is None


@pure_tf
def test_a_global_seed_keeps_random_maps_in_turn_and_reproducible():
    keras.utils.set_random_seed(7)
    try:

        def augment(number):
            time_taken = tf.ensure_shape(tf.numpy_function(wait, [number], tf.int64), ())
            return tf.cast(time_taken, tf.float32) + tf.random.uniform([])

        def wait(value):
            time.sleep(0.001)
            return value

        def draw(number):
            return tf.numpy_function(lambda value: value + np.random.randint(1000), [number], tf.int64)

        dataset = Data.range(40).shuffle(40).map(augment).batch(4)
        expected = [elements(dataset), elements(dataset)]
        keras.utils.set_random_seed(7)
        again = Data.range(40).shuffle(40).map(augment).batch(4)
        tuned = tune(again, seconds=1, verbose=False)
        assert [elements(tuned), elements(tuned)] == expected
        assert any("seeded" in note for note in tuned.tuning.notes)
        assert nature(Data.range(3).map(draw)._map_func).reason is not None
    finally:
        tf.random.set_seed(None)


@pure_tf
def test_measuring_leaves_random_numbers_and_variables_as_they_were():
    layer = keras.layers.RandomBrightness(0.5, seed=3)
    generator = tf.random.Generator.from_seed(5)

    def augment(picture):
        picture = layer(picture, training=True) + generator.uniform([])
        return tf.ensure_shape(tf.numpy_function(jitter, [picture], tf.float32), (8, 8, 3))

    def jitter(picture):
        return picture + np.float32(np.random.rand() + random.random())

    tf.random.set_seed(1)
    dataset = Data.from_tensor_slices(np.zeros((64, 8, 8, 3), "float32")).map(augment).batch(8)
    tf.random.set_seed(1)
    np.random.seed(2)
    random.seed(3)
    expected = elements(dataset), float(tf.random.uniform([]))
    layer.generator.state.assign([3, 0])
    generator.reset_from_seed(5)
    tf.random.set_seed(1)
    np.random.seed(2)
    random.seed(3)
    tuned = tune(dataset, seconds=1, verbose=False)
    assert (elements(tuned), float(tf.random.uniform([]))) == expected
    tf.random.set_seed(None)


def waits(value):
    time.sleep(0.004)
    return np.float32(value)


def fetch(number):
    return tf.ensure_shape(tf.numpy_function(waits, [number], tf.float32), ())


@pure_tf
def test_a_python_map_that_waits_is_called_many_times_at_once(capsys):
    dataset = Data.range(200).map(fetch).batch(10)
    tuned = tune(dataset, seconds=AMPLE)
    assert tuned is not dataset
    assert elements(tuned) == elements(dataset)
    assert tuned.tuning.gain.low > 1.5
    said = capsys.readouterr().err
    assert said.strip() == str(tuned.tuning)
    assert 2 <= len(said.splitlines()) <= 5
    assert "map(fetch, cases_tune.py:" in said
    assert "calls at once, order kept" in said


@pure_tf
def test_tuning_twice_changes_nothing_more_in_the_elements():
    dataset = Data.range(100).map(fetch).map(scale).batch(10)
    twice = tune(tune(dataset, seconds=1, verbose=False), seconds=1, verbose=False)
    assert elements(twice) == elements(dataset)


@pure_tf
def test_maps_of_single_numbers_are_called_for_whole_batches_only_where_that_is_equal():
    pictures = np.random.default_rng(0).integers(0, 255, (37, 5, 4), dtype=np.uint8)
    dataset = Data.from_tensor_slices((pictures, np.arange(37)))
    equal = [
        lambda x, y: (tf.cast(x, tf.float32) / 255.0 - 0.5, y),
        lambda x, y: (
            (tf.cast(x, tf.float32) * tf.constant([1.0, 2.0, 3.0, 4.0]))[..., tf.newaxis],
            tf.one_hot(y, 10),
        ),
        lambda x, y: {"x": tf.clip_by_value(tf.expand_dims(x, -1), 3, 200), "y": tf.cast(y, tf.int32) % 3},
        lambda x, y: tf.where(x > 100, tf.cast(x, tf.float32), tf.sqrt(tf.cast(x, tf.float32))),
        lambda x, y: tf.image.convert_image_dtype(x, tf.float32),
    ]
    for function in equal:
        single = dataset.map(function)
        whole = batched(single._map_func)
        assert whole is not None
        assert elements(dataset.batch(8).map(whole)) == elements(single.batch(8))
    unequal = [
        lambda x, y: tf.cast(x, tf.float32) * tf.cast(y, tf.float32),
        lambda x, y: tf.exp(tf.cast(x, tf.float32)),
        lambda x, y: (x, 1),
        lambda x, y: tf.reshape(x, [-1]),
        lambda x, y: tf.reduce_mean(tf.cast(x, tf.float32)),
        lambda x, y: x[0],
        lambda x, y: tf.expand_dims(x, 0),
        lambda x, y: tf.cast(x, tf.int32) + tf.zeros((2, 5, 4), tf.int32),
        lambda x, y: tf.cast(y, tf.float32) + tf.range(3.0),
        lambda x, y: tf.transpose(x),
        lambda x, y: tf.cast(x, tf.float32) + tf.random.uniform([]),
        lambda x, y: tf.one_hot(y, 10, axis=0),
    ]
    for function in unequal:
        assert batched(dataset.map(function)._map_func) is None
    shapeless = Data.range(9).map(lambda number: tf.range(number % 3)).map(lambda x: x + 1)
    assert batched(shapeless._map_func) is None


@pure_tf
def test_a_cache_keeps_to_the_memory_it_is_given():
    def blow_up(number):
        return tf.linalg.matmul(tf.fill((200, 200), scale(number)), tf.eye(200))

    dataset = Data.range(60).map(busy).map(blow_up).batch(4)
    large = tune(dataset, seconds=AMPLE, verbose=False, memory=10**9)
    assert any("cache after batch" in change for change in large.tuning.changes), large.tuning
    small = tune(dataset, seconds=1, verbose=False, memory=10**5)
    assert not any("cache after batch" in change for change in small.tuning.changes)
    assert not any("cache after map(blow_up" in change for change in small.tuning.changes)
    assert any("it would take 9.6" in note for note in small.tuning.notes)
    none = tune(dataset, seconds=0.5, verbose=False, memory=0)
    assert not any("cache" in change for change in none.tuning.changes)


@pure_tf
def test_an_endless_dataset_of_python_code_is_not_cached_but_made_parallel():
    dataset = Data.range(100).repeat().map(fetch).batch(10)
    tuned = tune(dataset, seconds=AMPLE, verbose=False)
    assert int(tuned.cardinality()) == tf.data.INFINITE_CARDINALITY
    assert not any("cache" in change for change in tuned.tuning.changes)
    assert any("at once" in change for change in tuned.tuning.changes)
    assert elements(tuned.take(25)) == elements(dataset.take(25))


@pure_tf
def test_elements_of_unknown_number_are_counted_and_cached_if_they_fit(tmp_path):
    def costly(line):
        return tf.reduce_sum(tf.linalg.matmul(tf.fill((300, 300), 1.0), tf.eye(300))) + tf.cast(
            tf.strings.length(line), tf.float32
        )

    dataset = tf.data.TextLineDataset(files(tmp_path)).map(costly).batch(8)
    tuned = tune(dataset, seconds=1, verbose=False, memory=100)
    assert not any("cache" in change for change in tuned.tuning.changes)
    tuned = tune(dataset, seconds=AMPLE, verbose=False, memory=10**6)
    assert any("cache after batch" in change for change in tuned.tuning.changes), tuned.tuning
    assert [elements(tuned), elements(tuned)] == [elements(dataset)] * 2


@pure_tf
def test_a_generator_is_not_read():
    read_from = []

    def numbers():
        read_from.append(1)
        yield from range(5)

    dataset = Data.from_generator(numbers, output_signature=tf.TensorSpec((), tf.int64)).map(scale).batch(2)
    tuned = tune(dataset, verbose=False)
    assert tuned is dataset
    assert read_from == []
    assert "generator" in str(tuned.tuning)
    within = Data.range(3).interleave(
        lambda _: Data.from_generator(numbers, output_signature=tf.TensorSpec((), tf.int64))
    )
    assert tune(within, verbose=False) is within
    assert read_from == []


@pure_tf
def test_behind_a_generator_random_maps_run_in_parallel_and_python_ones_as_before():
    read_from = []

    def numbers():
        read_from.append(1)
        yield from range(50)

    source = Data.from_generator(numbers, output_signature=tf.TensorSpec((), tf.float32))
    shaken = source.map(lambda number: number + tf.random.uniform([]))
    called = source.map(lambda number: tf.ensure_shape(tf.numpy_function(lambda n: n, [number], tf.float32), []))
    tuned = tune(shaken.batch(5), verbose=False)
    assert tune(called, verbose=False) is called
    assert read_from == []
    assert any("in parallel, order kept" in change for change in tuned.tuning.changes)
    assert "not measured" in str(tuned.tuning)
    assert [int(number) for batch in tuned for number in batch] == list(range(50))
    assert read_from == [1]
    plain = tf.data.Options()
    plain.experimental_optimization.inject_prefetch = False
    assert tune(called.with_options(plain), verbose=False).tuning.changes == ("prefetch: added at the end",)


@pure_tf
def test_a_cache_on_disk_is_not_written(tmp_path):
    dataset = Data.range(30).map(scale).cache(str(tmp_path / "cache")).batch(3)
    assert tune(dataset, verbose=False) is dataset
    assert list(tmp_path.iterdir()) == []


@pure_tf
def test_where_nothing_can_be_changed_the_dataset_itself_comes_back(capsys):
    dataset = Data.range(10)
    assert tune(dataset) is dataset
    assert capsys.readouterr().err == "fitscope.tune: the dataset stays as it is\n  no change gains\n"
    assert dataset.tuning == Tuning((), None, ("no change gains",))


@pure_tf
def test_a_dataset_that_fails_comes_back_and_the_reason_is_said():
    dataset = Data.from_tensor_slices(["/no/such/file"]).map(tf.io.read_file).batch(2)
    assert tune(dataset, verbose=False, seconds=1) is dataset
    assert "/no/such/file" in str(dataset.tuning)


@pure_tf
def test_elements_that_the_user_leaves_out_are_not_read():
    def only_ten(value):
        assert value < 10
        time.sleep(0.002)
        return value

    dataset = Data.range(100).map(lambda number: tf.numpy_function(only_ten, [number], tf.int64)).take(10).batch(2)
    tuned = tune(dataset, seconds=1, verbose=False)
    assert "failed" not in str(tuned.tuning)
    assert [batch.tolist() for batch in tuned.as_numpy_iterator()] == [[n, n + 1] for n in range(0, 10, 2)]


@pure_tf
def test_an_unknown_stage_is_kept_with_all_below_it():
    dataset = Data.range(30).map(scale).scan(0.0, lambda total, x: (total + x, total)).map(busy).batch(4)
    plan = read(dataset)
    assert [stage.kind for stage in stages(plan)] == ["batch", "map", KEPT]
    assert elements(build(plan)) == elements(dataset)


@pure_tf
def test_wrong_arguments_are_refused_in_a_sentence():
    with pytest.raises(TypeError, match=r"takes a tf\.data\.Dataset, not ndarray"):
        tune(np.zeros(3))
    with pytest.raises(ValueError, match="memory is a number of bytes"):
        tune(Data.range(3), memory=-1)
    assert "it is empty" in str(tune(Data.range(0).map(scale), verbose=False).tuning)
    with pytest.raises(ValueError, match="seconds is a positive number"):
        tune(Data.range(3), seconds=0)
    with pytest.raises(ValueError, match=r"inside a tf\.function"):
        tf.function(lambda: tune(Data.range(3)).reduce(np.int64(0), lambda a, b: a + b))()


def test_a_model_learns_the_same_from_the_tuned_dataset():
    x = np.random.default_rng(0).normal(size=(120, 6)).astype("float32")
    y = x.sum(axis=1, keepdims=True)

    def prepare(row, target):
        return tf.ensure_shape(tf.numpy_function(slowly, [row], tf.float32), (6,)) * 2.0, target

    def slowly(row):
        time.sleep(0.002)
        return row

    def losses(dataset):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
        return [float(loss) for loss in model.fit(dataset, epochs=2, shuffle=False, verbose=0).history["loss"]]

    dataset = Data.from_tensor_slices((x, y)).shuffle(120, seed=5).map(prepare).batch(20)
    tuned = tune(dataset, seconds=AMPLE, verbose=False)
    assert tuned is not dataset
    assert losses(tuned) == pytest.approx(losses(dataset), rel=1e-5)
