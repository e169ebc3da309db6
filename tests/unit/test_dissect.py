"""Layers are told apart while a step is traced: nested, shared, whole; without Keras, with what looks like it."""

import contextlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fitscope.model import SCOPE
from fitscope.observe.dissect import Dissection
from fitscope.observe.units import costs, units


class Tensor:
    def __init__(self, *shape):
        self.shape = shape
        self.dtype = "float32"


class Layer:
    """A layer as Keras has them; `inner` are the layers that it is made of, and calls one after the other."""

    def __init__(self, name, *inner, weights=(), **settings):
        self.name = name
        self.inner = inner
        self.own = [Tensor(*shape) for shape in weights]
        self.__dict__.update(settings)

    @property
    def weights(self):
        return [*self.own, *(weight for each in self.inner for weight in each.weights)]

    @property
    def trainable_variables(self):
        return self.weights

    def _flatten_layers(self, include_self, recursive):
        return list(self.inner)

    def run(self, *given):
        value = given[0]
        for each in self.inner:
            value = self.through(each, value)
        return Tensor(*value.shape[:-1], getattr(self, "units", value.shape[-1]))


class Model(Layer):
    pass


def of_keras(name, kind, *inner, **more):
    made = type(kind, (Layer,), {"__module__": "keras.src.layers"})
    return made(name, *inner, **more)


def flatten(value):
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in flatten(each)]
    return [value]


@pytest.fixture(autouse=True)
def keras(monkeypatch):
    module = SimpleNamespace(
        Model=Model, tree=SimpleNamespace(flatten=flatten), backend=SimpleNamespace(standardize_dtype=str)
    )
    monkeypatch.setitem(sys.modules, "keras", module)


@pytest.fixture
def scopes():
    return []


@pytest.fixture
def dissection(scopes, monkeypatch):
    """One that traces now; layers call one another through it, as Keras' would."""
    found = Dissection(Path("a.run"), 1.0)
    found.scoped = found.noting = True
    found.batch_size = 4
    found._thread = __import__("threading").get_ident()

    @contextlib.contextmanager
    def scope(name):
        scopes.append(name)
        yield

    def through(self, layer, value):
        return found.call(lambda each, *given: each.run(*given), SimpleNamespace(scope=scope), layer, (value,), {})

    monkeypatch.setattr(Layer, "through", through, raising=False)
    return found


def test_a_layer_of_keras_is_whole_and_a_model_is_what_it_is_made_of(dissection, scopes):
    cell = of_keras("cell", "LSTMCell")
    dense = of_keras("dense", "Dense", weights=[(8, 3)], units=3)
    inner = Model("inner", of_keras("lstm", "LSTM", cell, weights=[(8, 8)], units=8), dense)
    top = Model("top", inner)
    dissection.model = top
    Layer("root", top).run(Tensor(None, 5, 8))
    names = [row.name for row in dissection.rows.values()]
    assert names == ["top", "inner", "inner/lstm", "inner/dense"]
    assert scopes == [f"{SCOPE}{number}." for number in range(4)]


def test_a_shared_layer_is_one_row_with_all_of_its_calls(dissection):
    dense = of_keras("dense", "Dense", weights=[(8, 8)], units=8)
    dissection.model = top = Model("top", dense, dense)
    Layer("root", top).run(Tensor(None, 8))
    row = dissection.rows[id(dense)]
    assert row.calls == 2
    assert row.forward == 2 * (2 * 4 * 8 * 8)
    # The first layer's input needs no gradient; that of its second call is the layer's own output.
    assert row.backward == 2 * 4 * 8 * 8 + 2 * (2 * 4 * 8 * 8)
    assert row.activations == 2 * (4 * 8 * 4)


def test_a_second_trace_of_the_step_does_not_count_twice(dissection):
    dense = of_keras("dense", "Dense", weights=[(8, 8)], units=8)
    dissection.model = top = Model("top", dense)
    for _ in range(2):
        dissection.begin_pass()
        Layer("root", top).run(Tensor(None, 8))
    assert dissection.rows[id(dense)].calls == 1
    assert dissection.rows[id(dense)].forward == 2 * 4 * 8 * 8


def test_the_update_of_a_weight_belongs_to_the_innermost_layer_that_has_it(dissection):
    dense = of_keras("dense", "Dense", weights=[(8, 8)], units=8)
    block = Layer("block", dense, weights=[(3,)])
    dissection.model = top = Model("top", block)
    Layer("root", top).run(Tensor(None, 8))
    assert dissection.owner(dense.own[0]) == f"u{dissection.rows[id(dense)].number}"
    assert dissection.owner(block.own[0]) == f"u{dissection.rows[id(block)].number}"
    assert dissection.owner(Tensor(1)) == "optimizer"


def test_the_work_of_a_model_is_known_from_the_shapes_it_was_built_for():
    first = of_keras("first", "Dense", weights=[(8, 3)], units=3, _build_shapes_dict={"input_shape": (None, 8)})
    second = of_keras("second", "Dense", weights=[(3, 90)], units=90, _build_shapes_dict={"input_shape": (None, 3)})
    model = Model("top", first, Model("inner", second))
    found, complete = costs(model)
    assert [(each["name"], each["flops"]) for each in found] == [
        ("inner/second", 3 * 2 * 3 * 90),
        ("first", 2 * 2 * 8 * 3),
    ]
    assert complete


def test_a_layer_of_the_user_s_with_matrices_of_its_own_may_do_any_work():
    mine = Layer("mine", weights=[(100, 100)])
    known = of_keras("known", "Dense", weights=[(8, 3)], units=3, _build_shapes_dict={"input_shape": (None, 8)})
    assert costs(Model("top", known, mine))[1] is False
    assert [name for name, _ in units(Model("top", known, mine, known))] == ["known", "mine"]
