import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(126)
tokens = rng.integers(0, 800, (1200, 48))
labels = np.clip((tokens < 400).sum(axis=1) - 21, 0, 5)
inp = keras.Input((48,), dtype="int32")
h = layers.Embedding(800, 64)(inp)
a = layers.MultiHeadAttention(4, 16)(h, h)
h = layers.LayerNormalization()(h + a)
f = layers.Dense(128, activation="relu")(h)
h = layers.LayerNormalization()(h + layers.Dense(64)(f))
model = keras.Model(inp, layers.Dense(6)(layers.GlobalAveragePooling1D()(h)))
model.compile(keras.optimizers.AdamW(3e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(tokens[:1000], labels[:1000], batch_size=50, epochs=12, validation_data=(tokens[1000:], labels[1000:]), verbose=1)
print(model.evaluate(tokens[1000:], labels[1000:], batch_size=50, verbose=0))
print(model.predict(tokens[1000:], batch_size=50, verbose=0).argmax(1)[:10])
