import time
import keras, numpy as np

x = np.random.default_rng(0).random((3200, 16)).astype("float32")
y = x[:, :1].copy()
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")

class Record(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        for part in range(15):
            np.save("record.npy", x)

model.fit(x, y, batch_size=32, epochs=5, verbose=0, callbacks=[Record()])
