"""Streaming metrics with scikit-learn's results, counted from batches that training and validation compute anyway.

In `compile(metrics=[...])` they replace the callback that calls `predict` on the validation data and hands the
predictions to scikit-learn: `val_f1_score` and the like are in the logs, at the price of a few sums per batch.

>>> import keras, numpy, fitscope
>>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, activation="sigmoid")])
>>> model.compile("adam", "binary_crossentropy", metrics=[fitscope.metrics.F1Score(), fitscope.metrics.AUC()])
>>> x, y = numpy.eye(3)[[0, 1, 2, 0]], numpy.array([1, 0, 0, 1])
>>> history = model.fit(x, y, validation_data=(x, y), verbose=0).history
>>> sorted(history)
['auc', 'f1_score', 'loss', 'val_auc', 'val_f1_score', 'val_loss']

What all of them have in common:

- The scores are one column (binary: the score of class 1) or one column per class, of which the largest counts.
  The labels are the classes' numbers, with or without a last axis of length one, or one-hot rows. There may be more
  axes before the last one (pixels, tokens).
- Sample weights count where Keras hands them over, in `compile(weighted_metrics=[...])`.
- Examples are counted in integers: nothing is lost in long epochs. (On JAX up to 2**31 for each cell.)
- Where the labels or scores cannot be right (a label that is no class, one-hot rows that do not sum to one, a score
  that is not a number), the result is NaN rather than a wrong number. Examples of weight zero may hold anything.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import keras
from keras import ops

Average = Literal["binary", "macro", "micro", "weighted"] | None

_AVERAGES = ("binary", "macro", "micro", "weighted", None)
_BLOCK = 64


class _Tally(keras.metrics.Metric):  # type: ignore[misc]
    """Counts examples in cells: whole ones in integers, weighted ones in sums that keep what rounding takes away."""

    _direction = "up"

    def __init__(self, name: str, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self._cells = 0

    def _make_cells(self, number: int) -> None:
        """One cell more than asked for takes the examples that cannot be right."""
        self._counts = self.add_variable((number + 1,), "zeros", dtype=_count_dtype(), name="counts")
        self._sums = self.add_variable((number + 1,), "zeros", dtype="float32", name="sums")
        self._rests = self.add_variable((number + 1,), "zeros", dtype="float32", name="rests")
        self._cells = number

    def _count(self, cell: Any, right: Any, weight: Any) -> None:
        cell = ops.cast(ops.where(right, cell, self._cells), "int32")
        if weight is None:
            ones = ops.ones_like(cell, dtype=self._counts.dtype)
            self._counts.assign(self._counts + _sum_by_cell(ones, cell, self._cells + 1))
            return
        new = _sum_by_cell(weight, cell, self._cells + 1)
        # Knuth's sum of two floats and its exact rounding error.
        sums = self._sums + new
        part = sums - self._sums
        self._rests.assign(self._rests + ((self._sums - (sums - part)) + (new - part)))
        self._sums.assign(sums)

    def _whole(self) -> Any:
        """How many unweighted examples are in each cell, as integers."""
        return self._counts[:-1]

    def _weighted(self) -> Any:
        """The weights of the weighted examples in each cell."""
        wide = _wide_dtype()
        return ops.cast(self._sums[:-1], wide) + ops.cast(self._rests[:-1], wide)

    def _unless_wrong(self, result: Any) -> Any:
        """The result as Keras wants it, or NaN if there were examples that cannot be right or too many."""
        wrong = ops.logical_or(self._counts[-1] != 0, self._sums[-1] != 0)
        wrong = ops.logical_or(wrong, ops.any(self._counts < 0))
        return ops.cast(ops.where(wrong, math.nan, result), "float32")

    def _require_cells(self) -> None:
        if not self._cells:
            raise ValueError(
                f"{self.name} has seen no example yet: call `update_state` before asking for its result."
            )


class _Predictions(_Tally):
    """Counts how often each class was predicted for each class."""

    def __init__(self, name: str, threshold: float, from_logits: bool, dtype: Any) -> None:
        super().__init__(name, dtype)
        if not 0 <= threshold <= 1:
            raise ValueError(f"`threshold` is a probability, from 0 to 1, not {threshold}.")
        self.threshold = threshold
        self.from_logits = from_logits
        self._classes = 0

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Counts one batch."""
        y_true, y_pred = _tensors(y_true, y_pred)
        classes = _classes(y_true, y_pred, self.name)
        if not self._cells:
            self._check_classes(classes)
            self._classes = classes
            self._make_cells(classes * classes)
        elif classes != self._classes:
            raise ValueError(f"{self.name} has counted {self._classes} classes so far, and now there are {classes}.")
        weight = _weight(sample_weight, y_pred)
        if len(y_pred.shape) > 1 and y_pred.shape[-1] > 1:
            truth, right = _class_numbers(y_true, y_pred)
            # Keras takes -0.0 for less than 0.0; NumPy, and so scikit-learn's users, for the same.
            predicted = ops.argmax(ops.where(y_pred == 0, ops.zeros_like(y_pred), y_pred), axis=-1)
            predicted = ops.reshape(predicted, (-1,))
            right = ops.logical_and(right, ops.reshape(ops.all(_is_number(y_pred), axis=-1), (-1,)))
        else:
            truth, scores = ops.reshape(y_true, (-1,)), ops.reshape(y_pred, (-1,))
            right = ops.logical_and(ops.logical_or(truth == 0, truth == 1), _is_number(scores))
            predicted = scores > self._threshold_of_scores()
        cell = ops.cast(truth, "int32") * classes + ops.cast(predicted, "int32")
        self._count(cell, right, weight)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another one like this."""
        return {**super().get_config(), "threshold": self.threshold, "from_logits": self.from_logits}

    def _threshold_of_scores(self) -> float:
        if not self.from_logits:
            return self.threshold
        if self.threshold in (0, 1):
            return math.inf if self.threshold else -math.inf
        return math.log(self.threshold / (1 - self.threshold))

    def _check_classes(self, classes: int) -> None:
        pass

    def _matrix(self) -> Any:
        self._require_cells()
        cells = ops.cast(self._whole(), _wide_dtype()) + self._weighted()
        return ops.reshape(cells, (self._classes, self._classes))


@keras.saving.register_keras_serializable("fitscope")
class ConfusionMatrix(_Predictions):
    """How many examples of a class (row) were taken for a class (column), as `sklearn.metrics.confusion_matrix`.

    The result is a matrix. Keras puts it into the logs as it is, so `history["val_confusion_matrix"]` has one per
    epoch; the progress bar shows its mean. The classes that never occur have rows of zeros, too.

    >>> matrix = ConfusionMatrix()
    >>> matrix.update_state([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> [[int(number) for number in row] for row in matrix.result()]
    [[1, 0], [1, 1]]
    """

    def __init__(
        self, threshold: float = 0.5, from_logits: bool = False, name: str = "confusion_matrix", dtype: Any = None
    ) -> None:
        super().__init__(name, threshold, from_logits, dtype)

    def result(self) -> Any:
        """The matrix, rows for the true classes."""
        return self._unless_wrong(self._matrix())


class _Rate(_Predictions):
    """A rate of each class, and scikit-learn's ways to make one number of them."""

    def __init__(self, average: Average, threshold: float, from_logits: bool, name: str, dtype: Any) -> None:
        super().__init__(name, threshold, from_logits, dtype)
        if average not in _AVERAGES:
            raise ValueError(f"`average` is one of {', '.join(map(repr, _AVERAGES))}, not {average!r}.")
        self.average = average

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another one like this."""
        return {**super().get_config(), "average": self.average}

    def result(self) -> Any:
        """The rate, or with `average=None` the rates of all classes."""
        matrix = self._matrix()
        hits, predicted, actual = ops.diagonal(matrix), ops.sum(matrix, axis=0), ops.sum(matrix, axis=1)
        if self.average == "micro":
            rate = _share(*self._shares(ops.sum(hits), ops.sum(predicted), ops.sum(actual)))
            return self._unless_wrong(rate)
        rates = _share(*self._shares(hits, predicted, actual))
        if self.average == "binary":
            rates = rates[1]
        elif self.average == "macro":
            present = ops.cast(predicted + actual > 0, rates.dtype)
            rates = _share(ops.sum(rates), ops.sum(present))
        elif self.average == "weighted":
            rates = _share(ops.sum(rates * actual), ops.sum(actual))
        return self._unless_wrong(rates)

    def _shares(self, hits: Any, predicted: Any, actual: Any) -> tuple[Any, Any]:
        """Numerator and denominator of the rate."""
        raise NotImplementedError

    def _check_classes(self, classes: int) -> None:
        if self.average == "binary" and classes != 2:
            raise ValueError(
                f"{self.name} with average='binary' is for two classes, and the model has {classes} outputs: "
                "pass average='macro', 'micro', 'weighted' or None."
            )


@keras.saving.register_keras_serializable("fitscope")
class Precision(_Rate):
    """The share of right ones among the examples taken for a class, as `sklearn.metrics.precision_score`.

    `average` has scikit-learn's meaning: "binary" (class 1 of two), "macro" (mean over the classes that occur among
    labels or predictions), "micro", "weighted" (by the labels of each class), or None: one rate per class, 0 for
    those that never occur. A class never predicted has precision 0 (`zero_division=0`).

    Binary scores above `threshold` count as class 1; with `from_logits=True` the scores are logits.

    >>> precision = Precision()
    >>> precision.update_state([1, 0, 1, 1], [0.9, 0.8, 0.7, 0.1])
    >>> round(float(precision.result()), 4)
    0.6667
    """

    def __init__(
        self,
        average: Average = "binary",
        threshold: float = 0.5,
        from_logits: bool = False,
        name: str = "precision",
        dtype: Any = None,
    ) -> None:
        super().__init__(average, threshold, from_logits, name, dtype)

    def _shares(self, hits: Any, predicted: Any, actual: Any) -> tuple[Any, Any]:
        return hits, predicted


@keras.saving.register_keras_serializable("fitscope")
class Recall(_Rate):
    """The share of a class's examples that were found, as `sklearn.metrics.recall_score`.

    The arguments are those of `Precision`. A class without examples has recall 0 (`zero_division=0`).

    >>> recall = Recall(average="macro")
    >>> recall.update_state([0, 2, 1], [[0.9, 0.1, 0.0], [0.2, 0.1, 0.7], [0.8, 0.1, 0.1]])
    >>> round(float(recall.result()), 4)
    0.6667
    """

    def __init__(
        self,
        average: Average = "binary",
        threshold: float = 0.5,
        from_logits: bool = False,
        name: str = "recall",
        dtype: Any = None,
    ) -> None:
        super().__init__(average, threshold, from_logits, name, dtype)

    def _shares(self, hits: Any, predicted: Any, actual: Any) -> tuple[Any, Any]:
        return hits, actual


@keras.saving.register_keras_serializable("fitscope")
class F1Score(_Rate):
    """The harmonic mean of precision and recall, as `sklearn.metrics.f1_score`.

    The arguments are those of `Precision`. A class that never occurs has 0 (`zero_division=0`).

    >>> f1 = F1Score(from_logits=True)
    >>> f1.update_state([1, 0, 1, 1], [3.0, 0.2, 1.5, -2.0])
    >>> round(float(f1.result()), 4)
    0.6667
    """

    def __init__(
        self,
        average: Average = "binary",
        threshold: float = 0.5,
        from_logits: bool = False,
        name: str = "f1_score",
        dtype: Any = None,
    ) -> None:
        super().__init__(average, threshold, from_logits, name, dtype)

    def _shares(self, hits: Any, predicted: Any, actual: Any) -> tuple[Any, Any]:
        return 2 * hits, predicted + actual


@keras.saving.register_keras_serializable("fitscope")
class AUC(_Tally):
    """The area under the ROC curve, as `sklearn.metrics.roc_auc_score` up to a bound that it states.

    The exact area needs all scores. This one needs memory for a fixed number of buckets: they are as fine in relation
    to `s` near 0 as they are in relation to `1 - s` near 1 (`2**bits` for each power of two), so scores crowded at
    the ends stay apart. Only pairs of a positive and a negative example in the same bucket are in doubt, and count
    one half: `uncertainty()` says how much the exact area can differ at most on their account. It differs far less
    as a rule, because the pairs' errors cancel out, and not at all if the scores of a bucket are equal.

    Scores in one column are binary. Of several columns each class is set against all others (`multi_class="ovr"`),
    and `average` says what becomes of the areas: "macro" (their mean), "weighted" (by the labels of each class),
    "micro" (all columns taken as one), or None: one area per class. Each class takes 240 kB; where there are
    hundreds, `bits=4` makes that 50 kB.

    Scores are probabilities. With `from_logits=True` a single column can hold any numbers, and several columns go
    through a softmax first. Without examples of both classes, or with a class that never occurs, the area is NaN.

    >>> auc = AUC()
    >>> auc.update_state([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> float(auc.result()), float(auc.uncertainty())
    (0.75, 0.0)
    >>> auc = AUC(average=None)
    >>> auc.update_state([0, 1, 2, 2], [[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6], [0.1, 0.7, 0.2]])
    >>> [round(float(area), 4) for area in auc.result()]
    [1.0, 0.6667, 0.75]
    """

    def __init__(
        self,
        bits: int = 7,
        from_logits: bool = False,
        name: str = "auc",
        dtype: Any = None,
        average: Literal["macro", "micro", "weighted"] | None = "macro",
    ) -> None:
        super().__init__(name, dtype)
        if bits not in range(4, 15):
            raise ValueError(f"`bits` is a number from 4 to 14, not {bits}.")
        if average not in _AVERAGES[1:]:
            raise ValueError(f"`average` is one of {', '.join(map(repr, _AVERAGES[1:]))}, not {average!r}.")
        self.bits = bits
        self.from_logits = from_logits
        self.average = average
        self._columns = 0

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Counts one batch."""
        y_true, y_pred = _tensors(y_true, y_pred)
        _classes(y_true, y_pred, self.name)
        columns = y_pred.shape[-1] if len(y_pred.shape) > 1 else 1
        if not self._cells:
            self._lay_out(columns)
        elif columns != self._columns:
            raise ValueError(f"{self.name} has counted {self._columns} columns so far, and now there are {columns}.")
        scores, weight = ops.cast(ops.reshape(y_pred, (-1, columns)), "float32"), _weight(sample_weight, y_pred)
        if columns == 1:
            truth = ops.reshape(y_true, (-1, 1))
            right = ops.logical_or(truth == 0, truth == 1)
        else:
            number, known = _class_numbers(y_true, y_pred)
            truth = ops.expand_dims(number, -1) == ops.cast(ops.arange(columns), number.dtype)
            right = ops.expand_dims(known, -1)
            scores = ops.softmax(scores, axis=-1) if self.from_logits else scores
            weight = None if weight is None else ops.repeat(weight, columns)
        bucket, possible = self._bucket(scores)
        group = 2 * ops.arange(columns, dtype="int32") + ops.cast(truth, "int32")
        cell = 2 * self._half * group + ops.clip(bucket, 0, 2 * self._half - 1)
        self._count(ops.reshape(cell, (-1,)), ops.reshape(ops.logical_and(right, possible), (-1,)), weight)

    def result(self) -> Any:
        """The share of pairs, a positive and a negative example, in which the positive one has the larger score."""
        if not self._cells:
            return ops.convert_to_tensor(math.nan, dtype="float32")
        negative, positive = self._buckets()
        below = _running_sum(negative) - negative
        return self._averaged(_part(positive) * _part(below + negative / 2, negative), positive)

    def uncertainty(self) -> Any:
        """How far the result may be from the exact area: half of the share of pairs that fell into one bucket.

        Pairs of equal scores are among them though they are in no doubt, so the bound holds, but is not sharp.
        """
        self._require_cells()
        negative, positive = self._buckets()
        return self._averaged(_part(positive) * _part(negative) / 2, positive)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another one like this."""
        return {
            **super().get_config(), "bits": self.bits, "from_logits": self.from_logits, "average": self.average,
        }  # fmt: skip

    def _lay_out(self, columns: int) -> None:
        """Makes the buckets: for each column those of the negative and those of the positive examples."""
        self._columns = columns
        # Probabilities are told apart finely between 2**-24, the distance of float32 from 1, and 1/2; logits between
        # 2**-10 and 2**7. Beyond, a sixteenth of the buckets has to do.
        self._signed = self.from_logits and columns == 1
        low, high, top = (-10, 7, 128) if self._signed else (-24, -1, -1)
        self._low, self._high = _bits_of_power(low), _bits_of_power(high)
        self._coarse, self._fine = 1 << (23 - self.bits + 4), 1 << (23 - self.bits)
        # Half of the buckets: for the small probabilities or the negative logits. All of them make whole blocks.
        self._half = math.ceil((self._key_of_bits(_bits_of_power(top)) + 1) / _BLOCK) * _BLOCK
        self._make_cells(4 * self._half * columns)

    def _bucket(self, scores: Any) -> tuple[Any, Any]:
        """Of each score, and whether it is one that can be."""
        if self._signed:
            key = self._key(ops.abs(scores))
            return ops.where(scores < 0, self._half - 1 - key, self._half + key), _is_number(scores)
        key = self._key(ops.minimum(scores, 1 - scores))
        possible = ops.logical_and(scores >= 0, scores <= 1)
        return ops.where(scores > 0.5, 2 * self._half - 1 - key, key), possible

    def _buckets(self) -> tuple[Any, Any]:
        """The negative and the positive examples in each bucket: a row for each column, or one for all of them."""
        examples = ops.cast(self._whole(), _wide_dtype()) + self._weighted()
        examples = ops.reshape(examples, (self._columns, 2, 2 * self._half))
        if self.average == "micro":
            examples = ops.sum(examples, axis=0, keepdims=True)
        return examples[:, 0], examples[:, 1]

    def _averaged(self, pairs: Any, positive: Any) -> Any:
        """One number of all columns."""
        areas = ops.sum(pairs, axis=-1)
        if self.average is None and self._columns > 1:
            return self._unless_wrong(areas)
        share = _part(ops.sum(positive, axis=-1)) if self.average == "weighted" else 1 / areas.shape[0]
        return self._unless_wrong(ops.sum(areas * share))

    def _key(self, magnitude: Any) -> Any:
        return self._key_of_bits(_float_bits(magnitude), ops.where)

    def _key_of_bits(self, bits: Any, where: Any = lambda condition, a, b: a if condition else b) -> Any:
        """Numbers the floats of one sign in their order: as integers, their bits are in that order, too."""
        low, high = self._low // self._coarse, (self._high - self._low) // self._fine
        fine = (bits - self._low) // self._fine + low
        above = (bits - self._high) // self._coarse + low + high
        return where(bits < self._low, bits // self._coarse, where(bits < self._high, fine, above))


def _classes(y_true: Any, y_pred: Any, name: str) -> int:
    """How many classes there are; a clear error where labels and scores do not go together."""
    labels, scores = tuple(y_true.shape), tuple(y_pred.shape)
    if len(scores) > 1 and scores[-1] is None:
        raise ValueError(f"{name} must know the number of classes: the last axis of y_pred, {scores}, is unknown.")
    columns = scores[-1] if len(scores) > 1 else 1
    if len(scores) < 2:
        fitting = [scores, (*scores, 1)]
    elif columns == 1:
        fitting = [scores, scores[:-1]]
    else:
        fitting = [scores[:-1], (*scores[:-1], 1), scores]
    if not any(_agree(labels, shape) for shape in fitting):
        wanted = " or ".join(str(shape) for shape in fitting)
        raise ValueError(f"{name} has scores of shape {scores} and labels of shape {labels}; they must be {wanted}.")
    return max(columns, 2)


def _tensors(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    labels = ops.convert_to_tensor(y_true)
    if keras.backend.standardize_dtype(labels.dtype) == "bool":
        labels = ops.cast(labels, "int32")
    return labels, ops.convert_to_tensor(y_pred)


def _is_number(x: Any) -> Any:
    """NaN alone does not equal itself."""
    return ops.equal(x, x)


def _agree(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
    return len(one) == len(other) and all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def _class_numbers(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """The class of each example, and whether it can be right."""
    classes = y_pred.shape[-1]
    if len(y_true.shape) == len(y_pred.shape) and y_true.shape[-1] == classes:
        total = ops.reshape(ops.sum(ops.cast(y_true, "float32"), axis=-1), (-1,))
        return ops.reshape(ops.argmax(y_true, axis=-1), (-1,)), ops.abs(total - 1) < 1e-3
    truth = ops.reshape(y_true, (-1,))
    number = ops.cast(truth, "int32")
    right = ops.logical_and(ops.cast(number, truth.dtype) == truth, ops.logical_and(number >= 0, number < classes))
    return number, right


def _weight(sample_weight: Any, y_pred: Any) -> Any:
    """The weight of each example: one may have been given for each, or for each of the first axes."""
    if sample_weight is None:
        return None
    weight = ops.convert_to_tensor(sample_weight, dtype="float32")
    examples = ops.shape(y_pred)[:-1] if len(y_pred.shape) > 1 else ops.shape(y_pred)
    if len(weight.shape) > len(examples):
        weight = ops.squeeze(weight, axis=-1)
    for _ in range(len(examples) - len(weight.shape)):
        weight = ops.expand_dims(weight, axis=-1)
    return ops.reshape(ops.broadcast_to(weight, examples), (-1,))


def _sum_by_cell(values: Any, cells: Any, number: int) -> Any:
    if keras.backend.backend() != "torch":
        return ops.segment_sum(values, cells, number)
    import torch

    # Keras adds up floats here, also where integers were given.
    return torch.zeros(number, dtype=values.dtype, device=values.device).index_add_(0, cells, values)


def _running_sum(values: Any) -> Any:
    """Along the last axis."""
    if keras.backend.backend() != "jax":
        return ops.cumsum(values, axis=-1)
    import jax

    # XLA takes several times as long for a running sum of everything as for this product.
    blocks = ops.reshape(values, (values.shape[0], -1, _BLOCK))
    with jax.default_matmul_precision("highest"):
        inside = ops.matmul(blocks, ops.triu(ops.ones((_BLOCK, _BLOCK), dtype=values.dtype)))
    before = ops.cumsum(inside[..., -1:], axis=-2) - inside[..., -1:]
    return ops.reshape(inside + before, values.shape)


def _part(values: Any, whole: Any = None) -> Any:
    """Of the sum along the last axis, of these values or of others."""
    return values / ops.sum(values if whole is None else whole, axis=-1, keepdims=True)


def _share(part: Any, whole: Any) -> Any:
    """Zero of zero is zero, as with scikit-learn's `zero_division=0`."""
    some = whole > 0
    return ops.where(some, part / ops.where(some, whole, 1), 0.0)


def _count_dtype() -> str:
    """The widest integers of the backend; JAX has 64 bits only where it was told to."""
    if keras.backend.backend() == "jax":
        import jax

        return "int64" if jax.config.jax_enable_x64 else "int32"
    return "int64"


def _wide_dtype() -> str:
    """The widest floats of the backend and its device."""
    if keras.backend.backend() == "torch":
        import torch

        return "float32" if torch.get_default_device().type == "mps" else "float64"
    return "float32" if _count_dtype() == "int32" else "float64"


def _float_bits(x: Any) -> Any:
    """A float32 as the integer that has the same bits."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.bitcast(x, tf.int32)
    if backend == "jax":
        import jax

        return jax.lax.bitcast_convert_type(x, "int32")
    import torch

    return x.view(torch.int32)


def _bits_of_power(exponent: int) -> int:
    """The bits of 2**exponent as float32."""
    return (exponent + 127) << 23
