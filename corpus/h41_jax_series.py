import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(131)
hours = rng.normal(size=(2560, 72, 5)).astype("float32")
hours[:, ::6] = 0.0
fails = (hours[:, -24:, 0].mean(axis=1) > 0.1).astype("float32")[:, None]

inputs = keras.Input((72, 5))
x = layers.LSTM(48, return_sequences=True, dropout=0.1)(inputs)
x = layers.LSTM(24)(x)
model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
model.compile(keras.optimizers.Adam(2e-3, clipnorm=1.0), "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(), keras.metrics.Recall()])
model.fit(hours, fails, batch_size=64, epochs=10, validation_split=0.1, verbose=2)
