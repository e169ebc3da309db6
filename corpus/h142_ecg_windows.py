import os
os.environ["KERAS_BACKEND"] = "jax"
import tempfile
import time

import numpy as np
import keras
from keras import layers


def recordings(n, length, seed):
    rng = np.random.default_rng(seed)
    rate = rng.uniform(3, 9, n)
    y = (rate > 6).astype("float32")
    t = np.linspace(0, 1, length)
    x = np.sin(2 * np.pi * rate[:, None] * t + rng.uniform(0, 6, (n, 1))) + rng.normal(size=(n, length))
    return (x * rng.uniform(0.5, 2.0, (n, 1))).astype("float32"), y


class Windows(keras.utils.PyDataset):
    def __init__(self, x, y, batch_size, shuffle=False, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y = x, y
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.rng = np.random.default_rng(0)
        self.on_epoch_end()

    def __len__(self):
        return len(self.x) // self.batch_size

    def on_epoch_end(self):
        n = len(self.x)
        self.order = self.rng.permutation(n) if self.shuffle else np.arange(n)

    def __getitem__(self, i):
        rows = self.order[i * self.batch_size:(i + 1) * self.batch_size]
        x = self.x[rows]
        x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        return x[..., None], self.y[rows]


class BatchCounter(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def on_train_batch_begin(self, batch, logs=None):
        self.started = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        self.last = time.perf_counter() - self.started

    def on_epoch_end(self, epoch, logs=None):
        print("   after %d batches: accuracy %.3f" % (self.seen, logs["accuracy"]))


def network(length):
    inputs = keras.Input((length, 1))
    x = inputs
    for filters in (48, 64):
        x = layers.Conv1D(filters, 7, padding="same", activation="relu")(x)
        x = layers.Conv1D(filters, 7, padding="same", activation="relu")(x)
        x = layers.MaxPooling1D(2)(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


def main(length=512, batch_size=32, epochs=5):
    train = Windows(*recordings(2560, length, 142), batch_size, shuffle=True)
    val = Windows(*recordings(160, length, 1142), batch_size)
    model = network(length)
    model.compile(optimizer=keras.optimizers.Adam(8e-5), loss="binary_crossentropy", metrics=["accuracy"])
    with tempfile.TemporaryDirectory() as folder:
        best = keras.callbacks.ModelCheckpoint(os.path.join(folder, "best.weights.h5"), save_best_only=True,
                                               save_weights_only=True)
        stop = keras.callbacks.EarlyStopping(patience=6)
        t0 = time.time()
        model.fit(train, epochs=epochs, validation_data=val, callbacks=[BatchCounter(), best, stop], verbose=2)
        print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
