"""BackgroundCheckpoint writes what ModelCheckpoint would have written, when it would have, and survives kills."""

import copy
import functools
import importlib.util
import io
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from keras.callbacks import Callback, CallbackList, ModelCheckpoint

import fitscope

BACKEND = keras.backend.backend()
X = np.random.default_rng(0).normal(size=(28, 6)).astype("float32")
Y = (X.sum(1, keepdims=True) > 0).astype("float32")


@keras.saving.register_keras_serializable("fitscope-tests")
class Scaled(keras.layers.Layer):
    """Saves a NumPy array of its own, in its own way."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.steps_on_host = np.arange(3.0)

    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")

    def call(self, x):
        return x * self.scale

    def save_own_variables(self, store):
        store["scale"] = self.scale
        store["host"] = self.steps_on_host
        self.steps_on_host += 1
        store["list"] = [1.0, 2.0]

    def load_own_variables(self, store):
        self.scale.assign(store["scale"])


@keras.saving.register_keras_serializable("fitscope-tests")
class Subclassed(keras.Model):
    """Holds layers in containers and a seed generator, and counts its calls, also those of validation."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.parts = {"first": keras.layers.Dense(5, activation="relu"), "others": [keras.layers.Dense(4)]}
        self.drop = keras.layers.Dropout(0.3)
        self.last = keras.layers.Dense(1, activation="sigmoid")
        self.seeds = keras.random.SeedGenerator(3)
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, x, training=False):
        self.calls.assign_add(1.0)
        x = self.parts["others"][0](self.parts["first"](x))
        return self.last(self.drop(x, training=training))


def functional():
    inputs = keras.Input((6,))
    x = keras.layers.BatchNormalization()(keras.layers.Dense(8)(inputs))
    x = Scaled()(keras.layers.Dropout(0.5, seed=1)(x))
    return keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))


def half_precise():
    return keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(4, dtype="bfloat16"), keras.layers.Dense(1, activation="sigmoid")]
    )


def compiled(build, **options):
    keras.utils.clear_session()  # names are numbered from the start
    keras.utils.set_random_seed(7)
    model = build()
    optimizer = keras.optimizers.Adam(0.01, amsgrad=True)
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"], **options)
    return model


def train(model, *callbacks, epochs=2, **options):
    options = {"validation_data": (X[:8], Y[:8]), "batch_size": 4, "verbose": 0, "shuffle": False, **options}
    return model.fit(X, Y, epochs=epochs, callbacks=list(callbacks), **options)


