"""The streaming metrics say what scikit-learn says of the same predictions."""

import itertools
import warnings

import keras
import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.exceptions import UndefinedMetricWarning

from fitscope.metrics import AUC, ConfusionMatrix, F1Score, Precision, Recall

BACKEND = keras.backend.backend()
RATES = [(Precision, sk.precision_score), (Recall, sk.recall_score), (F1Score, sk.f1_score)]
AVERAGES = ["macro", "micro", "weighted", None]
pytestmark = pytest.mark.shared


def number(value):
    return keras.ops.convert_to_numpy(value)


def fed(metric, truth, scores, weights=None, batch=32):
    """A metric that has seen the examples in batches."""
    for start in range(0, len(truth), batch):
        part = slice(start, start + batch)
        metric.update_state(truth[part], scores[part], None if weights is None else weights[part])
    return metric


def random_case(seed, classes, examples=96):
    """Labels and scores with classes that never occur, ties, batches of one class, and scores of very uneven use."""
    rng = np.random.default_rng(seed)
    used = rng.permutation(classes)[: rng.integers(1, classes + 1)]
    truth = rng.choice(used, size=examples, p=rng.dirichlet(np.ones(len(used))))
    if seed % 3 == 0:
        truth = np.sort(truth)
    scores = rng.normal(size=(examples, classes)).astype("float32")
    scores[np.arange(examples), truth] += rng.normal()
    scores[:, rng.integers(classes)] -= 3
    return truth, (np.round(scores) if seed % 2 else scores)


def sklearn_rate(function, truth, predicted, **options):
    return function(truth, predicted, zero_division=0, **options)


def test_the_rates_of_several_classes_are_those_of_scikit_learn():
    for seed in range(8):
        classes = (3, 2, 5)[seed % 3]
        truth, scores = random_case(seed, classes)
        for (metric, function), average in itertools.product(RATES, AVERAGES):
            labels = {"labels": range(classes)} if average is None else {}
            expected = sklearn_rate(function, truth, scores.argmax(1), average=average, **labels)
            batch = 32 if metric is F1Score else 96
            found = number(fed(metric(average=average), truth, scores, batch=batch).result())
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_the_rates_of_two_classes_are_those_of_scikit_learn():
    for seed, threshold in itertools.product(range(3), (0.5, 0.2)):
        truth, scores = random_case(seed, 2)
        logits = (scores[:, 1] - scores[:, 0]) / 3
        chances = (1 / (1 + np.exp(-logits))).astype("float32")
        for (metric, function), average in itertools.product(RATES, ["binary", *AVERAGES]):
            labels = {"labels": [0, 1]} if average is None else {}
            expected = sklearn_rate(function, truth, chances > threshold, average=average, **labels)
            by_logits = seed % 2 == 1 and threshold == 0.5
            metric_ = metric(average=average, threshold=threshold, from_logits=by_logits)
            found = number(fed(metric_, truth, logits if by_logits else chances, batch=96).result())
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_labels_may_be_written_in_several_ways():
    truth, scores = random_case(1, 3)
    expected = sk.confusion_matrix(truth, scores.argmax(1), labels=range(3))
    one_hot = np.eye(3)[truth]
    for labels in (truth, truth[:, None], truth.astype("float32"), truth.astype("uint8"), one_hot, one_hot > 0):
        assert (number(fed(ConfusionMatrix(), labels, scores).result()) == expected).all()
    truth, column = truth > 0, scores[:, 0]
    expected = sk.confusion_matrix(truth, column > 0.5)
    for labels, one in itertools.product((truth, truth[:, None], truth * 1.0), (column, column[:, None])):
        assert (number(fed(ConfusionMatrix(), labels, one).result()) == expected).all()


def test_weights_count_as_they_do_in_scikit_learn():
    for seed in range(3):
        truth, scores = random_case(seed, 4)
        weights = np.random.default_rng(seed).uniform(0.1, 3, len(truth)).astype("float32")
        for (metric, function), average in itertools.product(RATES, ["macro", "micro", "weighted"]):
            expected = sklearn_rate(function, truth, scores.argmax(1), average=average, sample_weight=weights)
            found = number(fed(metric(average=average), truth, scores, weights, batch=96).result())
            np.testing.assert_allclose(found, expected, rtol=2e-6)
        expected = sk.confusion_matrix(truth, scores.argmax(1), sample_weight=weights, labels=range(4))
        found = number(fed(ConfusionMatrix(), truth, scores, weights[:, None]).result())
        np.testing.assert_allclose(found, expected, rtol=2e-6)


