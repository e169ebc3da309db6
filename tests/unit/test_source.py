"""What a script says of itself, without being run."""

import ast
import time

import pytest

from fitscope.model import FitscopeError
from fitscope.source import Script


def script(text):
    return Script.parse("train.py", text)


def called(text, imports=""):
    """The name of the last call of a text."""
    read = script(f"{imports}\n{text}")
    return read.called(max(read.calls, key=lambda call: (call.lineno, -call.col_offset)))


# --- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("imports", "text", "name"),
    [
        ("import tensorflow as tf", "tf.data.Dataset.from_generator(f)", "tensorflow.data.Dataset.from_generator"),
        ("import tensorflow as tf", "tf.keras.callbacks.TensorBoard()", "keras.callbacks.TensorBoard"),
        ("from tensorflow import keras", "keras.layers.Dense(1)", "keras.layers.Dense"),
        ("from tensorflow.keras import layers as L", "L.Dense(1)", "keras.layers.Dense"),
        ("from keras.callbacks import Callback as CB", "CB()", "keras.callbacks.Callback"),
        ("from keras.callbacks import *", "TensorBoard()", "keras.callbacks.TensorBoard"),
        ("import tensorflow as tf\nlayers = tf.keras.layers", "layers.Dense(1)", "keras.layers.Dense"),
        ("import keras", "keras.models.Sequential()", "keras.Sequential"),
        ("import os.path", "os.path.join('a')", "os.path.join"),
        ("", "print(1)", "print"),
        ("", "data.map(f)", ".map"),
        ("", "made()(1)", ""),
    ],
)
def test_a_call_has_the_full_name_of_what_was_imported(imports, text, name):
    assert called(text, imports) == name


def test_a_local_variable_hides_an_import():
    assert called("def f(np):\n    return np.load(1)", "import numpy as np") == ".load"


def test_a_name_is_looked_up_from_the_inside_out():
    read = script("size = 1\ndef f():\n    size = 2\n    return size\ndef g():\n    return size\n")
    inner, outer = (node.value for node in ast.walk(read.tree) if isinstance(node, ast.Return))
    assert [read.literal(inner), read.literal(outer)] == [2, 1]


def test_a_name_with_two_values_is_no_literal():
    read = script("size = 1\nsize = 2\nprint(size)\n")
    assert read.literal(read.calls[0].args[0]) is None


def test_a_name_inside_a_class_is_not_seen_by_its_methods():
    read = script("rate = 1\nclass A:\n    rate = 2\n    def f(self):\n        print(rate)\n")
    assert read.literal(read.calls[0].args[0]) == 1


def test_the_backend_and_the_environment_are_those_that_the_script_sets():
    read = script(
        'import os\nos.environ["KERAS_BACKEND"] = "jax"\nos.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")\n'
    )
    assert read.backend == "jax"
    assert read.environment["CUDA_VISIBLE_DEVICES"] == "-1"
    assert script("import keras").backend is None


# --- lines -------------------------------------------------------------------------------------------------

LOOPS = """\
for x in data():
    step(x)
while True:
    work()
values = [score(x) for x in rows()]
def once():
    return call()
for y in z:
    def inner():
        alone()
"""


@pytest.mark.parametrize(("line", "repeated"), [(1, False), (2, True), (4, True), (5, True), (7, False), (10, False)])
def test_a_line_is_in_a_loop_only_within_its_function(line, repeated):
    assert script(LOOPS).in_loop(line) is repeated


def test_what_a_loop_goes_through_is_not_repeated():
    read = script(LOOPS)
    loops = {read.called(call): len(read.loops(call)) for call in read.calls}
    assert loops == {"data": 0, "step": 1, "work": 1, "score": 1, "rows": 0, "call": 0, "alone": 0}


def test_a_line_has_its_text_and_its_calls():
    read = script("import tensorflow as tf\n\n   \ndata = (tf.data.Dataset.range(3)\n    .map(f)\n    .batch(2))\n")
    assert read.line(5) == ".map(f)"
    assert read.line(99) == ""
    assert read.calls_on_line(5) == (".map",)
    assert read.calls_on_line(4) == ("tensorflow.data.Dataset.range",)


def test_a_statement_knows_its_lines_and_a_block_only_its_head():
    read = script("call(\n  1,\n  2)\nfor x in y:\n    a()\n    b()\n")
    assert read.statement_at(2) == (1, 3)
    assert read.statement_at(4) == (4, 4)
    assert read.statement_at(6) == (6, 6)


