"""FLOPs against what one computes by hand."""

import pytest

from fitscope.flops import Work, of_layer, work

CONV = {"filters": 8, "kernel_size": (3, 3), "strides": (1, 1), "padding": "valid", "groups": 1}
IMAGE = [(16, 28, 28, 4)]


def weights(kind, settings, inputs):
    return work(kind, settings, inputs).weights


def test_a_dense_layer_multiplies_every_input_with_every_unit():
    assert weights("Dense", {"units": 128}, [(32, 784)]) == 2 * 32 * 784 * 128
    assert weights("Dense", {"units": 7}, [(32, 10, 20)]) == 2 * 32 * 10 * 20 * 7


@pytest.mark.parametrize(
    ("changed", "places", "channels"),
    [
        ({}, 26 * 26, 4),
        ({"padding": "same"}, 28 * 28, 4),
        ({"strides": (2, 2)}, 13 * 13, 4),
        ({"strides": (2, 2), "padding": "same"}, 14 * 14, 4),
        ({"strides": (3, 1), "padding": "same"}, 10 * 28, 4),
        ({"groups": 4}, 26 * 26, 1),
        ({"groups": 2, "strides": (2, 2), "padding": "same"}, 14 * 14, 2),
        ({"dilation_rate": (2, 2)}, 24 * 24, 4),
    ],
)
def test_a_convolution_multiplies_its_kernel_at_every_place_of_its_output(changed, places, channels):
    assert weights("Conv2D", {**CONV, **changed}, IMAGE) == 2 * 16 * places * 9 * channels * 8


def test_a_convolution_of_other_dimensions_and_orders():
    one = {"filters": 5, "kernel_size": (4,), "strides": (1,), "padding": "causal"}
    assert weights("Conv1D", one, [(2, 50, 3)]) == 2 * 2 * 50 * 4 * 3 * 5
    first = {**CONV, "data_format": "channels_first"}
    assert weights("Conv2D", first, [(16, 4, 28, 28)]) == weights("Conv2D", CONV, IMAGE)


def test_depthwise_separable_and_transposed_convolutions():
    settings = {**CONV, "depth_multiplier": 2}
    depthwise = 2 * 16 * 26 * 26 * 9 * 4 * 2
    assert weights("DepthwiseConv2D", settings, IMAGE) == depthwise
    assert weights("SeparableConv2D", settings, IMAGE) == depthwise + 2 * 16 * 26 * 26 * (4 * 2) * 8
    assert weights("Conv2DTranspose", CONV, IMAGE) == 2 * 16 * 28 * 28 * 9 * 4 * 8


def test_recurrent_layers_multiply_input_and_state_at_every_step():
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("SimpleRNN", 1)):
        assert weights(kind, {"units": 64}, [(32, 20, 16)]) == 2 * 32 * 20 * gates * 64 * (16 + 64)


def test_a_convolutional_lstm_has_four_convolutions_of_input_and_of_state():
    inputs = [(2, 5, 12, 12, 3)]
    by_hand = 2 * 2 * 5 * 10 * 10 * 9 * 3 * (4 * 8) + 2 * 2 * 5 * 10 * 10 * 9 * 8 * (4 * 8)
    assert weights("ConvLSTM2D", CONV, inputs) == by_hand


def test_attention_has_four_projections_scores_and_a_weighted_sum():
    settings = {"num_heads": 4, "key_dim": 16, "value_dim": 16}
    found = work("MultiHeadAttention", settings, [(8, 50, 64), (8, 50, 64)])
    assert found.weights == 4 * (2 * 8 * 50 * 64 * 64)
    assert found.tensors == 2 * (2 * 8 * 4 * 50 * 50 * 16)
    crossed = work(
        "MultiHeadAttention", {**settings, "value_dim": 8, "output_shape": (10,)}, [(8, 5, 64), (8, 50, 32)]
    )
    queries, keys, values = 5 * 64 * 4 * 16, 50 * 32 * 4 * 16, 50 * 32 * 4 * 8
    assert crossed.weights == 2 * 8 * (queries + keys + values + 5 * 4 * 8 * 10)
    assert crossed.tensors == 2 * 8 * 4 * 5 * 50 * (16 + 8)


def test_grouped_queries_share_keys_and_values():
    settings = {"num_query_heads": 8, "num_key_value_heads": 2, "head_dim": 16}
    found = work("GroupQueryAttention", settings, [(1, 10, 128), (1, 10, 128)])
    assert found.weights == 2 * 10 * 128 * 16 * (8 + 2 + 2 + 8)


def test_plain_attention_has_no_weights():
    assert work("Attention", {}, [(3, 7, 16), (3, 9, 16)]) == Work(0, 2 * 3 * 7 * 9 * 16 * 2)


def test_an_einsum_loops_over_every_label():
    plain = {"equation": "abc,cde->abde", "kernel_shape": (64, 4, 16)}
    assert weights("EinsumDense", plain, [(8, 50, 64)]) == 2 * 8 * 50 * 64 * 4 * 16
    dots = {"equation": "...x,xy->...y", "kernel_shape": (64, 10)}
    assert weights("EinsumDense", dots, [(8, 50, 64)]) == 2 * 8 * 50 * 64 * 10


def test_wrappers_do_what_they_wrap_twice_or_at_every_step():
    inner = {"inner": "LSTM", "inner_settings": {"units": 8}}
    inputs = [(4, 6, 5)]
    assert weights("Bidirectional", inner, inputs) == 2 * weights("LSTM", {"units": 8}, inputs)
    inner = {"inner": "Dense", "inner_settings": {"units": 8}}
    assert weights("TimeDistributed", inner, inputs) == 2 * 4 * 6 * 5 * 8


def test_the_way_back_has_a_product_for_the_weights_and_one_for_the_inputs():
    found = Work(100, 10)
    assert found.backward(trainable=True, inputs=True) == 220
    assert found.backward(trainable=True, inputs=False) == 120
    assert found.backward(trainable=False, inputs=True) == 120
    assert found.backward(trainable=False, inputs=False) == 0


def test_a_layer_of_an_unknown_kind_is_not_guessed():
    class Strange:
        weights = ()

    assert work("Strange", {}, [(1, 2)]) is None
    assert of_layer(Strange(), [(1, 2)]) is None


def test_a_layer_whose_settings_are_missing_is_not_guessed():
    dense = type("Dense", (), {"__module__": "keras.src.layers", "weights": ()})()
    assert of_layer(dense, [(1, 2)]) is None
    dense.units = 3
    assert of_layer(dense, [(1, 2)]) == Work(12)
    flat = type("Flatten", (), {"__module__": "keras.src.layers", "weights": ()})()
    assert of_layer(flat, [(1, 2)]) == Work()
