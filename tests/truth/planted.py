"""Trainings with a cause of known size in each, recorded: a program that the tests run once per backend.

Every case says what was planted, with the account of its training beside it; the tests compare. A case of
input trains twice, with and without its cause: what the wait must have grown by is the difference in wall
time, because seconds slept in a loader are not seconds waited.
"""

import functools
import gc
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import fitscope

BACKEND = keras.config.backend()
STEPS, BATCH = 60, 16
CASES = []
INPUT = np.random.default_rng(0).random((STEPS * BATCH, 16)).astype("float32")
TARGET = INPUT[:, :1].copy()


def case(function):
    CASES.append(function)
    return function


def record(train):
    """The account of a training, as fitscope gives it."""
    began = time.perf_counter()
    with fitscope.profile("planted.run") as run:
        train()
    wall = time.perf_counter() - began
    report = json.loads(run.to_json())
    return {"wall": wall, "regions": report["regions"], "notes": report["notes"]}


def spin(seconds):
    """Works instead of sleeping."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def new_model(**compile_with):
    layers = [keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse", **compile_with)
    return model


class AfterBatch(keras.callbacks.Callback):
    def __init__(self, work):
        super().__init__()
        self.work, self.spent = work, 0.0

    def on_train_batch_end(self, batch, logs=None):
        began = time.perf_counter()
        self.work()
        self.spent += time.perf_counter() - began


class AfterEpoch(keras.callbacks.Callback):
    def __init__(self, work):
        super().__init__()
        self.work, self.spent = work, 0.0

    def on_epoch_end(self, epoch, logs=None):
        began = time.perf_counter()
        self.work()
        self.spent += time.perf_counter() - began


class Items(keras.utils.PyDataset):
    def __init__(self, work, steps=STEPS, **settings):
        super().__init__(**settings)
        self.work, self.steps = work, steps

    def __len__(self):
        return self.steps

    def __getitem__(self, index):
        self.work()
        return INPUT[:BATCH], TARGET[:BATCH]


def nothing():
    pass


# --- steps ------------------------------------------------------------------------------------------------


@case
def steps_run_on_after_the_loop():
    """On JAX the loop is over before its steps are computed: whoever waits for them then is not what costs."""
    layers = [keras.Input((16,)), *(keras.layers.Dense(2000, activation="relu") for _ in range(3))]
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    settings = {"batch_size": BATCH, "verbose": 0, "validation_data": (INPUT[:BATCH], TARGET[:BATCH])}
    model.fit(INPUT, TARGET, **settings)
    account = record(lambda: model.fit(INPUT, TARGET, epochs=2, **settings))
    return {"account": account, "at_most": {"logs": 0.02, "validation": 0.1}}


# --- callbacks --------------------------------------------------------------------------------------------


@case
def callback_sleeps():
    planted = AfterBatch(lambda: time.sleep(0.01))
    account = record(
        lambda: new_model().fit(INPUT, TARGET, batch_size=BATCH, epochs=2, verbose=0, callbacks=[planted])
    )
    return {"account": account, "part": ["callback", "AfterBatch.on_train_batch_end"], "planted": planted.spent}


@case
def callback_spins():
    planted = AfterBatch(lambda: spin(0.01))
    account = record(
        lambda: new_model().fit(INPUT, TARGET, batch_size=BATCH, epochs=2, verbose=0, callbacks=[planted])
    )
    return {"account": account, "part": ["callback", "AfterBatch.on_train_batch_end"], "planted": planted.spent}


@case
def epoch_end_sleeps():
    planted = AfterEpoch(lambda: time.sleep(0.3))
    account = record(
        lambda: new_model().fit(INPUT, TARGET, batch_size=BATCH, epochs=3, verbose=0, callbacks=[planted])
    )
    return {"account": account, "part": ["callback", "AfterEpoch.on_epoch_end"], "planted": planted.spent}


@case
def callback_predicts():
    model = new_model()
    planted = AfterEpoch(lambda: model.predict(INPUT, verbose=0))
    account = record(lambda: model.fit(INPUT, TARGET, batch_size=BATCH, epochs=4, verbose=0, callbacks=[planted]))
    return {
        "account": account,
        "part": ["callback", "AfterEpoch.on_epoch_end"],
        "planted": planted.spent,
        "inner": "predict",
    }


@case
def callback_collects_garbage():
    def collect():
        began = time.perf_counter()
        gc.collect()
        spent.append(time.perf_counter() - began)

    spent = []
    litter = [[index] for index in range(400_000)]
    planted = AfterEpoch(collect)
    account = record(
        lambda: new_model().fit(INPUT, TARGET, batch_size=BATCH, epochs=5, verbose=0, callbacks=[planted])
    )
    del litter
    return {"account": account, "part": ["gc", None], "planted": sum(spent), "at_least": True}


@case
def checkpoint_is_slow():
    class Heavy(keras.layers.Dense):
        def save_own_variables(self, store):
            began = time.perf_counter()
            time.sleep(0.4)
            super().save_own_variables(store)
            spent.append(time.perf_counter() - began)

    spent = []
    model = keras.Sequential([keras.Input((16,)), Heavy(1)])
    model.compile("sgd", "mse")
    model.save("warm.keras")
    spent.clear()
    saver = keras.callbacks.ModelCheckpoint("checkpoint.weights.h5", save_weights_only=True)
    account = record(lambda: model.fit(INPUT, TARGET, batch_size=BATCH, epochs=3, verbose=0, callbacks=[saver]))
    return {
        "account": account,
        "part": ["checkpoint", "ModelCheckpoint.on_epoch_end"],
        "planted": sum(spent),
        "at_least": True,
    }


# --- input ------------------------------------------------------------------------------------------------


def input_case(make, **compile_with):
    """Trains on fast input, then on slow; the wait must grow by what the training grew by."""

    def train(work):
        model = new_model(**compile_with)
        model.fit(make(nothing), verbose=0)
        fast = record(lambda: model.fit(make(nothing), epochs=2, verbose=0))
        slow = record(lambda: model.fit(make(work), epochs=2, verbose=0))
        # After a pause a step is slower, whatever the pause was: how much, a callback that pauses shows.
        pause = [AfterBatch(work)] if callable(work) else []
        return fast, slow, record(lambda: model.fit(make(nothing), epochs=2, verbose=0, callbacks=pause))

    return train


@case
def grain_sleeps():
    import grain

    def make(work):
        def prepare(index):
            work()
            return INPUT[index * BATCH : (index + 1) * BATCH], TARGET[index * BATCH : (index + 1) * BATCH]

        # One thread that reads nothing ahead: what it sleeps is waited for.
        read = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        return grain.MapDataset.range(STEPS).to_iter_dataset(read).map(prepare)

    return {"input": input_case(make)(lambda: time.sleep(0.008)), "function": "prepare", "each": 0.008}


@case
def pydataset_sleeps():
    return {"input": input_case(Items)(lambda: time.sleep(0.02))}


@case
def pydataset_spins():
    return {"input": input_case(Items)(lambda: spin(0.02))}


@case
def pydataset_with_threads_sleeps():
    return {"input": input_case(lambda work: Items(work, workers=2))(lambda: time.sleep(0.04))}


@case
def generator_sleeps():
    def batches(work):
        for _ in range(2 * STEPS + 2):
            work()
            yield INPUT[:BATCH], TARGET[:BATCH]

    def train(work):
        model = new_model()
        model.fit(batches(nothing), steps_per_epoch=STEPS, epochs=2, verbose=0)
        settings = {"steps_per_epoch": STEPS, "epochs": 2, "verbose": 0}
        fast = record(lambda: model.fit(batches(nothing), **settings))
        slow = record(lambda: model.fit(batches(work), **settings))
        return fast, slow, record(lambda: model.fit(batches(nothing), callbacks=[AfterBatch(work)], **settings))

    return {"input": train(lambda: time.sleep(0.02))}


def tf_dataset(wrap):
    """A tf.data pipeline whose map calls `work` in the way of `wrap`."""
    import tensorflow as tf

    def make(work):
        def numpy_map(x):
            work()
            return x

        def mapped(x, y):
            x = tf.ensure_shape(wrap(tf)(numpy_map, [x], tf.float32), (None, 16))
            return x, y

        return tf.data.Dataset.from_tensor_slices((INPUT, TARGET)).batch(BATCH).map(mapped)

    return make


@case
def numpy_function_sleeps():
    return {"input": input_case(tf_dataset(lambda tf: tf.numpy_function))(lambda: time.sleep(0.02))}


@case
def py_function_spins():
    return {"input": input_case(tf_dataset(lambda tf: tf.py_function))(lambda: spin(0.02))}


@case
def pure_tf_stage_sleeps():
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import testing

    def make(work):
        dataset = tf.data.Dataset.from_tensor_slices((INPUT, TARGET)).batch(BATCH)
        return dataset if work is nothing else dataset.apply(testing.sleep(20_000))

    return {"input": input_case(make)(lambda: time.sleep(0.02))}


@case
def dataloader_sleeps():
    import torch

    class Rows(torch.utils.data.Dataset):
        def __init__(self, work):
            self.work = work

        def __len__(self):
            return STEPS * BATCH

        def __getitem__(self, index):
            if index % BATCH == 0:
                self.work()
            return INPUT[index], TARGET[index]

    def make(work):
        return torch.utils.data.DataLoader(Rows(work), batch_size=BATCH)

    return {"input": input_case(make)(lambda: time.sleep(0.02))}


@case
def input_with_five_steps_per_execution():
    if BACKEND == "torch":
        return {"skip": "Keras has no steps_per_execution on torch"}
    return {"input": input_case(Items, steps_per_execution=5)(lambda: time.sleep(0.02))}


@case
def input_with_jit_compile():
    return {"input": input_case(Items, jit_compile=True)(lambda: time.sleep(0.02))}


@case
def input_without_jit_compile():
    return {"input": input_case(Items, jit_compile=False)(lambda: time.sleep(0.02))}


@case
def input_with_run_eagerly():
    return {"input": input_case(Items, run_eagerly=True)(lambda: time.sleep(0.06))}


# --- the rest ---------------------------------------------------------------------------------------------


@case
def numpy_in_a_layer():
    spent = []

    def host(x):
        began = time.perf_counter()
        time.sleep(0.01)
        spent.append(time.perf_counter() - began)
        return np.asarray(x, "float32")

    class Host(keras.layers.Layer):
        def call(self, x):
            if BACKEND == "tensorflow":
                import tensorflow as tf

                return tf.ensure_shape(tf.numpy_function(host, [x], tf.float32), x.shape)
            if BACKEND == "jax":
                import jax

                shape = jax.ShapeDtypeStruct(x.shape, "float32")
                return jax.pure_callback(host, shape, jax.lax.stop_gradient(x))
            import torch

            if x.device.type == "meta":
                return x
            return torch.as_tensor(host(x.detach().numpy()))

    model = keras.Sequential([keras.Input((16,)), Host(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(INPUT, TARGET, batch_size=BATCH, epochs=1, verbose=0)
    spent.clear()
    account = record(lambda: model.fit(INPUT, TARGET, batch_size=BATCH, epochs=2, verbose=0))
    return {"account": account, "part": ["step", None], "planted": sum(spent), "at_least": True}


@case
def validation_data_is_slow():
    def train(work):
        model.fit(INPUT, TARGET, batch_size=BATCH, validation_data=Items(work, 30), epochs=3, verbose=0)

    model = new_model()
    train(nothing)
    fast = record(lambda: train(nothing))
    slow = record(lambda: train(lambda: time.sleep(0.02)))
    return {"validation": [fast, slow, fast]}


@case
def shapes_change():
    model = keras.Sequential([keras.Input((None, 4)), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    def train():
        for length in (5, 7, 9, 11):
            model.train_on_batch(np.zeros((8, length, 4), "float32"), np.zeros((8, 1), "float32"))

    return {"account": record(train), "compiles": "changed shape"}


@case
def train_on_batch_in_a_loop():
    model = new_model()
    spent = []

    def train():
        for _ in range(60):
            model.train_on_batch(INPUT[:BATCH], TARGET[:BATCH])
            began = time.perf_counter()
            time.sleep(0.01)
            spent.append(time.perf_counter() - began)

    account = record(train)
    return {"account": account, "part": ["data", "your code between calls"], "planted": sum(spent[:-1])}


@case
def hand_written_loop():
    model = new_model()
    if BACKEND == "torch":
        import torch

        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return STEPS

            def __getitem__(self, index):
                time.sleep(0.02)
                return INPUT[:BATCH], TARGET[:BATCH]

        dataset = torch.utils.data.DataLoader(Rows(), batch_size=None)

        def step(x, y):
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
    else:
        import tensorflow as tf

        def slow(x):
            time.sleep(0.02)
            return x

        dataset = tf.data.Dataset.from_tensor_slices((INPUT, TARGET)).batch(BATCH)
        dataset = dataset.map(lambda x, y: (tf.ensure_shape(tf.numpy_function(slow, [x], tf.float32), (None, 16)), y))
        if BACKEND == "tensorflow":

            @tf.function
            def step(x, y):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((model(x) - y) ** 2)
                return tape.gradient(loss, model.trainable_variables)
        else:
            import jax

            def loss(weights, x, y):
                prediction, _ = model.stateless_call(weights, [], x)
                return ((prediction - y) ** 2).mean()

            gradient = jax.jit(jax.grad(loss))
            weights = [variable.value for variable in model.trainable_variables]

            def step(x, y):
                gradient(weights, x.numpy(), y.numpy())[0].block_until_ready()

    waited = []

    def train():
        for _ in range(2):
            last = time.perf_counter()
            for x, y in dataset:
                waited.append(time.perf_counter() - last)
                step(x, y)
                time.sleep(0.002)
                last = time.perf_counter()

    account = record(train)
    return {"account": account, "part": ["data", None], "planted": sum(waited), "call": "loop"}


@case
def worker_processes_of_a_hand_written_loop():
    """They are started by the script's own `iter`, before the loop asks for anything."""
    if BACKEND != "torch":
        return {"skip": "a DataLoader's processes"}
    import torch

    model = new_model()
    loader = torch.utils.data.DataLoader(list(zip(INPUT, TARGET, strict=True)), 64, num_workers=2)
    spent = []

    def train():
        for _ in range(6):
            began = time.perf_counter()
            batches = iter(loader)
            spent.append(time.perf_counter() - began)
            for x, y in batches:
                ((model(x) - y) ** 2).mean().backward()
                time.sleep(0.002)

    account = record(train)
    # Nobody knows at the first that a loop will follow.
    part = ["epoch", "opening the input pipeline"]
    return {"account": account, "part": part, "planted": sum(spent[1:]), "call": "loop"}


