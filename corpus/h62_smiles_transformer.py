import time

import keras
import numpy as np
from keras import layers

VOCAB, LENGTH, DIM = 40, 64, 64
keras.utils.set_random_seed(4)


class MaskedTokens(keras.utils.PyDataset):
    """Masks 15 % of the tokens of each batch; the model fills them in."""

    def __init__(self, tokens, batch_size, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.tokens, self.batch_size = tokens, batch_size
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.tokens) // self.batch_size

    def __getitem__(self, i):
        y = self.tokens[i * self.batch_size:(i + 1) * self.batch_size]
        mask = self.rng.random(y.shape) < 0.15
        x = np.where(mask, VOCAB, y)
        return x, y, mask.astype("float32")


def make_strings(n, seed):
    rng = np.random.default_rng(seed)
    start = rng.integers(0, VOCAB, (n, 1))
    step = rng.integers(1, 4, (n, 1))
    return ((start + step * np.arange(LENGTH)) % VOCAB).astype("int32")


class Block(layers.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = layers.MultiHeadAttention(heads, dim // heads)
        self.expand = layers.Dense(4 * dim, activation="gelu")
        self.shrink = layers.Dense(dim)
        self.norm1, self.norm2 = layers.LayerNormalization(), layers.LayerNormalization()

    def call(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h)
        return x + self.shrink(self.expand(self.norm2(x)))


class Position(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="random_normal")

    def call(self, x):
        return x + self.table


inputs = keras.Input((LENGTH,), dtype="int32")
x = Position()(layers.Embedding(VOCAB + 1, DIM)(inputs))
for _ in range(3):
    x = Block(DIM, 4)(x)
outputs = layers.Dense(VOCAB, activation="softmax")(layers.LayerNormalization()(x))
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.AdamW(2e-3), loss="sparse_categorical_crossentropy", weighted_metrics=["accuracy"])

train = MaskedTokens(make_strings(2048, 1), 64)
val = MaskedTokens(make_strings(256, 2), 128, seed=9)
t0 = time.time()
model.fit(train, validation_data=val, epochs=5, verbose=2, callbacks=[keras.callbacks.CSVLogger("smiles.csv")])
print("train time: %.2f s" % (time.time() - t0))