class SaveAtEpochEnd(Callback):
    """What a user would write: `model.save` in the hook."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_epoch_end(self, epoch, logs=None):
        save = self.model.save_weights if self.path.endswith(".weights.h5") else self.model.save
        save(self.path.format(epoch=epoch + 1), overwrite=True)


def contents(path):
    """Everything that a checkpoint says, but for the hour it was made."""
    if str(path).endswith(".h5"):
        return dict(values(Path(path).read_bytes()))
    found = {}
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for name in archive.namelist():
            data = archive.read(name)
            if name.endswith(".h5"):
                found |= values(data)
            elif name.endswith("metadata.json"):
                found[name] = json.loads(data)["keras_version"]
            elif name == "config.json":
                found[name] = re.sub(rb'"shared_object_id": \d+', b"", data)  # the address of an object
            else:
                found[name] = data
    return found


def values(data):
    found = {}

    def note(name, item):
        found[name + "@"] = {key: str(value) for key, value in item.attrs.items()}
        if isinstance(item, h5py.Dataset):
            array = np.array(item)
            found[name] = (array.dtype.str, array.shape, array.tobytes())

    with h5py.File(io.BytesIO(data)) as file:
        file.visititems(note)
    return found


def all_contents(folder):
    return {path.name: contents(path) for path in Path(folder).iterdir()}


def without_host_counter(found):
    """But for what `Scaled` changes whenever it is saved."""
    return {name: value for name, value in found.items() if not name.endswith("vars/host")}


def age_of(path):
    """Of a folder, the number of its last complete step."""
    if path.suffix == ".orbax" and path.exists():
        return max((int(each.name) for each in path.iterdir() if each.name.isdecimal()), default=-1)
    return path.stat().st_mtime_ns if path.exists() else -1


def is_younger(path, age):
    return age_of(path) > age


def wait_until(true):
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("build", "suffix"),
    [(functional, ".keras"), (functional, ".weights.h5"), (Subclassed, ".keras"), (half_precise, ".weights.h5")],
)
def test_a_file_holds_what_saving_at_that_step_would_have_written(tmp_path, build, suffix):
    model = compiled(build)
    ours = fitscope.BackgroundCheckpoint(tmp_path / ("ours-{epoch}" + suffix), save_weights_only="h5" in suffix)
    train(model, ours, SaveAtEpochEnd(str(tmp_path / ("theirs-{epoch}" + suffix))))
    for epoch in (1, 2):
        mine, theirs = (contents(tmp_path / f"{who}-{epoch}{suffix}") for who in ("ours", "theirs"))
        assert without_host_counter(mine) == without_host_counter(theirs)
        assert len(mine) > 20
    assert not [path for path in tmp_path.iterdir() if "tmp" in path.name]


@pytest.mark.shared
@pytest.mark.parametrize("build", [functional, Subclassed, half_precise])
def test_a_loaded_model_goes_on_exactly_where_it_was(tmp_path, build):
    model = compiled(build)
    train(model, fitscope.BackgroundCheckpoint(tmp_path / "model.keras"))
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert all(np.array_equal(a, b) for a, b in zip(loaded.get_weights(), model.get_weights(), strict=True))
    state, expected = ([keras.ops.convert_to_numpy(v) for v in m.optimizer.variables] for m in (loaded, model))
    assert all(np.array_equal(a, b) for a, b in zip(state, expected, strict=True))
    assert len(state) >= 10
    assert loaded.evaluate(X, Y, verbose=0) == model.evaluate(X, Y, verbose=0)
    if build is half_precise:  # Keras does not save how far the seeds of dropout are
        assert train(loaded, epochs=1).history == train(model, epochs=1).history


def test_weights_go_back_into_a_model_of_the_same_make(tmp_path):
    model = compiled(functional)
    train(model, fitscope.BackgroundCheckpoint(tmp_path / "m.weights.h5", save_weights_only=True))
    fresh = compiled(functional)
    fresh.optimizer.build(fresh.trainable_variables)
    fresh.load_weights(tmp_path / "m.weights.h5")
    assert all(np.array_equal(a, b) for a, b in zip(fresh.get_weights(), model.get_weights(), strict=True))


def test_an_orbax_folder_holds_what_saving_at_that_step_would_have_written(tmp_path):
    model = compiled(functional)
    train(
        model,
        fitscope.BackgroundCheckpoint(tmp_path / "{epoch}.orbax"),
        SaveAtEpochEnd(f"{tmp_path}/{{epoch}}.keras"),
    )
    for epoch in (1, 2):
        one, other = (keras.models.load_model(tmp_path / f"{epoch}.{kind}") for kind in ("orbax", "keras"))
        assert int(one.optimizer.iterations) == 7 * epoch
        for mine, theirs in zip(one.variables, other.variables, strict=True):
            np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (mine, theirs)), err_msg=mine.path)
    assert [each.name for each in (tmp_path / "2.orbax").iterdir()] == ["0"]


def test_an_orbax_folder_of_weights_goes_back_into_a_model_of_the_same_make(tmp_path):
    model = compiled(half_precise)
    train(model, fitscope.BackgroundCheckpoint(tmp_path / "m.orbax", save_weights_only=True, save_freq=2))
    again = compiled(half_precise)
    again.load_weights(tmp_path / "m.orbax")
    # 14 batches: the last save is the one after the last batch.
    for mine, theirs in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (mine, theirs)))


def test_without_orbax_its_folders_are_refused_with_a_sentence(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install orbax-checkpoint"):
        fitscope.BackgroundCheckpoint("m.orbax")


@pytest.mark.skipif(BACKEND != "tensorflow", reason="strings are TensorFlow's")
def test_vocabularies_are_in_the_file(tmp_path):
    import tensorflow as tf

    words = tf.constant([["a cat"], ["a dog"], ["the cat"], ["the dog"]])
    text = keras.layers.TextVectorization(output_sequence_length=3)
    text.adapt(words)
    lookup = keras.layers.StringLookup(vocabulary=["x", "y"], output_mode="one_hot")
    inputs = keras.Input((1,), dtype="string")
    x = keras.layers.Flatten()(keras.layers.Embedding(10, 2)(text(inputs)))
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()([x, lookup(inputs)])))
    model.compile("adam", "mse")
    ours = fitscope.BackgroundCheckpoint(tmp_path / "ours.keras")
    theirs = SaveAtEpochEnd(str(tmp_path / "theirs.keras"))
    model.fit(words, tf.ones((4, 1)), callbacks=[ours, theirs], verbose=0)
    found = contents(tmp_path / "ours.keras")
    assert found == contents(tmp_path / "theirs.keras")
    assert sum(name.startswith("assets/") for name in found) >= 1
    loaded = keras.models.load_model(tmp_path / "ours.keras")
    assert np.array_equal(loaded(words), model(words))


@pytest.mark.shared
@pytest.mark.parametrize(("every", "steps_per_execution"), [(1, 1), (3, 1), (7, 1), (4, 3)])
def test_saves_between_batches_are_those_of_keras(tmp_path, every, steps_per_execution):
    if BACKEND == "torch" and steps_per_execution > 1:
        pytest.skip("Keras on torch takes one step at a time")
    name = "{epoch}-{batch}-{loss:.6f}-{accuracy:.4f}.keras"
    found = []
    for kind in (ModelCheckpoint, fitscope.BackgroundCheckpoint):
        model = compiled(Subclassed, steps_per_execution=steps_per_execution)
        train(model, kind(tmp_path / kind.__name__ / name, save_freq=every))
        found.append(all_contents(tmp_path / kind.__name__))
    theirs, ours = found
    assert sorted(ours) == sorted(theirs)
    assert ours == theirs
    assert ours


@pytest.mark.shared
@pytest.mark.parametrize(
    "arguments",
    [
        {"save_best_only": True, "monitor": "val_loss"},
        {"save_best_only": True, "monitor": "val_accuracy", "mode": "max"},
        {"save_best_only": True, "monitor": "val_loss", "initial_value_threshold": 0.65},
        {"save_weights_only": True},
    ],
    ids=str,
)
def test_the_decisions_are_those_of_keras(tmp_path, arguments):
    suffix = ".weights.h5" if "save_weights_only" in arguments else ".keras"
    found, best = [], []
    for kind in (ModelCheckpoint, fitscope.BackgroundCheckpoint):
        callback = kind(tmp_path / kind.__name__ / ("{epoch}-{loss:.6f}" + suffix), **arguments)
        assert isinstance(callback, ModelCheckpoint)
        train(compiled(half_precise), callback, epochs=4)
        folder = tmp_path / kind.__name__
        found.append(all_contents(folder) if folder.exists() else {})
        best.append(callback.best)
    assert found[0] == found[1]
    assert best[0] == best[1]


@pytest.mark.shared
def test_the_best_is_known_before_the_first_epoch_has_ended(tmp_path):
    name = "{batch}-{loss:.6f}.keras"
    best = fitscope.BackgroundCheckpoint(tmp_path / name, save_best_only=True, monitor="loss", save_freq=1)
    train(compiled(half_precise), best, epochs=3)
    assert round(best.best, 6) == min(float(path.stem.split("-")[1]) for path in tmp_path.iterdir())


@pytest.mark.shared
def test_an_epoch_that_ends_on_a_due_batch_is_saved_as_it_was_before_validation(tmp_path):
    found = []
    for kind in (ModelCheckpoint, fitscope.BackgroundCheckpoint):
        train(compiled(Subclassed), kind(tmp_path / f"{kind.__name__}.keras", save_freq=7), epochs=1)
        found.append(contents(tmp_path / f"{kind.__name__}.keras"))
    assert found[0] == found[1]
    assert np.frombuffer(found[1]["vars/0"][2], "float32") == 7


@pytest.mark.shared
@pytest.mark.parametrize("every", ["epoch", 2])
def test_training_is_the_same_bit_by_bit_with_and_without(tmp_path, every):
    bare, watched = compiled(functional), compiled(functional)
    histories = [
        train(bare, epochs=3).history,
        train(watched, fitscope.BackgroundCheckpoint(tmp_path / "m.keras", save_freq=every), epochs=3).history,
    ]
    assert histories[0] == histories[1]
    assert all(np.array_equal(a, b) for a, b in zip(bare.get_weights(), watched.get_weights(), strict=True))


@pytest.mark.parametrize("every", ["epoch", 5])
def test_keras_goes_on_dispatching_asynchronously(tmp_path, every):
    model = compiled(functional)
    bare = CallbackList([Callback()], model=model)
    ours = CallbackList([fitscope.BackgroundCheckpoint(tmp_path / "m.keras", save_freq=every)], model=model)
    assert ours._async_train == bare._async_train == (BACKEND != "tensorflow")


def test_a_file_is_written_while_training_goes_on(tmp_path):
    class Spy(Callback):
        threads = set()

        def on_train_batch_begin(self, batch, logs=None):
            self.threads |= {thread.name for thread in threading.enumerate() if not thread.daemon}

    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(400_000), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    spy = Spy()
    train(model, fitscope.BackgroundCheckpoint(tmp_path / "m.keras", save_freq=2), spy, epochs=1)
    assert "fitscope-checkpoint" in spy.threads
    assert "fitscope-checkpoint" not in {thread.name for thread in threading.enumerate()}


def test_a_training_that_fails_still_gets_its_checkpoint_and_can_begin_again(tmp_path):
    class Fails(Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                raise KeyboardInterrupt

    model, checkpoint = compiled(functional), fitscope.BackgroundCheckpoint(tmp_path / "m.keras")
    with pytest.raises(KeyboardInterrupt):
        train(model, checkpoint, Fails())
    for thread in threading.enumerate():
        if thread.name.startswith("fitscope"):
            thread.join()
    assert keras.models.load_model(tmp_path / "m.keras").optimizer.iterations == 7
    train(model, checkpoint)
    assert keras.models.load_model(tmp_path / "m.keras").optimizer.iterations == 21


@pytest.mark.shared
def test_a_folder_that_disappears_is_an_error_of_the_training(tmp_path):
    folder = tmp_path / "gone"

    class Removes(Callback):
        def on_epoch_begin(self, epoch, logs=None):
            folder.rmdir()
            folder.write_text("a file in its place")

    with pytest.raises(NotADirectoryError, match=r"m\.keras could not be written.*Not a directory"):
        train(compiled(functional), fitscope.BackgroundCheckpoint(folder / "m.keras"), Removes(), epochs=1)


@pytest.mark.shared
def test_a_full_disk_is_an_error_of_the_training_and_leaves_the_last_checkpoint(tmp_path):
    class Fills(Callback):
        reached = None

        def on_epoch_begin(self, epoch, logs=None):
            self.reached = epoch
            if epoch == 1:
                wait_until(target.exists)
                resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))

    target, fills = tmp_path / "m.keras", Fills()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(OSError, match=r"m\.keras could not be written"):
            train(compiled(functional), fitscope.BackgroundCheckpoint(target), fills, epochs=20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert fills.reached <= 2
    assert keras.models.load_model(target).optimizer.iterations == 7
    assert [path.name for path in tmp_path.iterdir()] == ["m.keras"]


def test_a_target_that_cannot_be_written_is_an_error_before_training(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder.keras").mkdir()
    (tmp_path / "file.orbax").touch()
    (tmp_path / "strange.orbax").mkdir()
    (tmp_path / "strange.orbax" / "notes.txt").touch()
    model = compiled(functional)
    before = [np.array(weight) for weight in model.get_weights()]
    for target, sentence in [
        (tmp_path / "folder.keras", "is a directory; give the path of a file"),
        (tmp_path / "file" / "m.keras", "No checkpoint can be written into"),
        (Path("/proc/fitscope/m.keras"), "No checkpoint can be written into"),
        (Path("/proc/fitscope/m.orbax"), "No checkpoint can be written into"),
        (tmp_path / "file.orbax", "is a file; an Orbax checkpoint is a folder"),
        (tmp_path / "strange.orbax", "holds other files than checkpoints, such as notes.txt"),
    ]:
        with pytest.raises(OSError, match=sentence):
            train(model, fitscope.BackgroundCheckpoint(target))
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))


@pytest.mark.parametrize(
    ("path", "arguments", "sentence"),
    [
        ("m.h5", {}, "ends in `.keras`"),
        ("m.weights.h5", {}, "pass save_weights_only=True"),
        ("folder", {}, "A folder written by Orbax ends in `.orbax`"),
        ("m.keras", {"save_weights_only": True}, "ends in `.weights.h5`"),
        ("gs://bucket/m.keras", {}, "a folder of this machine"),
        ("m.keras", {"save_freq": 0}, "at least 1"),
        ("m.keras", {"save_freq": "batch"}, "save_freq"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(path, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        fitscope.BackgroundCheckpoint(path, **arguments)


@pytest.mark.shared
def test_what_a_killed_run_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    with subprocess.Popen(["true"]) as dead:
        pass
    folder = tmp_path / "epoch-[1]"
    folder.mkdir()
    left = [folder / f".m-_.keras.{dead.pid}.fitscope-tmp{suffix}" for suffix in (".keras", ".keras.weights.h5")]
    kept = [folder / f".m-_.keras.{os.getppid()}.fitscope-tmp.keras", folder / ".other.keras.1.fitscope-tmp.keras"]
    for path in left + kept:
        path.touch()
    target = tmp_path / "epoch-[{epoch}]" / "m-{loss:.3f}.keras"
    train(compiled(functional), fitscope.BackgroundCheckpoint(target), epochs=1)
    assert [path.exists() for path in left + kept] == [False, False, True, True]


@pytest.mark.shared
def test_a_link_to_a_file_stays_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "m.keras").symlink_to(tmp_path / "elsewhere" / "real.keras")
    train(compiled(functional), fitscope.BackgroundCheckpoint(tmp_path / "m.keras"))
    assert (tmp_path / "m.keras").is_symlink()
    assert keras.models.load_model(tmp_path / "elsewhere" / "real.keras").built


@pytest.mark.shared
def test_what_it_says_it_has_finished_is_on_the_disk(tmp_path, capsys):
    train(compiled(functional), fitscope.BackgroundCheckpoint(tmp_path / "m.keras", verbose=1), epochs=2)
    said = [line for line in capsys.readouterr().out.splitlines() if line]
    assert len([line for line in said if "saving model to" in line]) == 4
    assert len([line for line in said if line == f"finished saving model to {tmp_path / 'm.keras'}"]) == 2
    assert "finished" not in said[0]
    assert "finished" in said[-1]


@pytest.mark.shared
def test_it_can_be_copied_for_another_training(tmp_path):
    checkpoint = fitscope.BackgroundCheckpoint(tmp_path / "m.keras", save_freq=3)
    train(compiled(functional), copy.deepcopy(checkpoint))
    train(compiled(functional), checkpoint)
    train(compiled(functional), copy.deepcopy(checkpoint))
    assert (tmp_path / "m.keras").exists()


class SavesItself(Subclassed):
    """A model with ideas of its own about saving."""

    def save(self, filepath, overwrite=True, **kwargs):
        super().save(filepath, overwrite=overwrite, **kwargs)
        self.saved_to = str(filepath)


@pytest.mark.shared
@pytest.mark.parametrize("every", ["epoch", 3])
def test_a_model_with_a_save_of_its_own_is_saved_by_it_and_told_so_once(tmp_path, every):
    name, found = "{epoch}-{loss:.6f}.keras", []
    train(compiled(SavesItself), ModelCheckpoint(tmp_path / "theirs" / name, save_freq=every))
    model = compiled(SavesItself)
    with pytest.warns(UserWarning, match="`save` of its own, so BackgroundCheckpoint cannot copy") as warned:
        train(model, fitscope.BackgroundCheckpoint(tmp_path / "ours" / name, save_freq=every))
    assert len([warning for warning in warned if "BackgroundCheckpoint" in str(warning.message)]) == 1
    assert not Path(model.saved_to).exists()
    found = [all_contents(tmp_path / who) for who in ("theirs", "ours")]
    assert found[0] == found[1]
    assert found[0]


def test_a_keras_that_saves_otherwise_is_left_to_save_by_itself(tmp_path, monkeypatch):
    from keras.src.saving import saving_lib

    theirs = saving_lib._save_state

    def changed(saveable, weights_store, assets_store, inner_path, visited_saveables, something_new=None):
        theirs(saveable, weights_store, assets_store, inner_path, visited_saveables)

    monkeypatch.setattr(saving_lib, "_save_state", changed)
    with pytest.warns(UserWarning, match="in a way that fitscope does not know"):
        train(compiled(functional), fitscope.BackgroundCheckpoint(tmp_path / "m.keras"))
    assert keras.models.load_model(tmp_path / "m.keras").optimizer.iterations == 14


NURSERY = """
import os, sys, keras, numpy, fitscope
if keras.backend.backend() == "torch":
    import torch._dynamo
