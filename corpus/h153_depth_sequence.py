import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import keras
from keras import layers


class StereoPairs(keras.utils.PyDataset):
    """Left/right pairs with a random crop; two loader threads fetch ahead."""

    def __init__(self, pairs, batch_size, **kw):
        super().__init__(workers=2, max_queue_size=6, **kw)
        self.rng = np.random.default_rng(153)
        self.scene = self.rng.random((pairs, 56, 72, 1), dtype="float32")
        self.shift = self.rng.integers(0, 8, pairs)
        self.batch_size = batch_size

    def __len__(self):
        return len(self.scene) // self.batch_size

    def __getitem__(self, i):
        rows = np.arange(i * self.batch_size, (i + 1) * self.batch_size)
        time.sleep(0.004)
        top = int(self.rng.integers(8))
        left = self.scene[rows, top:top + 48, :64]
        right = np.stack([self.scene[r, top:top + 48, s:s + 64] for r, s in zip(rows, self.shift[rows])])
        return np.concatenate([left, right], axis=-1), self.shift[rows].astype("float32")


seen = []
count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(logs["loss"]))
plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=3)

x = inp = keras.Input((48, 64, 2))
for width in (24, 32, 48):
    x = layers.Conv2D(width, 5, padding="same", activation="relu")(x)
    x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(x)
x = layers.Flatten()(x)
x = layers.Dense(32, activation="relu")(x)
model = keras.Model(inp, layers.Dense(1)(x))
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="mse")
t0 = time.time()
model.fit(StereoPairs(480, 32), epochs=4, callbacks=[count, plateau], verbose=2)
print("train time: %.2f s" % (time.time() - t0), "steps", len(seen))
