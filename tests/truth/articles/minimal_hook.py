import keras
import numpy as np

x = np.random.default_rng(0).random((6400, 20)).astype("float32")
y = (x.sum(axis=1) > 10).astype("float32")


class Minimal(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch % 100 == 0:
            print(f"batch {batch} is done")


model = keras.Sequential(
    [keras.Input((20,)), keras.layers.Dense(512, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy")
model.fit(x, y, epochs=10, verbose=0, callbacks=[Minimal()])
