import time
import numpy as np
import keras
from keras import layers

rng = np.random.default_rng(3)
x = rng.random((2048, 24)).astype("float32")
y = rng.random((2048, 24)).astype("float32")


def ranking_loss(y_true, y_pred):
    gap = y_true - y_pred
    return keras.ops.mean(keras.ops.maximum(0.7 * gap, -0.3 * gap))


model = keras.Sequential([keras.Input((24,)), layers.Dense(64, activation="relu"), layers.Dense(24)])
model.compile("adam", ranking_loss)
t0 = time.time()
model.fit(x, y, batch_size=64, epochs=16, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