@case
def validation_in_a_hand_written_loop():
    if BACKEND != "torch":
        return _validation_in_a_loop_over_tf_data()
    import torch

    model = new_model()
    training, held_out, more = (
        torch.utils.data.DataLoader(list(zip(INPUT, TARGET, strict=True)), 64) for _ in range(3)
    )
    beside = iter(more)
    spent = []

    def validate():
        began = time.perf_counter()
        with torch.no_grad():
            for x, _y in held_out:
                model(x)
                time.sleep(0.002)
        spent.append(time.perf_counter() - began)

    def train():
        for _ in range(2):
            for number, (x, y) in enumerate(training):
                if number < 5:  # a teacher's answer to one batch of other data is no validation
                    with torch.no_grad():
                        model(next(beside)[0])
                ((model(x) - y) ** 2).mean().backward()
                time.sleep(0.005)
                if number % 3 == 2:
                    validate()

    account = record(train)
    found = {"account": account, "part": ["validation", None], "planted": sum(spent), "call": "loop"}
    return {**found, "steps": 2 * len(training)}


def _validation_in_a_loop_over_tf_data():
    import tensorflow as tf

    model, spent = new_model(), []
    training, held_out = (tf.data.Dataset.from_tensor_slices((INPUT, TARGET)).batch(64) for _ in range(2))
    beside = iter(held_out)
    if BACKEND == "tensorflow":
        optimizer = keras.optimizers.SGD(0.01)
        optimizer.build(model.trainable_variables)
        answer = tf.function(model)

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            optimizer.apply_gradients(
                zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
            )
    else:
        import jax

        weights = [variable.value for variable in model.trainable_variables]
        answer = jax.jit(lambda x: model.stateless_call(weights, [], x)[0])

        def loss(weights, x, y):
            return ((model.stateless_call(weights, [], x)[0] - y) ** 2).mean()

        @functools.cache
        def gradient():  # made once fitscope watches, as in a script that it runs
            return jax.jit(jax.grad(loss))

        def step(x, y):
            weights[:] = [w - 0.01 * g for w, g in zip(weights, gradient()(weights, x, y), strict=True)]

    numbers = (lambda tensor: tensor.numpy()) if BACKEND == "jax" else (lambda tensor: tensor)
    answer(numbers(tf.constant(INPUT[:64])))  # traced before anything is planted

    def validate():
        began = time.perf_counter()
        for x, _y in held_out:
            answer(numbers(x))
            time.sleep(0.004)
        spent.append(time.perf_counter() - began)

    def train():
        for _ in range(2):
            for number, (x, y) in enumerate(training):
                step(numbers(x), numbers(y))
                time.sleep(0.005)
                if number < 5:  # a teacher's answer to one batch of other data is no validation
                    answer(numbers(next(beside)[0]))
                if number % 4 == 3:
                    validate()

    account = record(train)
    found = {"account": account, "part": ["validation", None], "planted": sum(spent), "call": "loop"}
    return {**found, "steps": 2 * len(training)}


