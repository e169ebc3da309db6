"""Each cause in a script that shows it, and the same script without it."""

import pytest

from fitscope.rules import CATALOG, find
from fitscope.source import Script

IMPORTS = """
import time
import keras
import numpy as np
import tensorflow as tf
from keras import layers
model = keras.Sequential([layers.Dense(1)])
model.compile("sgd", "mse")
"""


def hits(name, text):
    read = Script.parse("train.py", IMPORTS + text)
    return [read.line(hit.line) for hit in find(name).lint(read)]


def hook(body, name="on_train_batch_end"):
    lines = "\n".join(f"        {line}" for line in body.split("\n"))
    return f"class Mine(keras.callbacks.Callback):\n    def {name}(self, batch, logs=None):\n{lines}\n"


def layer(body):
    lines = "\n".join(f"        {line}" for line in body.split("\n"))
    return f"class Mine(layers.Layer):\n    def call(self, x, training=None):\n{lines}\n"


GAME = """
class Agent:
    def __init__(self):
        self.model = build()
    def act(self, state):
        return self.model.predict(state)
    def learn(self, state):
        self.model.train_on_batch(state, state)
def build():
    return keras.Sequential([])
agent = Agent()
for episode in range(1000):
    state = np.reshape(start(), [1, 4])
    while playing():
        agent.{call}(state)
        agent.learn(state)
"""
PIPELINE = """
def python(x):
    {body}
    return x
def load(x):
    return tf.numpy_function(python, [x], tf.float32)
ds = tf.data.Dataset.from_tensor_slices(rows)
ds = ds{methods}
"""
TRAINED = """
@tf.function{arguments}
def step(x, beta):
    return x * beta
for epoch in range(3):
    for number, x in enumerate(data):
        step(x, {beta})
"""
TAPE = """
{decorator}
def step(x):
    with tf.GradientTape() as tape:
        loss = model(x)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
for x in data:
    step(x)
"""
JAX_STEP = """
import jax
def loss_of(weights, x):
    return model.stateless_call(weights, [], x)[0]
{decorator}
def step(weights, state, x):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x)
    return loss, *optimizer.stateless_apply(state, gradients, weights)
for x in data:
    loss, weights, state = {called}(weights, state, x)
"""
MADE_ANEW = """
import jax
def maker({taken}):
    @{compiler}
    def step(x):
        return x * scale
    return step
for epoch in range(20):
    {inside}
    step = maker({given})
    for x in data:
        step(x)
"""
COMPILED_AGAIN = """
for epoch in {loop}:
    {inside}
    model.fit(x, y, epochs={epochs})
"""
FOUND = {
    "sequential-map": [
        PIPELINE.format(body="np.load(x)", methods=".map(load).batch(8)"),
        PIPELINE.format(body="time.sleep(1)", methods=".shuffle(9).map(load, num_parallel_calls=1).batch(8)"),
        "def f(x):\n    x = tf.io.decode_png(x)\n    return tf.image.random_flip_left_right(x)\n"
        "ds = tf.data.Dataset.list_files('*').map(f)\n",
    ],
    "python-in-pipeline": [
        PIPELINE.format(body="x = np.sin(x)", methods=".map(load, num_parallel_calls=8).batch(8)"),
        "def rows():\n    while True:\n"
        "        y = [[int(c == t) for c in classes] for t in targets]\n        yield y\n"
        "model.fit(rows(), epochs=2)\n",
        "class Items(keras.utils.PyDataset):\n    def __getitem__(self, index):\n        for i in range(28):\n"
        "            for j in range(28):\n                image[i, j] = f(i)\n        return image\n",
    ],
    "per-example-work": [
        "def rows():\n    for i in range(9):\n        yield x[i]\n"
        "ds = tf.data.Dataset.from_generator(rows).batch(8)\n",
        "def rows(n):\n    yield n\n"
        "ds = tf.data.Dataset.from_generator(lambda: rows(3)).shuffle(9).padded_batch(8)\n",
    ],
    "missing-prefetch": [
        "options.experimental_optimization.apply_default_optimizations = False\n"
        "ds = tf.data.Dataset.range(9).map(f).batch(2).with_options(options)\n",
    ],
    "misplaced-cache": [
        "ds = tf.data.Dataset.range(9).map(lambda x: tf.image.random_crop(x, 2)).cache().batch(2)\n",
        "ds = tf.data.Dataset.range(9).repeat().cache()\n",
        "ds = tf.data.Dataset.range(9).map(f).cache()\nds = ds.take(3)\nmodel.fit(ds, epochs=5)\n",
        "ds = tf.data.Dataset.list_files('*').cache().map(lambda x: tf.io.read_file(x))\n",
    ],
    "repeated-preprocessing": [
        "ds = tf.data.TFRecordDataset(f).map(lambda x: tf.io.parse_tensor(x)).repeat(9)"
        ".map(lambda x: tf.image.random_crop(x, 3))\n",
    ],
    "eager-layers-in-pipeline": [
        "flip = layers.RandomFlip()\nclass Items(keras.utils.PyDataset):\n    def __getitem__(self, index):\n"
        "        return [flip(image) for image in images]\n",
        "flip = keras.Sequential([layers.RandomFlip()])\ndef batches():\n    while True:\n        out = []\n"
        "        for image in images:\n            out.append(flip(image))\n"
        "        yield out\nmodel.fit(batches())\n",
    ],
    "blocking-callback": [hook("time.sleep(1)"), hook("import gc\ngc.collect()", "on_train_batch_begin")],
    "predict-in-callback": [
        hook("self.model.predict(x)"),
        hook("if logs is not None:\n    self.model.evaluate(x, y)"),
        hook("self.help()") + "    def help(self):\n        self.model.predict(x)\n",
        hook("[self.model.predict(row[None]) for row in rows]", "on_epoch_end"),
        "keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: model.predict(x))\n",
    ],
    "per-batch-logging": [
        'keras.callbacks.TensorBoard(update_freq="batch")\n',
        "tf.keras.callbacks.TensorBoard('logs', update_freq=1)\n",
        hook("tf.summary.histogram('w', w)"),
        hook("np.savez('weights.npz', *self.model.get_weights())"),
        hook("self.base.commit()") + "    def on_train_begin(self, logs=None):\n"
        "        import sqlite3\n        self.base = sqlite3.connect('run.db')\n",
    ],
    "network-in-callback": [
        hook("import requests\nrequests.post('http://tracker', json=logs)"),
        "import requests\nclass Mine(keras.callbacks.Callback):\n    def __init__(self):\n"
        "        self.session = requests.Session()\n    def on_train_batch_end(self, batch, logs=None):\n"
        "        self.session.post('http://tracker')\n",
    ],
    "frequent-checkpoint": [
        "keras.callbacks.ModelCheckpoint('m.keras', save_freq=10)\n",
        "EVERY = 5\nkeras.callbacks.ModelCheckpoint('m.keras', save_freq=EVERY)\n",
        hook("self.model.save_weights('w.h5')"),
    ],
    "retracing": [
        TRAINED.format(arguments="", beta="number / 10"),
        TRAINED.format(arguments="(jit_compile=True)", beta="beta=min(1.0, 0.1 * number)"),
        "for x in data:\n    f = tf.function(step)\n    f(x)\n",
        "for x in data:\n    @tf.function\n    def step(x):\n        return x\n    step(x)\n",
        MADE_ANEW.format(compiler="tf.function", taken="", given="", inside="pass"),
    ],
    "recompilation": [
        COMPILED_AGAIN.format(loop="range(50)", inside="model.compile('sgd', 'mse')", epochs=1),
        "for chunk in stream:\n    net = keras.Sequential([])\n    net.set_weights(weights)\n    net.fit(chunk)\n"
        "    weights = net.get_weights()\n",
        "import jax\nfor x in data:\n    jax.jit(lambda v: v + 1)(x)\n",
        MADE_ANEW.format(compiler="jax.jit", taken="", given="", inside="pass"),
        "import jax\nfor epoch in range(9):\n    def loss(x):\n        return x\n    @jax.jit\n"
        "    def step(x):\n        return loss(x)\n    for x in data:\n        step(x)\n",
    ],
    "eager-execution": [
        "model.compile('sgd', 'mse', run_eagerly=True)\n",
        "tf.config.run_functions_eagerly(True)\n",
        TAPE.format(decorator=""),
        "for x in data:\n    with tf.GradientTape() as tape:\n        loss = model(x)\n"
        "    optimizer.apply(tape.gradient(loss, weights))\n",
        JAX_STEP.format(decorator="", called="step"),
    ],
    "predict-in-loop": [
        "for i in range(len(x)):\n    y = model.predict(x[i:i + 1], verbose=0)\n",
        "for batch in data:\n    fake = model.predict(noise)\n    model.train_on_batch(fake, y)\n",
        GAME.format(call="act"),
        "for state, target in memory:\n    y = model.predict(state)\n    model.fit(state, y, epochs=1)\n",
    ],
    "fit-in-loop": [
        "for row in rows:\n    model.fit(row[None], row[None], epochs=1)\n",
        "for i in range(0, n, SIZE):\n    model.fit(x[i:i + SIZE], y[i:i + SIZE], batch_size=SIZE)\n",
    ],
    "python-in-model": [
        layer("return np.sin(x)"),
        layer("y = x * 2\nreturn tf.numpy_function(f, [y], tf.float32)"),
        "from sklearn.metrics import f1_score\ndef score(y_true, y_pred):\n    return f1_score(y_true, y_pred)\n"
        "model.compile('sgd', 'mse', metrics=[score])\n",
        "def loss(y_true, y_pred):\n    return np.mean(y_pred)\nmodel.compile('sgd', loss=loss)\n",
    ],
    "loop-in-model": [
        layer("return tf.map_fn(f, x)"),
        layer("for t in range(x.shape[1]):\n    y = cell(x[:, t])\nreturn y"),
        layer("steps = tf.shape(x)[1]\nfor t in range(steps):\n    y = cell(x[:, t])\nreturn y"),
        layer("return [f(a, b) for a, b in zip(*[keras.ops.unstack(each) for each in x])]"),
        layer("rows = tf.unstack(x)\nfor row in rows:\n    y = f(row)\nreturn y"),
        "def loss(y_true, y_pred):\n    y_pred = tf.clip_by_value(y_pred, 0, 1)\n    for row in y_pred:\n"
        "        f(row)\nmodel.compile('sgd', loss)\n",
        "def loss(y_true, y_pred):\n    for a, b in zip(y_true, y_pred):\n"
        "        f(a, b)\nmodel.compile('sgd', loss)\n",
    ],
    "float16-on-cpu": [
        "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '-1'\n"
        "keras.mixed_precision.set_global_policy('mixed_float16')\n",
    ],
    "unfused-recurrent": [
        "net = layers.RNN(layers.LSTMCell(4))\n",
        "cell = layers.GRUCell(4)\nnet = layers.RNN(cell, return_sequences=True)\n",
    ],
    "float64-model": ["keras.config.set_floatx('float64')\n", "tf.keras.backend.set_floatx('float64')\n"],
    "dominant-validation": [
        "def batches(rows):\n    yield rows\nmodel.fit(batches(a), steps_per_epoch=len(a) // 32,"
        " validation_data=batches(b), validation_steps=len(b))\n",
        "model.fit(a, steps_per_epoch=100, validation_data=b, validation_steps=400)\n",
    ],
}
SILENT = {
    "sequential-map": [
        PIPELINE.format(body="np.load(x)", methods=".map(load, num_parallel_calls=8).batch(8)"),
        PIPELINE.format(body="x = x + 1", methods=".map(load).batch(8)"),
        "ds = tf.data.Dataset.range(9).map(lambda x: x + 1)\n",
        "ds = tf.data.Dataset.range(9).map(lambda x: tf.image.random_flip_left_right(x))\n",
    ],
    "python-in-pipeline": [
        PIPELINE.format(body="x = np.sin(x)", methods=".batch(8).map(load)"),
        PIPELINE.format(body="np.load(x)", methods=".map(load).batch(8)"),
        PIPELINE.format(body="import scipy\n    scipy.ndimage.rotate(x)", methods=".map(load).batch(8)"),
        "def rows():\n    while True:\n        for word in words:\n"
        "            yield [1 if word == w else 0 for w in all_words]\n"
        "model.fit(rows(), epochs=2)\n",
    ],
    "per-example-work": [
        "def batches():\n    yield x\nds = tf.data.Dataset.from_generator(batches).prefetch(2)\n",
        "def rows():\n    for f in files:\n        yield np.load(f)\n"
        "ds = tf.data.Dataset.from_generator(rows).batch(8)\n",
        "def batches():\n    yield x\nds = tf.data.Dataset.from_generator(batches).unbatch().batch(8)\n",
        "ds = tf.data.Dataset.from_generator(elsewhere).batch(8)\n",
    ],
    "missing-prefetch": [
        "ds = tf.data.Dataset.range(9).map(f).batch(2)\n",
        "options.experimental_optimization.apply_default_optimizations = False\n"
        "ds = tf.data.Dataset.range(9).map(f).batch(2).with_options(options).prefetch(1)\n",
        "options.deterministic = False\nds = tf.data.Dataset.range(9).map(f).with_options(options)\n",
    ],
    "misplaced-cache": [
        "ds = tf.data.Dataset.range(9).cache().map(lambda x: tf.image.random_crop(x, 2)).batch(2)\n",
        "ds = tf.data.Dataset.range(9).repeat(3).cache()\n",
        "ds = tf.data.Dataset.range(9).cache()\na = ds.take(3)\nb = ds.skip(3)\nmodel.fit(a, epochs=5)\n",
        "ds = tf.data.Dataset.range(9).cache()\nds = ds.take(3)\nmodel.fit(ds, epochs=1)\n",
        "ds = tf.data.Dataset.range(9).cache()\nfor x in ds.take(1):\n    print(x)\n",
        "ds = tf.data.Dataset.list_files('*').map(lambda x: tf.io.read_file(x)).cache()\n",
    ],
    "repeated-preprocessing": [
        "ds = tf.data.TFRecordDataset(f).map(lambda x: tf.io.parse_tensor(x)).cache().repeat(9)"
        ".map(lambda x: tf.image.random_crop(x, 3))\n",
        "ds = tf.data.TFRecordDataset(f).map(lambda x: tf.io.parse_tensor(x)).batch(9)\n",
    ],
    "eager-layers-in-pipeline": [
        "flip = layers.RandomFlip()\nclass Items(keras.utils.PyDataset):\n    def __getitem__(self, index):\n"
        "        return flip(images)\n",
        "flip = layers.RandomFlip()\nds = tf.data.Dataset.range(9).map(lambda x: flip(x))\n",
    ],
    "blocking-callback": [
        hook("time.sleep(1)", "on_epoch_end"),
        hook("if batch % 100 == 0:\n    time.sleep(1)"),
        hook("print(logs)"),
        hook("np.save('a.npy', x)"),
    ],
    "predict-in-callback": [
        hook("self.model.predict(x)", "on_epoch_end"),
        hook("if batch % 100:\n    return\nself.model.predict(x)"),
        hook("[self.model.predict(row[None]) for row in rows[:3]]", "on_epoch_end"),
        hook("self.forest.predict(x)"),
    ],
    "per-batch-logging": [
        'keras.callbacks.TensorBoard(update_freq="epoch", histogram_freq=1)\n',
        "keras.callbacks.TensorBoard(update_freq=500)\n",
        hook("tf.summary.histogram('w', w)", "on_epoch_end"),
        hook("self.losses.append(logs['loss'])\nself.file.write(str(logs))"),
        hook("np.save(f'{batch}.npy', logs['outputs'])", "on_predict_batch_end"),
        hook("import io, pickle\nbuffer = io.BytesIO()\npickle.dump(logs, buffer)\nself.queue.put(buffer)"),
        hook("self.base.commit()") + "    def on_train_begin(self, logs=None):\n"
        "        import sqlite3\n        self.base = sqlite3.connect(':memory:')\n",
    ],
    "network-in-callback": [
        hook("import requests\nrequests.post('http://tracker', json=logs)", "on_epoch_end"),
        hook("import requests\nself.pool.submit(lambda: requests.post('http://tracker'))"),
        hook("logs.get('loss')"),
    ],
    "frequent-checkpoint": [
        "keras.callbacks.ModelCheckpoint('m.keras', save_best_only=True)\n",
        "keras.callbacks.ModelCheckpoint('m.keras', save_freq=5000)\n",
        hook("self.model.save_weights('w.h5')", "on_epoch_end"),
    ],
    "retracing": [
        TRAINED.format(arguments="", beta="tf.constant(number / 10)"),
        TRAINED.format(arguments="", beta="0.5"),
        TRAINED.format(arguments="", beta="epoch"),
        TRAINED.format(arguments="(input_signature=signature)", beta="number / 10"),
        "f = tf.function(step)\nfor x in data:\n    f(x)\n",
        MADE_ANEW.format(compiler="tf.function", taken="scale", given="epoch", inside="pass"),
        "for units in range(9):\n    net = keras.Sequential([])\n    @tf.function\n    def step(x):\n"
        "        return net(x)\n    for x in data:\n        step(x)\n",
        "def maker():\n    adam = keras.optimizers.Adam()\n    @tf.function\n    def step(x):\n"
        "        adam.apply(x)\n    return step\nfor fold in range(9):\n    step = maker()\n    step(x)\n",
        "for units in range(9):\n    model.add(keras.layers.Dense(units))\n    @tf.function\n    def step(x):\n"
        "        return model(x)\n    for x in data:\n        step(x)\n",
        "def thaw(n):\n    base.layers[-n].trainable = True\nfor stage in range(9):\n    thaw(stage)\n"
        "    @tf.function\n    def step(x):\n        return model(x)\n    for x in data:\n        step(x)\n",
        "import functools\n@functools.cache\ndef maker():\n    @tf.function\n    def step(x):\n"
        "        return x\n    return step\nfor x in data:\n    step = maker()\n    step(x)\n",
        "step = None\nfor x in data:\n    if step is None:\n        @tf.function\n        def step(x):\n"
        "            return x\n    step(x)\n",
    ],
    "recompilation": [
        COMPILED_AGAIN.format(
            loop="folds", inside="model = keras.Sequential([])\n    model.compile('sgd')", epochs=1
        ),
        COMPILED_AGAIN.format(loop="[1e-3, 1e-4]", inside="model.compile('sgd', 'mse')", epochs=1),
        COMPILED_AGAIN.format(loop="range(50)", inside="model.compile('sgd', 'mse')", epochs=20),
        "import jax\nf = jax.jit(lambda v: v + 1)\nfor x in data:\n    f(x)\n",
        MADE_ANEW.format(compiler="jax.jit", taken="net", given="net", inside="net = keras.Sequential([])"),
        MADE_ANEW.format(compiler="jax.jit", taken="", given="", inside="model.add(keras.layers.Dense(1))").replace(
            "x * scale", "model.stateless_call(w, [], x)"
        ),
        "import functools, jax\n@jax.jit\ndef move(rate, x):\n    return rate * x\nfor epoch in range(50):\n"
        "    step = functools.partial(move, 0.1)\n    for x in data:\n        step(x)\n",
        "import jax\nfor k in range(30):\n    @jax.jit\n    def f(x, k=k):\n        return x * k\n    f(1.0)\n",
    ],
    "eager-execution": [
        "model.compile('sgd', 'mse', run_eagerly=DEBUG)\n",
        "tf.config.run_functions_eagerly(True)\ncheck()\ntf.config.run_functions_eagerly(False)\n",
        TAPE.format(decorator="@tf.function"),
        TAPE.format(decorator="") + "step = tf.function(step)\n",
        JAX_STEP.format(decorator="@jax.jit", called="step"),
        JAX_STEP.format(decorator="", called="jax.jit(step)"),
        JAX_STEP.format(decorator="", called="step") + "def run(step=step):\n    return jax.jit(step)\n",
        "class Net(keras.Model):\n    def train_step(self, x):\n        with tf.GradientTape() as tape:\n"
        "            loss = self(x)\n        self.optimizer.apply_gradients(tape.gradient(loss, w))\n",
        "import os\nos.environ['KERAS_BACKEND'] = 'torch'\nmodel.compile('sgd', 'mse', run_eagerly=True)\n",
    ],
    "predict-in-loop": [
        "for i in range(5):\n    model.predict(x[i:i + 1])\n",
        "for image in test_images:\n    y = model.predict(image[None])\n    print(y)\n",
        "for epoch in range(100):\n    model.fit(x, y, epochs=1)\n    score(model.predict(x_val))\n",
        "for batch in data:\n    model.train_on_batch(batch, y)\n"
        "    if step % 100 == 0:\n        model.predict(noise)\n",
        "from sklearn.svm import SVC\nforest = SVC()\nfor i in range(len(x)):\n    forest.predict(x[i:i + 1])\n",
        "for net in nets:\n    answers.append(net.predict(x_test))\n",
    ],
    "fit-in-loop": [
        "for epoch in range(100):\n    model.fit(x, y, epochs=1)\n",
        "for chunk in stream:\n    model.fit(chunk, chunk, epochs=1, batch_size=32)\n",
        "for i in range(0, n, 10000):\n    model.fit(x[i:i + 10000], y[i:i + 10000], batch_size=32)\n",
        "for row in rows:\n    model.train_on_batch(row[None], row[None])\n",
    ],
    "python-in-model": [
        layer("return x / np.sqrt(self.size)"),
        layer("n = np.prod(x.shape[1:])\nreturn keras.ops.reshape(x, (-1, n))"),
        layer("return keras.ops.sin(x)"),
        "def score(y_true, y_pred):\n    return np.mean(y_true)\nprint(score(a, b))\n",
    ],
    "loop-in-model": [
        layer("for block in self.blocks:\n    x = block(x)\nreturn x"),
        layer("for part in x:\n    y = self.dense(part)\nreturn y"),
        layer("for head in range(4):\n    y = x[:, head]\nreturn y"),
        layer("return [x * each for each in keras.ops.unstack(self.scales)]"),
        layer("return [f(a, b) for a, b in zip(x, keras.ops.unstack(self.scales))]"),
        layer("q, k, v = (self.split(part) for part in keras.ops.unstack(x, 3, axis=2))\nreturn q"),
        layer("keep = [i for i in range(x.shape[-1]) if i != 3]\nreturn keep"),
        "def loss(y_true, y_pred):\n    for i in range(len(y_pred)):\n"
        "        f(y_pred[i])\nmodel.compile('sgd', loss)\n",
    ],
    "unfused-recurrent": [
        "net = layers.LSTM(4, recurrent_dropout=0.2)\n",
        "net = layers.RNN([layers.LSTMCell(4), layers.LSTMCell(4)])\n",
        "class Cell(layers.Layer): pass\nnet = layers.RNN(Cell())\n",
    ],
    "float16-on-cpu": ["keras.mixed_precision.set_global_policy('mixed_float16')\n"],
    "float64-model": ["keras.config.set_floatx('float32')\n", "x = np.zeros(3, dtype='float64')\n"],
    "dominant-validation": [
        "def batches(rows):\n    yield rows\nmodel.fit(batches(a), steps_per_epoch=len(a) // 32,"
        " validation_data=batches(b), validation_steps=len(b) // 32)\n",
        "class Items(keras.utils.PyDataset): pass\nval = Items()\n"
        "model.fit(a, steps_per_epoch=n // 32, validation_data=val, validation_steps=len(val))\n",
        "model.fit(a, steps_per_epoch=100, validation_data=b, validation_steps=50)\n",
    ],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in FOUND.items() for text in texts])