def test_the_confusion_matrix_is_that_of_scikit_learn():
    for seed in range(6):
        classes = 2 + 10 * (seed % 2)
        truth, scores = random_case(seed, classes)
        expected = sk.confusion_matrix(truth, scores.argmax(1), labels=range(classes))
        assert (number(fed(ConfusionMatrix(), truth, scores).result()) == expected).all()


def test_images_and_sequences_count_every_pixel_and_token():
    rng = np.random.default_rng(3)
    truth, scores = rng.integers(0, 3, (4, 5, 6)), rng.normal(size=(4, 5, 6, 3)).astype("float32")
    expected = sk.confusion_matrix(truth.ravel(), scores.argmax(-1).ravel())
    for shape in (truth, truth[..., None], np.eye(3)[truth]):
        assert (number(fed(ConfusionMatrix(), shape, scores, batch=2).result()) == expected).all()
    weights = np.array([1.0, 0.0, 0.0, 2.0], "float32")
    expected = sk.confusion_matrix(truth.ravel(), scores.argmax(-1).ravel(), sample_weight=weights.repeat(30))
    assert (number(fed(ConfusionMatrix(), truth, scores, weights).result()) == expected).all()


def test_nothing_is_lost_after_many_examples():
    many = 2**24 + 1
    for weight in (None, np.ones(1, "float32")):
        metric = ConfusionMatrix()
        metric.update_state([1], [0.9], weight)
        start = np.array([many, 1, 1, many, 0])
        if weight is None:
            metric._counts.assign(start)
        else:
            metric._sums.assign([2.0**24, 1, 1, 2**24, 0])
            metric._rests.assign([1.0, 0, 0, 1, 0])
        for _ in range(5):
            metric.update_state([1, 0], [0.9, 0.1], None if weight is None else np.ones(2, "float32"))
        cells = metric._whole() if weight is None else metric._weighted()
        total = number(cells).astype("float64") if weight is None or BACKEND != "jax" else exact_sum(metric)
        assert total.tolist() == [many + 5, 1, 1, many + 5]


def exact_sum(metric):
    return number(metric._sums)[:-1].astype("float64") + number(metric._rests)[:-1]


def scores_of_kind(kind, rng, truth):
    spread = rng.normal(size=len(truth)) + truth
    if kind == "calibrated":
        return 1 / (1 + np.exp(-spread))
    if kind == "crowded at the ends":
        return 1 / (1 + np.exp(-8 * spread))
    if kind == "tiny":
        return 1e-7 / (1 + np.exp(-4 * spread))
    if kind == "all but one":
        return 1 - 1e-6 / (1 + np.exp(4 * spread))
    return np.round(1 / (1 + np.exp(-spread)), 1)


@pytest.mark.parametrize("kind", ["calibrated", "crowded at the ends", "tiny", "all but one", "tied"])
def test_the_area_is_that_of_scikit_learn_within_the_stated_bound(kind):
    for seed in (0, 3):
        rng = np.random.default_rng(seed)
        truth = (rng.random(3072) < (0.5, 0.02)[seed % 2]).astype("int32")
        truth[:2] = [0, 1]
        scores = scores_of_kind(kind, rng, truth).astype("float32")
        weights = rng.uniform(0.1, 2, len(truth)).astype("float32") if seed else None
        metric = fed(AUC(), truth, scores, weights, batch=1024)
        exact = sk.roc_auc_score(truth, scores, sample_weight=weights)
        bound = float(number(metric.uncertainty()))
        assert abs(float(number(metric.result())) - exact) <= bound + 1e-6
        assert abs(float(number(metric.result())) - exact) < (1e-2 if kind == "tiny" else 5e-4)
        # Pairs of equal scores are in the bound, too.
        assert bound < {"tied": 0.1, "all but one": 0.1, "tiny": 0.03}.get(kind, 0.01)


