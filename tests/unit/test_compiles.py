from types import SimpleNamespace

import pytest

from fitscope.observe import compiles
from fitscope.observe.backends import tensorflow
from fitscope.observe.calls import Call
from fitscope.observe.recorder import Region


class Shaped:
    """An array, as far as shapes go."""

    def __init__(self, *shape):
        self.shape = shape


@pytest.fixture
def causes(recording, monkeypatch):
    """Compiles, and gives how often for which cause."""
    monkeypatch.setattr(compiles, "recorder", recording)
    monkeypatch.setattr(compiles, "_last", {})

    def causes(*compilations, function="step"):
        for root, signature, model in compilations:
            compiles.note(
                SimpleNamespace(root=root, batch=SimpleNamespace(shape=signature), model=model), function, 10**9
            )
        rows = zip(recording.compiles.keys, recording.compiles.rows, strict=True)
        return {(root, cause): tuple(row) for (root, _, cause, *_), row in rows}

    return causes


ONE, TWO = object(), object()


def test_the_first_compilation_needs_no_other_cause(causes):
    assert causes((1, (8,), ONE), (2, (8,), ONE)) == {(1, "first"): (1, 10**9), (2, "first"): (1, 10**9)}


def test_another_shape_is_the_cause_whatever_else_has_changed(causes, recording):
    found = causes((1, ((8, 3), (8,)), ONE), (1, ((5, 3), (5,)), TWO))
    assert found[1, "changed shape"] == (1, 10**9)
    assert recording.compiles.keys[-1][3] == "((8, 3), (8,)) -> ((5, 3), (5,))"


def test_another_model_is_the_cause_where_the_shape_is_the_same(causes):
    assert causes((1, (8,), ONE), (1, (8,), TWO), (1, (8,), ONE))[1, "new function"] == (2, 2 * 10**9)


def test_where_shape_and_model_are_the_same_it_was_another_argument(causes):
    assert causes((1, (8,), ONE), (1, (8,), ONE))[1, "another argument"] == (1, 10**9)


def test_what_is_compiled_until_a_first_step_is_done_builds_the_model(recording, monkeypatch):
    monkeypatch.setattr(compiles, "recorder", recording)
    monkeypatch.setattr(compiles, "_last", {})
    outside = SimpleNamespace(call=None, node=0)
    call = Call("fit", SimpleNamespace(root=1), outside, Region(), SimpleNamespace())
    for _layer in range(4):
        compiles.note(call, "jit(_uniform)", 10**9)
    assert {key[2] for key in recording.compiles.keys} == {"first"}
    call.region.step(5)
    compiles.note(call, "jit(_uniform)", 10**9)
    assert [key[2] for key in recording.compiles.keys] == ["first", "another argument"]


def test_two_functions_of_a_place_are_not_compared(causes):
    causes((1, (8,), ONE), function="train_step")
    assert causes((1, (5,), ONE), function="test_step") == {(1, "first"): (1, 10**9)}


def test_the_shapes_of_a_batch_follow_its_structure():
    batch = ({"image": Shaped(8, 3), "label": Shaped(8)}, [Shaped(8), None, 3])
    assert compiles.shapes(batch) == ((("image", (8, 3)), ("label", (8,))), ((8,), None, None))


def traced_by_tensorflow(make, monkeypatch):
    """The causes of three traces, each of the function that is made then; nobody keeps those of before."""
    monkeypatch.setattr(tensorflow, "_types", {})
    return [tensorflow._cause((1, "step"), make(), SimpleNamespace(parameters={}))[0] for _ in range(3)]


def test_a_function_that_is_made_anew_is_told_even_where_it_takes_the_place_of_a_dead_one(monkeypatch):
    def make():
        return lambda batch: batch

    assert traced_by_tensorflow(make, monkeypatch) == ["first", "new function", "new function"]


def test_one_function_that_is_traced_again_with_the_same_arguments_creates_variables(monkeypatch):
    class Model:
        def step(self, batch):
            return batch

    model, function = Model(), lambda batch: batch
    twice = ["first", "variables created", "variables created"]
    assert traced_by_tensorflow(lambda: function, monkeypatch) == twice
    assert traced_by_tensorflow(lambda: model.step, monkeypatch) == twice
