import os
os.environ["KERAS_BACKEND"] = "torch"
import time

import keras
import numpy as np
from keras import layers


def residual(x, width):
    h = layers.Dense(width, activation="gelu")(layers.LayerNormalization()(x))
    return layers.Add()([x, layers.Dense(width)(h)])


def build(columns, width=384, depth=3):
    inputs = keras.Input((columns,))
    x = layers.Dense(width)(inputs)
    for _ in range(depth):
        x = residual(x, width)
    return keras.Model(inputs, layers.Dense(1)(x))


rng = np.random.default_rng(132)
x = rng.normal(size=(8192, 60)).astype("float32")
y = np.sin(x[:, :4]).sum(axis=1, keepdims=True)
model = build(60)
model.compile(keras.optimizers.Adam(1e-3), "mse", metrics=["mae"])
callbacks = [
    keras.callbacks.CSVLogger("log.csv"),
    keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.8),
    keras.callbacks.ReduceLROnPlateau(patience=3),
]
t0 = time.time()
model.fit(x, y, batch_size=256, epochs=3, validation_split=0.1, callbacks=callbacks, verbose=2)
print("train time: %.1f s" % (time.time() - t0))
