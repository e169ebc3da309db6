"""Work that a model could do without, from runs written down by hand."""

import sys
from types import SimpleNamespace

import pytest
from made import Tree

from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.model import Called, Where

FIT = Where("train.py", 40)
LAYER = Where("net.py", 7)


def found(*facts, backend="tensorflow", step=8.0, compiling=0.5, steps=400, device="cpu", settings=None):
    """The findings on 400 steps of 20 ms each, with these facts."""
    tree = Tree()
    root = tree.region("fit", FIT)
    tree.add(root, "step", "step", step, count=steps)
    tree.add(root, "compile", "tracing", compiling)
    settings = {"fact": "settings", "device": device, **(settings or {})}
    run = tree.run(
        called={root: Called(1, steps, 4, (step / steps,) * steps)},
        facts=tuple({"root": root, **fact} for fact in (settings, *facts)),
        backend=backend,
    )
    return {finding.name: finding for finding in diagnose(run, account(run)).findings}


def metric(seconds, name="ranked", **changes):
    fact = {"fact": "metric", "name": name, "type": "MeanMetricWrapper", "own": True, "seconds": seconds}
    return {**fact, "how": "alone", "where": LAYER, **changes}


def test_a_metric_that_takes_half_of_the_step_is_named_where_it_is_written():
    finding = found(metric(0.01), metric(0.0004, "accuracy"))["expensive-metric"]
    assert finding.says == "The metric ranked takes 50 % of every step."
    assert finding.where == LAYER
    assert 1.1 < finding.estimated.low < finding.estimated.high < 2.5


def test_metrics_that_are_dear_together_are_named_together():
    finding = found(*(metric(0.004, name) for name in "abc"))["expensive-metric"]
    assert finding.says == "The metrics a and b and c take 60 % of every step."


def test_a_metric_given_by_its_name_is_found_at_the_call():
    assert found(metric(0.01, own=False, where=FIT))["expensive-metric"].where == FIT


def test_usual_metrics_are_not_mentioned():
    assert found(metric(0.002, "auc"), metric(0.001, "accuracy"), metric(0.001, "recall")) == {}


def recurrent(**changes):
    usual = {"layer": "LSTM", "cell": "LSTMCell", "unroll": False, "steps": 40, "units": 32, "recurrent_dropout": 0.0}
    usual |= {"use_bias": True, "reset_after": None, "activation": "tanh", "recurrent_activation": "sigmoid"}
    return {"fact": "recurrent", **usual, "where": LAYER, **changes}


def test_on_torch_keras_goes_through_a_sequence_in_python():
    def training(flops):
        costs = [{"kind": "LSTM", "flops": flops}, {"kind": "Conv1D", "flops": 100}]
        settings = {"costs": costs, "costs_complete": True, "work": flops + 100}
        return found(recurrent(), backend="torch", settings=settings)

    finding = training(900)["unfused-recurrent"]
    assert (finding.where, "torch.nn.LSTM(features, 32" in finding.remedy) == (LAYER, True)
    assert 1 < finding.estimated.low < finding.estimated.high
    assert training(50) == {}


def test_a_usual_recurrent_layer_is_not_mentioned():
    for device in ("cpu", "gpu"):
        assert found(recurrent(), compiling=9.0, device=device).keys() <= {"compile-dominates"}


def test_a_loop_that_is_written_out_is_named_where_compiling_it_takes_long():
    slow = found(recurrent(unroll=True), compiling=9.0)["unfused-recurrent"]
    assert "unroll=True writes the 40 steps" in slow.says
    assert slow.where == LAYER
    assert "writes the steps" in found(recurrent(unroll=True, steps=None), compiling=9.0)["unfused-recurrent"].says
    assert "unfused-recurrent" not in found(recurrent(unroll=True), compiling=1.0)
    assert "unfused-recurrent" not in found(recurrent(unroll=True, steps=4), compiling=9.0)


def test_where_steps_run_eagerly_that_is_what_costs():
    eager = {"fact": "settings", "device": "cpu", "run_eagerly": True}
    assert set(found(metric(0.01), recurrent(recurrent_dropout=0.5), settings=eager)) == {"eager-execution"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"recurrent_dropout": 0.2}, "recurrent_dropout=0.2"),
        ({"activation": "relu"}, 'activation="relu"'),
        ({"recurrent_activation": "hard_sigmoid"}, 'recurrent_activation="hard_sigmoid"'),
        ({"use_bias": False}, "use_bias=False"),
        ({"layer": "GRU", "cell": "GRUCell", "reset_after": False}, "reset_after=False"),
        ({"layer": "RNN"}, "RNN(LSTMCell(…))"),
    ],
)
def test_what_costs_the_fast_kernel_is_named_on_a_gpu(changes, reason):
    finding = found(recurrent(**changes), device="gpu")["unfused-recurrent"]
    assert reason in finding.says
    assert finding.estimated.low == pytest.approx(1.0)


def test_a_cell_of_ones_own_has_no_fast_kernel_to_lose():
    assert found(recurrent(layer="RNN", cell="MyCell"), device="gpu") == {}


def test_settings_that_cost_nothing_on_a_cpu_are_not_mentioned():
    for changes in ({"activation": "relu"}, {"layer": "RNN"}, {"use_bias": False}):
        assert found(recurrent(**changes)) == {}
    assert found(recurrent(recurrent_dropout=0.2, units=256), backend="jax") == {}


