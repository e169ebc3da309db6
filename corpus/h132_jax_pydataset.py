import os
os.environ["KERAS_BACKEND"] = "jax"
import math
import tempfile
import time

import numpy as np
import keras
from keras import layers, ops

keras.utils.set_random_seed(132)


class WindowSequence(keras.utils.PyDataset):
    """windows of a long recording, cut out on the fly"""

    def __init__(self, signal, starts, length, batch_size, shuffle=True, **kwargs):
        super().__init__(**kwargs)
        self.signal, self.starts, self.length = signal, starts.copy(), length
        self.batch_size, self.shuffle = batch_size, shuffle
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return len(self.starts) // self.batch_size

    def __getitem__(self, idx):
        s = self.starts[idx * self.batch_size:(idx + 1) * self.batch_size]
        x = self.signal[s[:, None] + np.arange(self.length)]
        y = (x[:, -1, 0] > 0).astype("float32")[:, None]
        return x, y

    def on_epoch_end(self):
        if self.shuffle:
            self.rng.shuffle(self.starts)


@keras.saving.register_keras_serializable()
class PositionalEncoding(layers.Layer):
    def build(self, shape):
        length, dim = shape[1], shape[2]
        pos = np.arange(length)[:, None] / np.power(10000, (2 * (np.arange(dim) // 2) / dim))[None]
        table = np.where(np.arange(dim) % 2 == 0, np.sin(pos), np.cos(pos)).astype("float32")
        self.table = self.add_weight(shape=(length, dim), trainable=False, name="table",
                                     initializer=lambda s, dtype=None: ops.convert_to_tensor(table))

    def call(self, x):
        return x + self.table


def encoder_block(x, heads, dim):
    a = layers.MultiHeadAttention(heads, dim // heads)(x, x)
    x = layers.LayerNormalization()(x + a)
    f = layers.Dense(dim * 4, activation="gelu")(x)
    return layers.LayerNormalization()(x + layers.Dense(dim)(f))


class Chatty(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.t = time.time()

    def on_epoch_end(self, epoch, logs=None):
        lr = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        print("[%5.1f s] epoch %d lr %.2g " % (time.time() - self.t, epoch, lr) +
              " ".join("%s=%.4f" % kv for kv in logs.items()))


def schedule(epoch):
    return 3e-4 * 0.5 * (1 + math.cos(math.pi * epoch / 10))


rng = np.random.default_rng(132)
signal = rng.normal(size=(60000, 8)).astype("float32").cumsum(0) * np.float32(0.01)
starts = rng.integers(0, 60000 - 96, 832)
train = WindowSequence(signal, starts[:768], 96, 32)
val = WindowSequence(signal, starts[768:], 96, 32, shuffle=False)

inp = keras.Input((96, 8))
x = layers.Dense(128)(inp)
x = PositionalEncoding()(x)
for _ in range(3):
    x = encoder_block(x, 4, 128)
x = layers.GlobalAveragePooling1D()(x)
model = keras.Model(inp, layers.Dense(1, activation="sigmoid")(x))
model.compile(optimizer=keras.optimizers.AdamW(3e-4), loss="binary_crossentropy", metrics=["accuracy"])

folder = tempfile.mkdtemp()
t0 = time.time()
model.fit(train, validation_data=val, epochs=3, verbose=0, callbacks=[
    Chatty(),
    keras.callbacks.LearningRateScheduler(schedule),
    keras.callbacks.ModelCheckpoint(os.path.join(folder, "m.weights.h5"), save_weights_only=True,
                                    save_best_only=True),
    keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
])
print("train time: %.2f s" % (time.time() - t0))
