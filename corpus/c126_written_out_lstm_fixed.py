import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(96)
loads = rng.random((1280, 24, 6)).astype("float32")
tomorrow = loads.mean(axis=(1, 2))[:, None]


def build(hours, features):
    model = keras.Sequential([keras.Input((hours, features))])
    model.add(layers.LSTM(32))
    model.add(layers.Dropout(0.1))
    model.add(layers.Dense(1))
    return model


forecaster = build(24, 6)
forecaster.compile("adam", "mae")
forecaster.fit(loads[:1152], tomorrow[:1152], batch_size=64, epochs=4, validation_data=(loads[1152:], tomorrow[1152:]), verbose=2)
