"""How long steps took that the training thread only dispatched: from the instants at which they were done."""

import pytest
from made import LINE

from fitscope.observe import dispatched
from fitscope.observe.calls import Call, Stations
from fitscope.observe.dispatched import Dispatched
from fitscope.observe.recorder import Region


def dispatch(steps, region, *, number, began, each=1):
    steps.open += [(region, each, 0 if index else began) for index in range(number)]


def test_a_step_lasts_since_the_one_before_it_was_done():
    steps, region = Dispatched(), Region()
    dispatch(steps, region, number=3, began=1000)
    steps.done += [1040, 1075, 1105]
    steps.settle()
    assert region.take_durations() == [40, 35, 30]


def test_steps_that_are_not_done_are_settled_later_and_the_order_of_the_pool_does_not_matter():
    steps, region = Dispatched(), Region()
    dispatch(steps, region, number=4, began=100)
    steps.done += [120, 110]
    steps.settle()
    steps.done += [140, 150]
    steps.settle()
    assert region.take_durations() == [10, 10, 20, 10]


def test_each_pass_begins_anew_and_an_execution_may_hold_several_steps():
    steps, region = Dispatched(), Region()
    dispatch(steps, region, number=1, began=100, each=5)
    steps.done += [200]
    steps.settle(final=True)
    dispatch(steps, region, number=1, began=1000, each=5)
    steps.done += [1050]
    steps.settle(final=True)
    assert region.take_durations() == [20, 10]


def test_steps_of_a_validation_count_for_nobody():
    steps, region = Dispatched(), Region()
    dispatch(steps, region, number=2, began=100)
    dispatch(steps, None, number=1, began=130)
    steps.done += [110, 120, 500]
    steps.settle()
    assert region.take_durations() == [10, 10]


def test_a_step_that_is_done_before_it_is_known_to_be_dispatched_waits_for_that():
    steps, region = Dispatched(), Region()
    steps.done += [120]
    steps.settle()
    dispatch(steps, region, number=1, began=100)
    steps.settle()
    assert region.take_durations() == [20]


def test_nothing_is_left_over_for_the_next_pass():
    steps, region = Dispatched(), Region()
    dispatch(steps, region, number=2, began=100)
    steps.done += [120]
    steps.settle(final=True)
    assert (steps.done, steps.open) == ([], [])


MS = 1_000_000


@pytest.fixture
def validation(clock, recording, monkeypatch):
    """A validation that begins while three steps of the training are still computed."""
    monkeypatch.setattr(dispatched, "clock", clock)
    ledger = recording.ledger()
    root = recording.root(ledger, "fit", LINE)
    fit = Call("fit", Stations(recording.tree, root), ledger, recording.regions[root], None)
    ledger.call = fit
    inner = Stations(recording.tree, recording.tree.node(root, "validation", "validation"))
    steps = Dispatched()
    dispatch(steps, fit.region, number=3, began=clock())
    ledger.enter(inner.setup)
    evaluate = Call("evaluate", inner, ledger, None, None)
    steps.validation_begins(ledger, evaluate)
    yield steps, ledger, fit, evaluate
    ledger.back(ledger.outside)


def told(validation):
    steps, ledger, fit, evaluate = validation
    return steps, ledger, fit.stations, evaluate.stations


def spent(ledger, *nodes):
    return [ledger.spent[node] / MS for node in nodes]


def test_compiling_while_earlier_steps_are_computed_is_compiling(validation, clock):
    steps, ledger, fit, inner = told(validation)
    ledger.enter(inner.step)
    clock.passes(0.030)
    for _ in range(3):
        steps.step_done()
    clock.passes(0.005)
    compiled = inner.compile("XLA")
    ledger.move(inner.step, compiled, 33 * MS)  # as JAX tells when it is over
    ledger.enter(inner.loop)
    steps.settle()
    assert spent(ledger, inner.step, compiled, fit.wait) == [0, 33, 2]