@pytest.mark.parametrize("average", ["macro", "weighted", "micro", None])
def test_the_areas_of_several_classes_are_those_of_scikit_learn(average):
    rng = np.random.default_rng(4)
    truth = rng.choice(4, 2048, p=[0.4, 0.3, 0.25, 0.05])
    logits = (rng.normal(size=(2048, 4)) + 2 * np.eye(4)[truth]).astype("float32")
    scores = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    weights = rng.uniform(0.1, 2, 2048).astype("float32")
    for metric, given, weight in [
        (AUC(average=average), scores, None),
        (AUC(average=average), scores, weights),
        (AUC(average=average, from_logits=True), logits, None),
    ]:
        fed(metric, truth, given, weight, batch=512)
        exact = sk.roc_auc_score(truth, scores, multi_class="ovr", average=average, sample_weight=weight)
        difference = np.abs(number(metric.result()) - exact)
        assert np.shape(difference) == np.shape(exact)
        assert (difference <= number(metric.uncertainty()) + 1e-6).all()
        assert (difference < 5e-4).all()
    # A class that never occurs has no area.
    without = fed(AUC(average=average), np.minimum(truth, 2), scores, batch=512)
    assert np.isnan(number(without.result())).any() == (average != "micro")


def test_two_columns_that_sum_to_one_have_the_area_of_the_second():
    rng = np.random.default_rng(5)
    truth, scores = rng.integers(0, 2, 1000), rng.random(1000).astype("float32")
    both = np.stack([1 - scores, scores], axis=1)
    areas = [number(fed(AUC(), truth, given, batch=500).result()) for given in (scores, both)]
    assert areas[0] == pytest.approx(areas[1], abs=1e-4)


def test_more_bits_make_the_bound_narrower():
    rng = np.random.default_rng(0)
    truth, scores = rng.integers(0, 2, 3000), rng.random(3000).astype("float32")
    bounds = [float(number(fed(AUC(bits=bits), truth, scores, batch=3000).uncertainty())) for bits in (4, 8, 12)]
    assert bounds[0] > 8 * bounds[1] > 64 * bounds[2] > 0


def test_the_area_of_logits_is_that_of_the_scores_as_they_are():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 2000)
    for scale in (1e-4, 1.0, 30.0, 1e6):
        logits = ((rng.normal(size=2000) + truth) * scale).astype("float32")
        logits[:4] = [np.inf, -np.inf, 0, -0.0]
        metric = fed(AUC(from_logits=True), truth, logits, batch=500)
        exact = sk.roc_auc_score(truth, np.clip(logits, -1e30, 1e30))
        assert abs(float(number(metric.result())) - exact) <= float(number(metric.uncertainty())) + 1e-6
        assert float(number(metric.uncertainty())) < 0.02


def test_the_buckets_are_in_the_order_of_the_scores_and_the_same_from_both_ends():
    rng = np.random.default_rng(2)
    half = np.sort(np.concatenate([rng.random(500) / 2, 2.0 ** -rng.uniform(1, 24, 500)])).astype("float32")
    scores = np.concatenate([half, 1 - half[::-1]]).astype("float32")
    metric, found = AUC(bits=5), []
    for score in [0.0, *scores[::40], 1.0]:
        metric.reset_state()
        metric.update_state([1], [np.float32(score)])
        found.append(int(number(metric._whole()).argmax()))
    assert found == sorted(found)
    first, last = found[0], found[-1]
    assert (first, last) == (2 * metric._half, 4 * metric._half - 1)


def test_an_area_needs_both_classes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        assert np.isnan(sk.roc_auc_score([1, 1], [0.1, 0.2]))
    metric = AUC()
    assert np.isnan(number(metric.result()))
    metric.update_state([1, 1], [0.1, 0.2])
    assert np.isnan(number(metric.result()))
    metric.update_state([0], [0.15])
    assert number(metric.result()) == 0.5