@case
def compiled_step_in_a_loop_over_arrays():
    return _loop_over_arrays()


@case
def compiled_step_without_an_optimizer_of_keras():
    if BACKEND != "jax":
        return {"skip": "only on JAX are weights changed by functions of other libraries"}
    return _loop_over_arrays(optimizes=False)


def _loop_over_arrays(*, optimizes=True):
    """Nothing but the compiled step itself can be seen; on JAX a wait for it may be anywhere in the loop."""
    if BACKEND == "torch":
        return {"skip": "an eager step is seen at the optimizer"}
    spent = []

    def train():
        model, optimizer = new_model(), keras.optimizers.SGD()
        if BACKEND == "tensorflow":
            import tensorflow as tf

            @tf.function
            def step(x, y):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((model(x) - y) ** 2)
                optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
                return loss
        else:
            import jax

            optimizer.build(model.trainable_variables)
            state = [[each.value for each in kind] for kind in (model.trainable_variables, optimizer.variables)]

            def loss(weights, x, y):
                prediction, _ = model.stateless_call(weights, [], x)
                return ((prediction - y) ** 2).mean()

            @jax.jit
            def update(state, x, y):
                weights, inner = state
                value, gradients = jax.value_and_grad(loss)(weights, x, y)
                if not optimizes:
                    return value, ([old - 0.01 * each for old, each in zip(weights, gradients, strict=True)], inner)
                return value, optimizer.stateless_apply(inner, gradients, weights)

            def step(x, y):
                value, state[:] = update(state, x, y)
                return float(value)

        for _ in range(2):
            for at in range(0, len(INPUT), BATCH):
                began = time.perf_counter()
                time.sleep(0.01)
                spent.append(time.perf_counter() - began)
                step(INPUT[at : at + BATCH], TARGET[at : at + BATCH])

    account = record(train)
    part = ["data", "your code between calls"] if BACKEND == "tensorflow" else ["step", "your code in the loop"]
    found = {"account": account, "part": part, "planted": sum(spent[2:]), "call": "loop"}
    return {**found, "at_least": BACKEND == "jax", "steps": len(spent) - 1}


