import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
from keras import layers


class Block(layers.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.attend = layers.MultiHeadAttention(heads, width // heads)
        self.first, self.second = layers.LayerNormalization(), layers.LayerNormalization()
        self.dense = keras.Sequential([layers.Dense(2 * width, activation="gelu"), layers.Dense(width)])

    def call(self, x):
        x = self.first(x + self.attend(x, x))
        return self.second(x + self.dense(x))


rng = np.random.default_rng(136)
tokens = rng.integers(1, 2000, (1536, 64))
labels = rng.integers(0, 2, 1536)
inputs = keras.Input((64,), dtype="int32")
x = layers.Embedding(2000, 96)(inputs)
for _ in range(2):
    x = Block(96, 4)(x)
outputs = layers.Dense(1, activation="sigmoid")(layers.GlobalAveragePooling1D()(x))
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.AdamW(3e-4), "binary_crossentropy", metrics=["accuracy"])
start = time.time()
model.fit(tokens[:1280], labels[:1280], batch_size=32, epochs=5, validation_data=(tokens[1280:], labels[1280:]), verbose=2)
print("train time: %.1f s" % (time.time() - start))
