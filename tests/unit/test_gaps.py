"""The wait for data inside TensorFlow's step, worked out from gaps between fetches: a pipeline of known waits."""

from types import SimpleNamespace

import pytest
from made import LINE

from fitscope.observe import tfdata
from fitscope.observe.backends.tensorflow import Gaps
from fitscope.observe.calls import Stations

MS = 1_000_000


class Iterator:
    """Writes gaps down as tf.data does: from the end of one fetch to the start of the next."""

    def __init__(self, clock):
        self.clock = clock
        self.gaps = []
        self._ended = None

    def fetch(self, milliseconds):
        if self._ended is not None:
            self.gaps.append((self.clock() - self._ended) // 1000)
        self.clock.passes(milliseconds / 1e3)
        self._ended = self.clock()


@pytest.fixture
def fit(clock, recording, monkeypatch):
    """Calls of a step as Keras makes them: waits for each batch, works, and is between two calls for 1 ms."""
    iterator = Iterator(clock)
    model = SimpleNamespace(gap_times=iterator.gaps, nodes={0: SimpleNamespace(name="Map", processing_time=40 * MS)})
    monkeypatch.setattr(tfdata, "model_of", lambda iterator: model)
    ledger = recording.ledger()
    stations = Stations(recording.tree, recording.root(ledger, "fit", LINE))

    def run(waits, *, each=1, traced=(), at_the_end=None):
        call = SimpleNamespace(stations=stations, each=each, region=None)
        gaps = Gaps(ledger, call, iterator, by_keras=True)
        for number in range(0, len(waits), each):
            ledger.enter(stations.step)
            gaps.began(clock())
            if number in traced:
                ledger.counts[stations.trace] += 1
                clock.passes(0.5)
            for wait in waits[number : number + each]:
                iterator.fetch(wait)
                clock.passes(0.004)
            gaps.took([ledger.enter(stations.loop)], [ledger.spent[stations.step]], [])
            clock.passes(0.001)
        if at_the_end is not None:
            ledger.enter(stations.step)
            gaps.began(clock())
            iterator.fetch(at_the_end)
            ledger.rename(stations.close)
        gaps.finish()
        ledger.back(ledger.outside)
        nodes = {"data": stations.data, "step": stations.step, "first run": stations.first_run}
        return {name: round(recording.tree.spent[node] / MS) for name, node in nodes.items()}

    run.iterator, run.ledger, run.stations = iterator, ledger, stations
    return run


@pytest.fixture
def steps_on(fit, clock):
    """The same, told of many calls at once: the step owns the time from the end of one call to that of the next."""

    def run(waits, *, each=1, failed=None):
        iterator, ledger, stations = fit.iterator, fit.ledger, fit.stations
        gaps = Gaps(ledger, SimpleNamespace(stations=stations, each=each, region=None), iterator, by_keras=True)
        gaps.began(ledger.enter(stations.step))
        ticks = []
        for number in range(0, len(waits), each):
            for wait in waits[number : number + each]:
                iterator.fetch(wait)
                clock.passes(0.004)
            returned = ledger.enter(stations.logs)
            owned = ledger.spent[stations.step]
            clock.passes(0.001)
            ticks.append((returned, owned, ledger.enter(stations.step)))
            if len(ticks) == gaps.room():
                gaps.took(*map(list, zip(*ticks, strict=True)))
                ticks = []
        if ticks:
            gaps.took(*map(list, zip(*ticks, strict=True)))
        if failed is None:
            gaps.begun.pop()
        else:
            iterator.fetch(failed)
        ledger.rename(stations.close)
        gaps.finish()
        ledger.back(ledger.outside)
        return {name: round(ledger.spent[getattr(stations, name)] / MS) for name in ("data", "step")}

    return run


@pytest.mark.parametrize("each", [1, 5])
@pytest.mark.parametrize("failed", [None, 2], ids=["over", "found no more data"])
def test_calls_can_be_told_of_together(steps_on, each, failed):
    waits = [3, 0, 7, 1, 20] * 60
    assert steps_on(waits, each=each, failed=failed) == {"data": sum(waits), "step": 4 * len(waits)}


@pytest.mark.parametrize("each", [1, 5])
def test_every_wait_is_found_and_the_rest_is_the_step(fit, each):
    waits = [3, 0, 7, 1, 20] * 60  # more calls than tf.data remembers gaps
    assert fit(waits, each=each, at_the_end=2) == {"data": sum(waits), "step": 4 * len(waits), "first run": 0}


def test_the_last_call_is_taken_to_have_worked_as_long_as_the_others(fit):
    assert fit([3, 5, 9]) == {"data": 17, "step": 12, "first run": 0}


def test_a_call_that_traced_prepares_and_waits_no_longer_than_the_pipeline_was_busy(fit):
    assert fit([30, 3, 3, 3], traced={0}, at_the_end=1) == {"data": 49, "step": 16, "first run": 490}


def test_the_waits_are_counted_by_batch(fit, recording):
    fit([1] * 20, each=5, at_the_end=1)
    data = next(number for number, node in enumerate(recording.tree.nodes) if node.phase == "data")
    assert recording.tree.counts[data] == 20
