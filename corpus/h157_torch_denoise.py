import os
os.environ["KERAS_BACKEND"] = "torch"
import time
import numpy as np
import keras
from keras import layers

rng = np.random.default_rng(157)
LENGTH = 512
t = np.arange(LENGTH) / 64
freq = rng.uniform(0.5, 4.0, (1024, 1))
clean = np.sin(2 * np.pi * freq * t + rng.uniform(0, 6, (1024, 1))).astype("float32")[..., None]


class NoisyTones(keras.utils.PyDataset):
    def __len__(self):
        return len(clean) // 64

    def __getitem__(self, i):
        target = clean[64 * i:64 * i + 64]
        return target + rng.standard_normal(target.shape, dtype="float32") * 0.4, target


model = keras.Sequential([
    keras.Input((LENGTH, 1)),
    layers.Conv1D(32, 9, padding="same", activation="relu"),
    layers.Conv1D(48, 9, strides=2, padding="same", activation="relu"),
    layers.Conv1D(64, 9, strides=2, padding="same", activation="relu"),
    layers.Conv1D(64, 9, padding="same", activation="relu"),
    layers.UpSampling1D(2),
    layers.Conv1D(48, 9, padding="same", activation="relu"),
    layers.UpSampling1D(2),
    layers.Conv1D(32, 9, padding="same", activation="relu"),
    layers.Conv1D(1, 9, padding="same"),
])
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")

best = keras.callbacks.EarlyStopping(monitor="loss", patience=4, restore_best_weights=True)
rate = keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.9)
t0 = time.time()
model.fit(NoisyTones(), epochs=5, callbacks=[best, rate], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