def test_a_condition_guards_what_stands_below_and_behind_it():
    read = script(
        "def f(batch, logs):\n"
        "    if logs is not None:\n        a()\n"
        "    if batch % 10:\n        return\n"
        "    b()\n"
        "def g(batch):\n    if batch > 3:\n        c()\n"
    )
    guarded = {
        item.called(call): item.guarded(call, item.function_of(call)) for item in [read] for call in read.calls
    }
    assert guarded == {"a": False, "b": True, "c": True}


@pytest.mark.parametrize(
    ("loop", "rounds"),
    [
        ("range(5)", 5),
        ("range(0, 10, 3)", 4),
        ("[1, 2]", 2),
        ("enumerate(range(7))", 7),
        ("rows[:4]", 4),
        ("rows", None),
        ("range(n)", None),
    ],
)
def test_a_loop_is_counted_where_a_literal_says_so(loop, rounds):
    read = script(f"for x in {loop}:\n    f(x)\n")
    assert read.rounds(read.tree.body[0]) == rounds


# --- what Keras makes of it --------------------------------------------------------------------------------


def test_callbacks_are_classes_and_objects_with_their_hooks():
    read = script(
        "import keras\n"
        "class Base(keras.callbacks.Callback):\n    def on_epoch_end(self, epoch, logs=None): pass\n"
        "class Mine(Base):\n    def on_train_batch_end(self, batch, logs=None): pass\n    def other(self): pass\n"
        "class Not:\n    def on_epoch_end(self): pass\n"
        "keras.callbacks.LambdaCallback(on_train_batch_begin=lambda batch, logs: None)\n"
    )
    assert [(each.name, sorted(each.hooks)) for each in read.callbacks()] == [
        ("Base", ["on_epoch_end"]),
        ("Mine", ["on_epoch_end", "on_train_batch_end"]),
        ("LambdaCallback", ["on_train_batch_begin"]),
    ]


def chains(text):
    found = script(f"import tensorflow as tf\n{text}").chains()
    return [[link.name for link in chain.links] for chain in found]


def test_a_pipeline_is_followed_through_its_assignments():
    assert chains("ds = tf.data.Dataset.range(9)\nds = ds.map(f)\nds = ds.batch(2).prefetch(1)\n") == [
        ["range", "map", "batch", "prefetch"]
    ]


def test_a_pipeline_that_forks_is_two():
    assert chains("ds = tf.data.Dataset.range(9).map(f)\na = ds.take(3)\nb = ds.skip(3)\n") == [
        ["range", "map", "take"],
        ["range", "map", "skip"],
    ]


def test_a_pipeline_is_followed_through_functions():
    text = (
        "def load(files):\n    return tf.data.TFRecordDataset(files)\n"
        "def prepare(ds, train):\n    ds = ds.map(parse)\n"
        "    if train:\n        ds = ds.shuffle(9)\n    return ds.batch(2)\n"
        "data = prepare(load(f), True).prefetch(1)\n"
    )
    assert ["TFRecordDataset", "map", "shuffle", "batch", "prefetch"] in chains(text)


def test_a_link_below_a_condition_is_not_sure():
    read = script(
        "import tensorflow as tf\nds = tf.data.Dataset.range(9)\nif big:\n    ds = ds.cache()\nds = ds.batch(2)\n"
    )
    (chain,) = read.chains()
    assert [(link.name, link.sure) for link in chain.links] == [("range", True), ("cache", False), ("batch", True)]


def test_each_link_of_a_chain_over_many_lines_has_its_own_line():
    read = script("import tensorflow as tf\nds = (tf.data.Dataset.range(9)\n      .map(f)\n      .batch(2))\n")
    assert [link.line for link in read.chains()[0].links] == [2, 3, 4]


def test_methods_of_other_things_are_no_pipeline():
    assert chains("rows = frame.map(f)\nwith pool() as p:\n    p.map(f, rows)\nx = rows.take(3)\n") == []


def test_loaders_are_found_wherever_they_are_handed_over():
    read = script(
        "import keras, tensorflow as tf\n"
        "class Items(keras.utils.PyDataset):\n    def __getitem__(self, i): pass\n"
        "def rows():\n    yield 1\n"
        "def batches(n):\n    yield 2\n"
        "def python(x):\n    return x\n"
        "tf.data.Dataset.from_generator(lambda: rows(), None)\n"
        "gen = batches(3)\n"
        "model.fit(gen, epochs=2)\n"
        "def load(x):\n    return tf.numpy_function(python, [x], tf.float32)\n"
    )
    assert sorted((each.kind, each.function.name) for each in read.loaders()) == [
        ("generator", "batches"),
        ("generator", "rows"),
        ("item", "__getitem__"),
        ("python", "python"),
    ]