def test_what_a_validation_waits_for_while_the_training_is_computed_belongs_to_the_training(validation, clock):
    steps, ledger, fit, inner = told(validation)
    ledger.enter(inner.data)
    clock.passes(0.005)
    steps.step_done()
    ledger.enter(inner.step)
    clock.passes(0.002)
    dispatch(steps, None, number=1, began=clock())
    ledger.enter(inner.wait)
    clock.passes(0.030)
    steps.step_done()
    steps.step_done()
    clock.passes(0.007)
    steps.step_done()
    ledger.enter(inner.metrics)
    steps.settle(final=True)
    assert spent(ledger, fit.wait, inner.data, inner.step, inner.wait) == [32, 5, 0, 7]


def test_a_training_that_is_done_when_the_validation_begins_takes_nothing_from_it(validation, clock):
    steps, ledger, fit, inner = told(validation)
    for _ in range(3):
        steps.step_done()
    ledger.enter(inner.wait)
    clock.passes(0.010)
    dispatch(steps, None, number=1, began=clock())
    steps.step_done()
    ledger.enter(inner.metrics)
    steps.settle(final=True)
    assert spent(ledger, fit.wait, inner.wait) == [0, 10]


def test_metrics_wait_for_the_steps_before_them(validation, clock):
    """Those of the validation first for steps of the training, then for its own; what is left is theirs."""
    steps, ledger, fit, evaluate = validation
    inner = evaluate.stations
    dispatch(steps, None, number=1, began=clock())
    ledger.enter(inner.metrics)
    steps.metrics_begin(ledger, evaluate)
    clock.passes(0.030)
    for _ in range(3):
        steps.step_done()
    clock.passes(0.007)
    steps.step_done()
    clock.passes(0.002)
    ledger.enter(inner.end)
    steps.settle(final=True)
    assert spent(ledger, fit.stations.wait, inner.wait, inner.metrics) == [30, 7, 2]


def test_a_wait_that_begins_at_the_metrics_goes_on_in_the_validation(validation, clock):
    steps, ledger, fit, evaluate = validation
    for _ in range(3):
        steps.step_done()
    dispatch(steps, fit.region, number=2, began=clock())
    ledger.enter(fit.stations.metrics)
    steps.metrics_begin(ledger, fit)
    clock.passes(0.004)
    steps.step_done()
    ledger.enter(evaluate.stations.step)
    steps.validation_begins(ledger, evaluate)
    clock.passes(0.010)
    steps.step_done()
    clock.passes(0.001)
    ledger.enter(evaluate.stations.end)
    steps.settle(final=True)
    assert spent(ledger, fit.stations.wait, fit.stations.metrics, evaluate.stations.step) == [14, 0, 1]


def test_a_last_step_that_is_done_just_when_the_metrics_begin_is_not_waited_for(validation, clock, monkeypatch):
    steps, ledger, fit, _ = validation
    for _ in range(3):
        steps.step_done()
    dispatch(steps, fit.region, number=1, began=clock())
    settle = steps.settle

    def meanwhile():
        settle()
        steps.step_done()  # in a thread of the pool, which sees no backlog yet

    ledger.enter(fit.stations.metrics)
    with monkeypatch.context() as patch:
        patch.setattr(steps, "settle", meanwhile)
        steps.metrics_begin(ledger, fit)
    clock.passes(0.005)
    ledger.enter(fit.stations.end)
    settle(final=True)
    assert spent(ledger, fit.stations.wait, fit.stations.metrics) == [0, 5]


def test_a_wait_is_measured_before_the_training_thread_may_charge_it(validation, clock):
    steps, ledger, fit, _ = validation
    for _ in range(3):
        steps.step_done()
    dispatch(steps, fit.region, number=1, began=clock())

    class Charging(list):
        def append(self, backlog):
            backlog.charge()

    ledger.enter(fit.stations.metrics)
    steps.metrics_begin(ledger, fit)
    clock.passes(0.005)
    steps._over = Charging()
    steps.step_done()
    ledger.enter(fit.stations.end)
    assert spent(ledger, fit.stations.wait, fit.stations.metrics) == [5, 0]
