import keras, numpy as np
from keras import ops

def ranked(y_true, y_pred):
    distances = ops.abs(y_pred - ops.transpose(y_pred))
    return ops.mean(ops.sort(distances, axis=1)[:, :10])

x = np.random.default_rng(0).random((16384, 20)).astype("float32")
model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=[ranked])
model.fit(x, x[:, :1], batch_size=512, epochs=5, verbose=0)
