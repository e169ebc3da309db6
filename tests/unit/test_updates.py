import pytest

from fitscope.observe import compiles, loops, updates
from fitscope.observe.ledger import Place

STEP = Place("/project/train.py", 12)


@pytest.fixture
def causes(recording, clock, monkeypatch):
    """Compiles a step that was given these shapes, two seconds apart, and gives how often for which cause."""
    for module in (compiles, updates):
        monkeypatch.setattr(module, "recorder", recording)
    for name in ("_compiled", "_given", "_stations", "_traces"):
        monkeypatch.setattr(updates, name, {})
    monkeypatch.setattr(updates, "_retraced", set())
    monkeypatch.setattr(updates, "clock", clock)
    ledger = recording.ledger()

    def causes(*given):
        for shapes in given:
            clock.passes(1)
            updates._given[ledger.ident] = shapes
            updates.compiled(ledger, STEP, 10**9, "jit(step)")
            clock.passes(2)
        rows = zip(recording.compiles.keys, recording.compiles.rows, strict=True)
        return {cause: count for (_, _, cause, *_), (count, _) in rows}

    return causes


def test_a_step_that_is_compiled_again_and_again_is_a_loop(causes, recording):
    assert causes((8, 3), (8, 3), (8, 3), (8, 3)) == {"first": 1, "new function": 3}
    assert [node.name for node in recording.tree.nodes if node.phase == "region"] == ["loop"]


def test_other_shapes_are_why_a_step_is_compiled_again(causes):
    assert causes((8, 3), (5, 3), (7, 3), (7, 3)) == {"first": 1, "changed shape": 2, "new function": 1}


def test_a_step_that_is_compiled_twice_says_nothing(causes, recording):
    assert causes((8, 3), (5, 3)) == {}
    assert not recording.regions


def test_the_gradient_of_an_embedding_is_traced_where_its_values_are():
    def of_kind(name, **attributes):
        return type(name, (), attributes)()

    assert loops.is_traced(of_kind("IndexedSlices", values=of_kind("SymbolicTensor")))
    assert not loops.is_traced(of_kind("IndexedSlices", values=of_kind("EagerTensor")))