@case
def fit_inside_a_callback():
    inner = new_model()
    planted = AfterEpoch(lambda: inner.fit(INPUT, TARGET, batch_size=BATCH, verbose=0))
    account = record(
        lambda: new_model().fit(INPUT, TARGET, batch_size=BATCH, epochs=2, verbose=0, callbacks=[planted])
    )
    return {
        "account": account,
        "part": ["callback", "AfterEpoch.on_epoch_end"],
        "planted": planted.spent,
        "inner": "fit",
    }


@case
def heavy_steps():
    """On JAX the training thread is far ahead of them."""
    wide = [keras.layers.Dense(1000, activation="relu") for _ in range(3)]
    model = keras.Sequential([keras.Input((16,)), *wide, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    account = record(lambda: model.fit(INPUT, TARGET, batch_size=4 * BATCH, epochs=4, verbose=0))
    return {"account": account, "evenly": True}


@case
def many_predictions():
    model = new_model()

    def train():
        for _ in range(200):
            model.predict(INPUT[:1], verbose=0)

    return {"account": record(train), "calls": 200}


def main():
    wanted = sys.argv[2:]
    truth = {}
    for function in CASES:
        if not wanted or function.__name__ in wanted:
            truth[function.__name__] = function()
    Path(sys.argv[1]).write_text(json.dumps(truth))


if __name__ == "__main__":
    main()
