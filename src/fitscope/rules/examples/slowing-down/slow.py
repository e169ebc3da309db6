import keras, numpy as np

x = np.random.default_rng(0).random((3200, 16)).astype("float32")

class Remember(keras.callbacks.Callback):
    seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(logs["loss"])
        self.mean = sum(sorted(self.seen * 100)) / len(self.seen)

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=8, epochs=6, verbose=0, callbacks=[Remember()])
