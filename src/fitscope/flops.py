"""Floating point operations of a layer, from its settings and the shapes of its inputs.

Counted is what multiplies: products of matrices, convolutions, attention; a multiplication and an addition are two
operations. Biases, activations, normalization and pooling are left out: they move memory rather than compute.
What is multiplied with padding counts, as in the usual formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Shape = tuple[int, ...]
Settings = Mapping[str, Any]


class Work(NamedTuple):
    """The operations of one way forward: with the layer's weights, and of its tensors with one another."""

    weights: int = 0
    tensors: int = 0

    @property
    def forward(self) -> int:
        """All of it."""
        return self.weights + self.tensors

    def backward(self, *, trainable: bool, inputs: bool) -> int:
        """The operations of the way back: one product for the weights' gradient, one for that of the inputs."""
        products = (self.weights if trainable else 0) + (self.weights if inputs else 0)
        return products + (2 * self.tensors if trainable or inputs else 0)

    def times(self, number: int) -> Work:
        """As often."""
        return Work(self.weights * number, self.tensors * number)


def work(kind: str, settings: Settings, inputs: Sequence[Shape]) -> Work | None:
    """The operations of a layer of Keras; None where its kind is not known here."""
    if kind not in FORMULAS:
        return None
    return FORMULAS[kind](settings, list(inputs))


def _dense(settings: Settings, inputs: list[Shape]) -> Work:
    return Work(2 * math.prod(inputs[0]) * settings["units"])


def _einsum(settings: Settings, inputs: list[Shape]) -> Work:
    """Every label of the equation is a loop; what `...` stands for are loops, too."""
    first, _, rest = str(settings["equation"]).replace(" ", "").partition(",")
    second = rest.partition("->")[0]
    sizes = {**_labels(second, settings["kernel_shape"]), **_labels(first, inputs[0])}
    return Work(2 * math.prod(sizes.values()))


def _labels(term: str, shape: Shape) -> dict[str, int]:
    before, dots, after = term.partition("...")
    ends = shape[len(shape) - len(after) :] if after else ()
    found = {**dict(zip(before, shape, strict=False)), **dict(zip(after, ends, strict=True))}
    if dots:
        between = shape[len(before) : len(shape) - len(after)]
        found.update({f"...{at}": size for at, size in enumerate(between)})
    return found