def test_a_cause_that_the_source_shows_is_found(name, text):
    assert hits(name, text)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in SILENT.items() for text in texts])
def test_what_only_resembles_a_cause_is_not_found(name, text):
    assert hits(name, text) == []


def test_every_rule_that_reads_the_source_is_tried_here_both_ways():
    reading = {rule.name for rule in CATALOG if "lint" in vars(type(rule))}
    assert reading == set(FOUND) == set(SILENT)


@pytest.mark.parametrize("rule", CATALOG, ids=lambda rule: rule.name)
def test_the_fast_example_of_a_rule_does_not_show_its_cause(rule):
    for example in rule.examples:
        assert list(rule.lint(Script.parse("fast.py", example.fast))) == []


def test_shorter_shapes_on_jax_are_found_and_multiples_are_not():
    text = (
        "import os\nos.environ['KERAS_BACKEND'] = 'jax'\nimport keras\nclass Items(keras.utils.PyDataset):\n"
        "    def __getitem__(self, i):\n        n = max(len(row) for row in rows)\n"
        "        return keras.utils.pad_sequences(rows, maxlen={})\n"
    )
    found = {
        size: bool(list(find("recompilation").lint(Script.parse("train.py", text.format(size)))))
        for size in ("n", "n + 1", "50", "-(-n // 32) * 32")
    }
    assert found == {"n": True, "n + 1": True, "50": False, "-(-n // 32) * 32": False}