@pytest.mark.parametrize(
    ("metric", "truth", "scores"),
    [
        (F1Score(), [0, 2], [0.1, 0.9]),
        (F1Score(), [0, -1], [0.1, 0.9]),
        (F1Score(), [0.0, 0.5], [0.1, 0.9]),
        (F1Score(), [0, 1], [0.1, np.nan]),
        (F1Score(average="macro"), [0, 3], np.eye(3)[:2]),
        (F1Score(average="macro"), [0, -1], np.eye(3)[:2]),
        (F1Score(average="macro"), [[1, 1, 0], [0, 0, 0]], np.eye(3)[:2]),
        (F1Score(average="macro"), [0, 1], np.full((2, 3), np.nan)),
        (AUC(), [0, 1], [0.1, 1.5]),
        (AUC(), [0, 1], [-0.1, 0.5]),
        (AUC(), [0, 2], [0.1, 0.5]),
        (AUC(from_logits=True), [0, 1], [0.1, np.nan]),
        (AUC(), [0, 1], [[1.5, -0.5], [0, 1]]),
        (AUC(), [0, 2], [[1, 0], [0, 1]]),
    ],
)
def test_what_cannot_be_right_gives_no_number(metric, truth, scores):
    metric.reset_state()
    truth, scores = np.array(truth, "float32"), np.array(scores, "float32")
    metric.update_state(truth, scores)
    assert np.isnan(number(metric.result()))
    metric.reset_state()
    metric.update_state(truth, scores, np.zeros(2, "float32"))
    good = ([0, 1], np.eye(scores.shape[1])[:2] if scores.ndim == 2 else [0.1, 0.9])
    metric.update_state(np.array(good[0], "float32"), np.array(good[1], "float32"), np.ones(2, "float32"))
    assert number(metric.result()) == 1


@pytest.mark.parametrize(
    ("metric", "truth", "scores", "sentence"),
    [
        (F1Score(), (4,), (4, 3), "with average='binary' is for two classes, and the model has 3 outputs"),
        (F1Score(average="macro"), (4, 2), (4, 3), r"must be \(4,\) or \(4, 1\) or \(4, 3\)"),
        (F1Score(), (5,), (4, 1), r"must be \(4, 1\) or \(4,\)"),
        (F1Score(), (4, 2), (4, 1), r"labels of shape \(4, 2\)"),
        (AUC(), (4, 2), (4, 3), r"must be \(4,\) or \(4, 1\) or \(4, 3\)"),
        (fed(AUC(), np.zeros(4), np.zeros(4), batch=4), (4,), (4, 3), "has counted 1 columns so far"),
    ],
)
def test_wrong_shapes_are_refused_with_a_sentence(metric, truth, scores, sentence):
    with pytest.raises(ValueError, match=sentence):
        metric.update_state(np.zeros(truth, "float32"), np.zeros(scores, "float32"))


def test_wrong_arguments_are_refused_with_a_sentence():
    with pytest.raises(ValueError, match="`average` is one of 'binary'"):
        F1Score(average="samples")
    with pytest.raises(ValueError, match="`threshold` is a probability"):
        Recall(threshold=1.5)
    with pytest.raises(ValueError, match="`bits` is a number from 4 to 14"):
        AUC(bits=30)
    with pytest.raises(ValueError, match="`average` is one of 'macro', 'micro', 'weighted', None, not 'binary'"):
        AUC(average="binary")
    with pytest.raises(ValueError, match="has seen no example yet"):
        F1Score().result()
    metric = fed(ConfusionMatrix(), [0, 1], np.eye(2))
    with pytest.raises(ValueError, match="has counted 2 classes so far, and now there are 3"):
        metric.update_state([0, 1], np.eye(3)[:2])


X = np.random.default_rng(0).normal(size=(48, 5)).astype("float32")
BINARY = (X.sum(1) + np.random.default_rng(1).normal(size=48) > 0).astype("int32")
SEVERAL = (BINARY + (X[:, 0] > 0.5)).astype("int32")


def model_for(classes, **options):
    keras.utils.set_random_seed(3)
    activation = "sigmoid" if classes == 1 else "softmax"
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(classes, activation=activation)])
    if classes == 1:
        metrics = [F1Score(), AUC(), ConfusionMatrix()]
        model.compile("sgd", "binary_crossentropy", metrics=metrics, **options)
    else:
        metrics = [F1Score(average="macro"), F1Score(average=None, name="each"), ConfusionMatrix()]
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=metrics, **options)
    return model


