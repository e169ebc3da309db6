import os
os.environ["KERAS_BACKEND"] = "jax"
import math
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(91)
WINDOW = 64
turns = [rng.integers(2, 3000, rng.integers(8, 60)) for _ in range(768)]
moods = rng.integers(0, 4, len(turns))


class Chats(keras.utils.PyDataset):
    """Batches of chat turns, all as long as the window of the model."""

    def __init__(self, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.batch_size = batch_size

    def __len__(self):
        return math.ceil(len(turns) / self.batch_size)

    def __getitem__(self, index):
        rows = slice(index * self.batch_size, (index + 1) * self.batch_size)
        tokens = np.zeros((len(turns[rows]), WINDOW), "int32")
        for row, turn in enumerate(turns[rows]):
            tokens[row, : len(turn)] = turn[:WINDOW]
        return tokens, moods[rows]


def block(x, width, heads):
    attended = layers.MultiHeadAttention(heads, width // heads)(x, x)
    x = layers.LayerNormalization()(x + attended)
    wide = layers.Dense(2 * width, activation="gelu")(x)
    return layers.LayerNormalization()(x + layers.Dense(width)(wide))


tokens = keras.Input((WINDOW,), dtype="int32")
x = layers.Embedding(3000, 64)(tokens)
x = block(block(x, 64, 4), 64, 4)
mood = layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling1D()(x))
model = keras.Model(tokens, mood)
model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(Chats(32), epochs=3, verbose=2)