def test_settings_that_cost_something_on_a_cpu_are_mentioned_there():
    assert "recurrent_dropout=0.2" in found(recurrent(recurrent_dropout=0.2))["unfused-recurrent"].says
    on_torch = found(recurrent(layer="RNN"), backend="torch")["unfused-recurrent"]
    assert "RNN(LSTMCell(…))" in on_torch.says
    assert "layers.LSTM(32)" in on_torch.remedy


def embedding(**changes):
    table = {"name": "words", "rows": 300_000, "width": 32, "bytes": 38_400_000, "reads": 1280}
    return {"fact": "embedding", **table, "optimizer": "Adam", "decides": {}, "where": LAYER, **changes}


MEMORY = {"fact": "memory", "seconds_per_byte": 0.07e-9}


def test_a_large_table_whose_every_row_is_changed_is_named():
    finding = found(MEMORY, embedding(), step=16.0)["dense-embedding-update"]
    assert (
        finding.says == "Adam changes all 300,000 rows of words in every step, of which a batch uses at most 1,280."
    )
    assert finding.where == LAYER
    assert "SGD" in finding.remedy


@pytest.mark.parametrize(
    "changes",
    [{"optimizer": "SGD"}, {"rows": 4000, "bytes": 512_000}, {"reads": 100_000}, {"optimizer": "Mine"}],
    ids=["rows of the batch alone", "small", "most rows are used", "unknown optimizer"],
)
def test_other_tables_are_not_mentioned(changes):
    assert found(MEMORY, embedding(**changes), step=16.0) == {}


def test_nothing_is_said_of_a_table_where_memory_was_not_measured_or_is_another_one():
    assert found(embedding()) == {}
    assert found(MEMORY, embedding(), device="gpu") == {}


SEQUENCES = {"fact": "sequences", "embeds": True, "lengths": [500], "share": 0.98}


def padding(**changes):
    looked = {"fact": "padding", "length": 500, "features": False, "rows": 256, "side": "after"}
    return {**looked, "mean": 31.5, "p95": 57, "most": 180, **changes}


def test_rows_that_are_mostly_padding_are_named():
    finding = found(SEQUENCES, padding())["overlong-sequence"]
    assert finding.says == "Sequences are padded to 500, and on average 31.5 of that is content."
    assert "maxlen=64" in finding.remedy
    assert finding.estimated.low > 2


def test_a_few_long_rows_among_short_ones_need_buckets():
    finding = found(SEQUENCES, padding(mean=60, p95=450, most=500))["overlong-sequence"]
    assert "maxlen" not in finding.remedy
    assert "bucket" in finding.remedy


@pytest.mark.parametrize(
    ("sequences", "rows"),
    [
        ({}, {"mean": 290, "p95": 480}),
        ({}, {"mean": 190, "p95": 450}),
        ({}, {"length": 80, "mean": 6, "p95": 10}),
        ({"share": 0.1}, {}),
        ({"embeds": False}, {}),
    ],
    ids=["half full", "long tail", "another input", "little along the sequence", "no words"],
)
def test_other_sequences_are_not_mentioned(sequences, rows):
    assert found({**SEQUENCES, **sequences}, padding(**rows)) == {}


def test_rows_of_features_may_be_padded_too():
    assert "overlong-sequence" in found({**SEQUENCES, "embeds": False}, padding(features=True))


class TestPadding:
    @pytest.fixture(autouse=True)
    def looking(self, monkeypatch):
        from fitscope.observe import padding

        self.facts = []
        monkeypatch.setattr(padding, "_seen", {})
        monkeypatch.setattr(padding, "_batches", {})
        monkeypatch.setattr(padding, "recorder", SimpleNamespace(fact=lambda kind, **what: self.facts.append(what)))
        self.padding = padding

    @pytest.fixture
    def numpy(self):
        return pytest.importorskip("numpy")

    def test_content_is_told_from_padding_at_either_end(self, numpy):
        words = numpy.zeros((64, 100), "int32")
        words[:, -20:] = 7
        self.padding.given(1, [words])
        assert (self.facts[-1]["mean"], self.facts[-1]["most"], self.facts[-1]["side"]) == (20, 20, "before")
        self.padding.given(2, {"words": words[:, ::-1] + 3})
        assert (self.facts[-1]["mean"], self.facts[-1]["side"]) == (20, "after")

    def test_rows_of_features_are_padded_where_all_of_them_are(self, numpy):
        frames = numpy.ones((8, 50, 3), "float32")
        frames[:, 10:] = 0
        frames[:, 5, 1] = 0
        self.padding.given(1, frames)
        assert (self.facts[-1]["mean"], self.facts[-1]["features"]) == (10, True)

    def test_a_few_batches_are_looked_at_and_arrays_once(self, numpy):
        words = numpy.ones((4, 20), "int32")
        words[0, 3] = 5
        for _ in range(9):
            self.padding.fetched(1, (words, None))
        assert len(self.facts) == self.padding.BATCHES
        self.padding.given(2, words)
        self.padding.fetched(2, (words, None))
        assert [fact["root"] for fact in self.facts].count(2) == 1

    @pytest.mark.parametrize("data", [None, "text", 3, [], (object(),)])
    def test_other_data_is_left_alone(self, data, numpy):
        self.padding.given(1, data)
        self.padding.fetched(1, data)
        self.padding.given(3, numpy.zeros((4, 20)))
        self.padding.given(4, numpy.zeros((4, 20, 3, 3), "float32"))
        assert self.facts == []
        assert "numpy" in sys.modules
