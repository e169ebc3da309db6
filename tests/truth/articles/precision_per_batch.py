import keras
import numpy as np

x = np.random.default_rng(0).random((2560, 20)).astype("float32")
y = (x.sum(axis=1) > 10).astype("float32")
x_val, y_val = x[:640], y[:640]


class Precision(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        predicted = self.model.predict(x_val[batch : batch + 32], verbose=0)[:, 0] > 0.5
        true = y_val[batch : batch + 32] > 0.5
        self.precision = np.sum(predicted & true) / max(1, np.sum(predicted))


model = keras.Sequential(
    [keras.Input((20,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy")
model.fit(x, y, epochs=1, verbose=0, validation_data=(x_val, y_val), callbacks=[Precision()])