keras.saving.serialize_keras_object(keras.layers.Dense(1))  # what takes seconds to import is there before the fork
import orbax.checkpoint

@keras.saving.register_keras_serializable()
def total(y, p):
    return keras.ops.sum(p, axis=-1)

for line in sys.stdin:
    pid = os.fork()
    if pid:
        print(pid, flush=True)
        os.waitpid(pid, 0)
        continue
    model = keras.Sequential([
        keras.Input((3,)),
        keras.layers.Dense(50_000, use_bias=False, kernel_initializer="zeros"),
    ])
    model.compile(keras.optimizers.SGD(1.0, momentum=0.5), total)
    x = numpy.ones((4, 3), "float32")
    target = line.strip()
    checkpoint = fitscope.BackgroundCheckpoint(target, save_freq=1, save_weights_only=target.endswith("h5"))
    model.fit(x, x[:, :1], batch_size=1, epochs=100_000, verbose=0, callbacks=[checkpoint])
"""


def test_a_kill_at_any_moment_leaves_a_loadable_checkpoint(tmp_path):
    moments = int(os.environ.get("FITSCOPE_KILLS", "8"))
    rng = random.Random(5)
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", textwrap.dedent(NURSERY)]
    steps = []
    with subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
    ) as nursery:
        for moment in range(moments):
            target = tmp_path / ("m.keras", "m.weights.h5", "m.orbax")[moment % 3]
            age = age_of(target)
            nursery.stdin.write(f"{target}\n")
            pid = int(nursery.stdout.readline())
            wait_until(functools.partial(is_younger, target, age))
            time.sleep(rng.uniform(0, 0.15))
            os.kill(pid, signal.SIGKILL)
            steps.append(steps_of(target))
        nursery.stdin.close()
    assert len(set(steps)) > 1


def steps_of(target):
    """The weights and the momentum follow from the number of steps: a mixture of two states would show."""
    if target.suffix == ".orbax":
        arrays = state_in(target)
    else:
        if target.suffix == ".keras":
            assert keras.models.load_model(target, compile=False).count_params() == 150_000
        found = contents(target).items()
        arrays = [np.frombuffer(value[2], value[0]) for _, value in found if isinstance(value, tuple)]
    steps = next(int(array[0]) for array in arrays if array.dtype.kind in "iu")
    weight = momentum = np.float32(0)
    for _ in range(steps):
        momentum = momentum * np.float32(0.5) - np.float32(1)
        weight = weight + momentum
    large = {float(value) for array in arrays if array.size == 150_000 for value in np.unique(array)}
    assert large == {float(weight), float(momentum)}
    return steps


def state_in(folder):
    """All numbers of the last complete step of an Orbax folder, each array as a row."""
    from orbax.checkpoint import v1 as ocp

    step = folder / str(age_of(folder))
    found = ocp.load_checkpointables(step, {"pytree": None, "model_config": None})
    assert "Sequential" in found["model_config"]["config"]
    return [np.asarray(each).reshape(-1) for each in keras.tree.flatten(found["pytree"])]
