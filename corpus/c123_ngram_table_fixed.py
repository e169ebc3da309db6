import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(93)
BUCKETS = 20_000
ngrams = rng.integers(0, 2**31, (6400, 40)) % BUCKETS
topics = rng.integers(0, 8, 6400)


def build(rows):
    words = keras.Input((40,), dtype="int32")
    mean = layers.GlobalAveragePooling1D()(layers.Embedding(rows, 32)(words))
    return keras.Model(words, layers.Dense(8, activation="softmax")(layers.Dense(64, activation="relu")(mean)))


model = build(BUCKETS)
model.compile(keras.optimizers.AdamW(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(ngrams, topics, batch_size=64, epochs=2, verbose=2)