def _conv(settings: Settings, inputs: list[Shape]) -> Work:
    batch, places, channels = _image(settings, inputs[0])
    kernel = math.prod(settings["kernel_size"])
    out = math.prod(_out(settings, places))
    return Work(2 * batch * out * kernel * (channels // settings.get("groups", 1)) * settings["filters"])


def _conv_transpose(settings: Settings, inputs: list[Shape]) -> Work:
    """Every place of the input is multiplied with the whole kernel."""
    batch, places, channels = _image(settings, inputs[0])
    return Work(2 * batch * math.prod(places) * math.prod(settings["kernel_size"]) * channels * settings["filters"])


def _depthwise(settings: Settings, inputs: list[Shape]) -> Work:
    batch, places, channels = _image(settings, inputs[0])
    out = math.prod(_out(settings, places))
    return Work(2 * batch * out * math.prod(settings["kernel_size"]) * channels * settings["depth_multiplier"])


def _separable(settings: Settings, inputs: list[Shape]) -> Work:
    batch, places, channels = _image(settings, inputs[0])
    pointwise = 2 * batch * math.prod(_out(settings, places)) * channels * settings["depth_multiplier"]
    return Work(_depthwise(settings, inputs).weights + pointwise * settings["filters"])


def _image(settings: Settings, shape: Shape) -> tuple[int, Shape, int]:
    """Batch, places and channels of a convolution's input."""
    if settings.get("data_format") == "channels_first":
        return shape[0], shape[2:], shape[1]
    return shape[0], shape[1:-1], shape[-1]


def _out(settings: Settings, places: Shape) -> Shape:
    """The places of a convolution's output."""
    found = []
    ones = (1,) * len(places)
    steps = (settings["kernel_size"], settings.get("strides", ones), settings.get("dilation_rate", ones))
    for size, kernel, stride, dilation in zip(places, *steps, strict=True):
        reach = dilation * (kernel - 1) + 1
        left = size if settings.get("padding", "valid") in ("same", "causal") else size - reach + 1
        found.append(max(0, math.ceil(left / stride)))
    return tuple(found)


def _recurrent(gates: int) -> Callable[[Settings, list[Shape]], Work]:
    def of(settings: Settings, inputs: list[Shape]) -> Work:
        batch, steps, features = inputs[0][:3]
        units = settings["units"]
        return Work(2 * batch * steps * gates * units * (features + units))

    return of


def _convolved_recurrent(settings: Settings, inputs: list[Shape]) -> Work:
    """At every step four convolutions of the input, and four of the state, which keeps its size."""
    batch, steps = inputs[0][:2]
    at_once = (batch * steps, *inputs[0][2:])
    gates = {**settings, "filters": 4 * settings["filters"], "groups": 1}
    _, places, _ = _image(settings, at_once)
    state = (batch * steps, *_out(settings, places), settings["filters"])
    kept = {**gates, "strides": (1,) * len(places), "dilation_rate": (1,) * len(places), "padding": "same"}
    return Work(_conv(gates, [at_once]).weights + _conv({**kept, "data_format": "channels_last"}, [state]).weights)


def _attention(settings: Settings, inputs: list[Shape]) -> Work:
    """Scores and weighted sum, without projections."""
    query, value = inputs[0], inputs[1]
    key = inputs[2] if len(inputs) > 2 else value
    scores = 2 * math.prod(query[:-1]) * key[-2] * query[-1]
    return Work(0, scores + 2 * math.prod(query[:-1]) * value[-2] * value[-1])


def _multi_head(settings: Settings, inputs: list[Shape]) -> Work:
    """Four projections, the scores and the weighted sum."""
    query, value = inputs[0], inputs[1] if len(inputs) > 1 else inputs[0]
    key = inputs[2] if len(inputs) > 2 else value
    heads, size = settings["num_heads"], settings["key_dim"]
    others = settings.get("num_key_value_heads", heads)
    depth = settings.get("value_dim") or size
    wanted = settings.get("output_shape") or (query[-1],)
    out = math.prod(wanted) if isinstance(wanted, Sequence) else int(wanted)
    asked, given = math.prod(query[1:-1]), math.prod(key[1:-1])
    projections = (
        asked * query[-1] * heads * size
        + given * key[-1] * others * size
        + given * value[-1] * others * depth
        + asked * heads * depth * out
    )
    return Work(2 * query[0] * projections, 2 * query[0] * heads * asked * given * (size + depth))


def _grouped(settings: Settings, inputs: list[Shape]) -> Work:
    return _multi_head(
        {**settings, "num_heads": settings["num_query_heads"], "key_dim": settings["head_dim"]}, inputs
    )


def _both_ways(settings: Settings, inputs: list[Shape]) -> Work | None:
    inner = work(settings["inner"], settings["inner_settings"], inputs)
    return inner.times(2) if inner is not None else None


def _at_every_step(settings: Settings, inputs: list[Shape]) -> Work | None:
    batch, steps = inputs[0][:2]
    return work(settings["inner"], settings["inner_settings"], [(batch * steps, *inputs[0][2:])])


FORMULAS: dict[str, Callable[[Settings, list[Shape]], Work | None]] = {
    "Dense": _dense,
    "EinsumDense": _einsum,
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D"), _conv),
    **dict.fromkeys(("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"), _conv_transpose),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D"), _depthwise),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), _separable),
    "LSTM": _recurrent(4),
    "GRU": _recurrent(3),
    "SimpleRNN": _recurrent(1),
    **dict.fromkeys(("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"), _convolved_recurrent),
    "Attention": _attention,
    "MultiHeadAttention": _multi_head,
    "GroupedQueryAttention": _grouped,
    "GroupQueryAttention": _grouped,
    "Bidirectional": _both_ways,
    "TimeDistributed": _at_every_step,
}
SETTINGS = (
    *("units", "equation", "filters", "kernel_size", "strides", "padding", "dilation_rate", "groups", "data_format"),
    *("depth_multiplier", "num_heads", "key_dim", "value_dim", "num_query_heads", "num_key_value_heads", "head_dim"),
    "output_shape",
)
"""What the formulas ask of a layer."""
INNER = {"Bidirectional": "forward_layer", "TimeDistributed": "layer"}


def kind_of(layer: Any) -> str:
    """The kind of a layer: its own class, or the one of Keras' that it is made from and that has a formula."""
    names = [each.__name__ for each in type(layer).__mro__]
    if type(layer).__module__.startswith("keras."):
        return names[0]
    plain = type(layer).__dict__.get("call") is None
    return next((name for name in names if name in FORMULAS and plain), names[0])


def settings_of(layer: Any) -> dict[str, Any]:
    """What the formulas ask of a layer, as far as it has it."""
    found: dict[str, Any] = {}
    for name in SETTINGS:
        value = getattr(layer, f"_{name}", None)
        value = getattr(layer, name, None) if value is None else value
        if isinstance(value, (int, str, tuple, list)):
            found[name] = tuple(value) if isinstance(value, list) else value
    kind = kind_of(layer)
    if kind in INNER:
        inner = getattr(layer, INNER[kind])
        found.update(inner=kind_of(inner), inner_settings=settings_of(inner))
    elif kind == "EinsumDense":
        found["kernel_shape"] = tuple(layer.kernel.shape)
    return found


def of_layer(layer: Any, inputs: Sequence[Shape]) -> Work | None:
    """The operations of a layer; nothing to multiply is no work, and what cannot be known is None."""
    kind = kind_of(layer)
    if kind in FORMULAS:
        try:
            return work(kind, settings_of(layer), inputs)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            return None
    ours = type(layer).__module__.startswith("keras.")
    matrices = [weight for weight in getattr(layer, "weights", ()) if len(weight.shape) >= 2]
    return Work() if ours and (not matrices or kind == "Embedding") else None