def test_what_runs_inside_the_model_is_found():
    read = script(
        "import keras\n"
        "class Layer(keras.layers.Layer):\n    def call(self, x, training=None): return x\n"
        "class Gan(keras.Model):\n    def call(self, x): return x\n    def train_step(self, data): return {}\n"
        "def weighted(alpha):\n    def loss(y_true, y_pred): return y_true\n    return loss\n"
        "def score(y_true, y_pred): return y_true\n"
        "model.compile('sgd', loss=weighted(0.5), metrics=['mae', score])\n"
    )
    assert sorted((each.kind, each.function.name, sorted(each.tensors)) for each in read.inner()) == [
        ("call", "call", ["x"]),
        ("loss", "loss", ["y_pred", "y_true"]),
        ("metric", "score", ["y_pred", "y_true"]),
        ("train_step", "train_step", ["data"]),
    ]


@pytest.mark.parametrize(
    ("text", "is_model"),
    [
        ("m = keras.Sequential([])", True),
        ("m = keras.applications.ResNet50()", True),
        ("def build():\n    return keras.Model(a, b)\nm = build()", True),
        ("class Net(keras.Model): pass\nm = Net()", True),
        ("m = somewhere()\nm.compile(optimizer='sgd')", True),
        ("m = somewhere()", False),
        ("m = keras.layers.Dense(1)", False),
    ],
)
def test_a_model_is_known_by_its_making_or_by_its_compiling(text, is_model):
    read = script(f"import keras\n{text}\nprint(m)\n")
    (call,) = [call for call in read.calls if read.called(call) == "print"]
    assert read.is_model(call.args[0]) is is_model


@pytest.mark.parametrize(
    ("rows", "one"),
    [
        ("x[None]", True),
        ("x[i:i + 1]", True),
        ("x[0:1, :]", True),
        ("np.expand_dims(x, axis=0)", True),
        ("x.reshape(1, -1).astype('float32') / 255", True),
        ("np.reshape(x, [1, 4])", True),
        ("np.array([x])", True),
        ("[x[None], y[None]]", True),
        ("x[i:i + 32]", False),
        ("x[i]", False),
        ("np.array(x)", False),
        ("x", False),
    ],
)
def test_a_batch_of_one_row_is_recognized(rows, one):
    read = script(f"import numpy as np\nrow = {rows}\nprint(row)\n")
    (call,) = [call for call in read.calls if read.called(call) == "print"]
    assert read.one_row(call.args[0]) is one


def test_a_parameter_is_one_row_if_every_call_passes_one():
    read = script("def act(state):\n    return model.predict(state)\nact(a[None])\nact(b[None])\n")
    (call,) = [call for call in read.calls if read.called(call) == ".predict"]
    assert read.one_row(call.args[0])


def test_a_shape_does_not_depend_on_the_values():
    read = script("def f(x):\n    a = x.shape[0]\n    b = x * 2\n    c = len(x)\n    d = b + a\n")
    assert read.spread(read.functions[0], {"x"}) == {"x", "b", "d"}


# --- reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = (\n", "line 1 is no Python that this version reads"),
        ("print 'hello'\n", "line 1 is no Python that this version reads"),
        ("x = 1\x00", "is no Python"),
        ("(" * 1000 + ")" * 1000, "is no Python|nested too deeply"),
    ],
)
def test_what_is_no_python_is_one_sentence(text, sentence):
    with pytest.raises(FitscopeError, match=sentence):
        script(text)


def test_line_ends_of_all_systems_count_as_lines():
    assert script("a = 1\r\nb = 2\rc = f()\n").calls_on_line(3) == ("f",)


def test_the_time_grows_with_the_length_of_a_script_and_not_faster():
    part = (
        "def part_{0}(x, model):\n"
        "    ds = tf.data.Dataset.from_tensor_slices(x).map(lambda v: v + 1).batch(32)\n"
        "    for i in range(len(x)):\n        y = model.predict(x[i:i + 1])\n        part_{1}(y, model)\n"
        "    model.fit(ds, epochs=2)\n    return ds\n"
    )

    def seconds(size):
        text = "import tensorflow as tf\n" + "".join(part.format(n, max(0, n - 1)) for n in range(size))
        start = time.process_time()
        read = script(text)
        read.chains(), read.loaders(), read.inner(), read.model_calls("fit")
        return time.process_time() - start

    seconds(10)
    small, large = min(seconds(50) for _ in range(3)), seconds(800)
    assert large < 16 * small * 4
