import time
import numpy as np
import torch
import keras
from keras import layers, ops

N_COLS = 56
DIM = 32


class ColumnTokenizer(layers.Layer):
    """One token per numeric column: value * w_col + b_col, then a small per-column projection."""

    def __init__(self, n_cols, dim, **kwargs):
        super().__init__(**kwargs)
        self.n_cols = n_cols
        self.dim = dim

    def build(self, input_shape):
        init = keras.initializers.RandomNormal(stddev=0.2)
        self.w = self.add_weight(shape=(self.n_cols, self.dim), initializer=init, name="w")
        self.b = self.add_weight(shape=(self.n_cols, self.dim), initializer="zeros", name="b")
        self.proj = self.add_weight(shape=(self.n_cols, self.dim, self.dim), initializer=init, name="proj")

    def call(self, x):
        t = ops.gelu(x[:, :, None] * self.w + self.b)
        return ops.einsum("bcd,cde->bce", t, self.proj)

    def compute_output_shape(self, s):
        return (s[0], self.n_cols, self.dim)


class ColumnDecoder(layers.Layer):
    def __init__(self, n_cols, dim, **kwargs):
        super().__init__(**kwargs)
        self.n_cols = n_cols
        self.dim = dim

    def build(self, input_shape):
        self.k = self.add_weight(shape=(self.n_cols, self.dim), initializer="glorot_uniform", name="k")
        self.c = self.add_weight(shape=(self.n_cols,), initializer="zeros", name="c")

    def call(self, h):
        return ops.sum(h * self.k, axis=-1) + self.c

    def compute_output_shape(self, s):
        return (s[0], self.n_cols)


def encoder_block(x, dim, heads=4):
    a = layers.MultiHeadAttention(heads, dim // heads)(x, x)
    x = layers.LayerNormalization()(layers.Add()([x, a]))
    f = layers.Dense(2 * dim, activation="gelu")(x)
    return layers.LayerNormalization()(layers.Add()([x, layers.Dense(dim)(f)]))


class MaskedColumns(keras.Model):
    def __init__(self, net, mask_rate=0.25, **kwargs):
        super().__init__(**kwargs)
        self.net = net
        self.mask_rate = mask_rate
        self.loss_tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_tracker]

    def call(self, x, training=False):
        return self.net(x, training=training)

    def train_step(self, data):
        x = data[0] if isinstance(data, (tuple, list)) else data
        mask = (torch.rand(x.shape, device=x.device) < self.mask_rate).float()
        self.zero_grad()
        pred = self(x * (1 - mask), training=True)
        loss = (mask * (pred - x) ** 2).sum() / mask.sum().clamp(min=1)
        loss.backward()
        variables = self.trainable_weights
        grads = [v.value.grad for v in variables]
        with torch.no_grad():
            self.optimizer.apply(grads, variables)
        self.loss_tracker.update_state(loss.detach())
        return {"loss": self.loss_tracker.result()}


def make_table(rows=4096, seed=5):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((rows, 6))
    x = np.tanh(z @ rng.standard_normal((6, N_COLS))) + 0.1 * rng.standard_normal((rows, N_COLS))
    return ((x - x.mean(0)) / x.std(0)).astype("float32")


keras.utils.set_random_seed(5)
table = make_table()
inputs = keras.Input((N_COLS,))
h = ColumnTokenizer(N_COLS, DIM)(inputs)
h = encoder_block(h, DIM)
net = keras.Model(inputs, ColumnDecoder(N_COLS, DIM)(h))
model = MaskedColumns(net)
model.compile(optimizer=keras.optimizers.Adam(1e-3))

tic = time.time()
model.fit(table, batch_size=64, epochs=8, verbose=2)
print("train time: %.2f s" % (time.time() - tic))