WAYS = {
    "compiled": {"jit_compile": True},
    "not compiled": {"jit_compile": False},
    "eager": {"run_eagerly": True},
    "several steps at once": {"steps_per_execution": 3},
}


@pytest.mark.parametrize("way", WAYS)
def test_validation_logs_are_what_predict_and_scikit_learn_give(way):
    if BACKEND == "torch" and way in ("compiled", "several steps at once"):
        pytest.skip("Keras on torch takes one step at a time, and its compiler takes minutes")
    model = model_for(1, **WAYS[way])
    history = model.fit(X, BINARY, batch_size=16, epochs=2, validation_data=(X, BINARY), verbose=0).history
    scores = model.predict(X, verbose=0)[:, 0]
    last = {name: values[-1] for name, values in history.items()}
    assert last["val_f1_score"] == pytest.approx(sk.f1_score(BINARY, scores > 0.5), rel=1e-6)
    assert last["val_auc"] == pytest.approx(sk.roc_auc_score(BINARY, scores), abs=2e-3)
    assert (last["val_confusion_matrix"] == sk.confusion_matrix(BINARY, scores > 0.5)).all()
    assert last["confusion_matrix"].sum() == 48


def test_several_classes_and_the_progress_bar_and_a_metric_of_several_numbers(capsys):
    model = model_for(3)
    history = model.fit(X, SEVERAL, batch_size=16, validation_data=(X, SEVERAL), verbose=1).history
    predicted = model.predict(X, verbose=0).argmax(1)
    assert history["val_f1_score"] == pytest.approx([sk.f1_score(SEVERAL, predicted, average="macro")], rel=1e-6)
    expected = sk.f1_score(SEVERAL, predicted, average=None, labels=range(3), zero_division=0)
    np.testing.assert_allclose(history["val_each"][0], expected, rtol=1e-6)
    assert "val_f1_score" in capsys.readouterr().out


def test_sample_weights_of_fit_and_evaluate_reach_weighted_metrics():
    weights = np.random.default_rng(5).uniform(0.5, 2, 48).astype("float32")
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile("sgd", "binary_crossentropy", weighted_metrics=[F1Score(), AUC()])
    model.fit(X, BINARY, sample_weight=weights, class_weight=None, verbose=0)
    found = model.evaluate(X, BINARY, sample_weight=weights, verbose=0, return_dict=True)
    scores = model.predict(X, verbose=0)[:, 0]
    assert found["f1_score"] == pytest.approx(sk.f1_score(BINARY, scores > 0.5, sample_weight=weights), rel=1e-5)
    assert found["auc"] == pytest.approx(sk.roc_auc_score(BINARY, scores, sample_weight=weights), abs=2e-3)


def test_a_monitor_knows_that_more_is_better():
    stop = keras.callbacks.EarlyStopping(monitor="val_f1_score", patience=1, mode="auto")
    model_for(1).fit(X, BINARY, epochs=2, validation_data=(X, BINARY), callbacks=[stop], verbose=0)
    assert stop.monitor_op.__name__ == "greater"


@pytest.mark.parametrize(
    "metric",
    [
        Precision(average="macro", threshold=0.3, name="p"),
        Recall(average=None),
        F1Score(from_logits=True),
        AUC(bits=6, from_logits=True),
        AUC(average="weighted"),
        ConfusionMatrix(threshold=0.1),
    ],
    ids=lambda metric: metric.name,
)
def test_a_metric_comes_back_from_its_config(metric):
    again = type(metric).from_config(metric.get_config())
    assert again.get_config() == metric.get_config()
    once_more = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(metric))
    assert once_more.get_config() == metric.get_config()


def test_a_model_is_saved_and_loaded_with_its_metrics(tmp_path):
    model = model_for(3)
    model.fit(X, SEVERAL, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    found, expected = (each.evaluate(X, SEVERAL, verbose=0, return_dict=True) for each in (loaded, model))
    assert found.keys() == expected.keys()
    assert found["f1_score"] == expected["f1_score"]


def test_it_begins_anew_after_a_reset():
    metric = fed(F1Score(), BINARY, X[:, 0])
    metric.reset_state()
    metric.update_state([1, 0], [0.9, 0.9])
    assert float(number(metric.result())) == pytest.approx(2 / 3)
