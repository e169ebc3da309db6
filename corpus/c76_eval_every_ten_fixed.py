import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np
from keras import layers


class EvalEveryN(keras.callbacks.Callback):
    def __init__(self, data, n, batch_size=256):
        super().__init__()
        self.data, self.n, self.batch_size = data, n, batch_size
        self.seen = 0
        self.scores = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen % self.n == 0:
            x, y = self.data
            self.scores.append(self.model.evaluate(x, y, batch_size=self.batch_size, verbose=0, return_dict=True))


rng = np.random.default_rng(76)
x = rng.random((6000, 40)).astype("float32")
y = rng.integers(0, 5, 6000)
model = keras.Sequential([keras.Input((40,)), layers.Dense(128, activation="relu"), layers.Dense(128, activation="relu"),
                          layers.Dense(5, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
watch = EvalEveryN((x[5000:], y[5000:]), n=200)
model.fit(x[:5000], y[:5000], batch_size=25, epochs=6, callbacks=[watch], verbose=2)
