"""Electricity load, next 24 hours from the last week, small transformer."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(4)
PAST, AHEAD, DIM = 168, 24, 64

rng = np.random.default_rng(40)
hours = np.arange(6000)
load = 10 + 3 * np.sin(2 * np.pi * hours / 24) + 1.5 * np.sin(2 * np.pi * hours / 168)
load = (load + rng.normal(0, 0.3, 6000) - 10) / 3
windows = np.lib.stride_tricks.sliding_window_view(load, PAST + AHEAD)[::4].astype("float32")
cut = int(len(windows) * 0.85)
train, val = windows[:cut], windows[cut:]


def block(x):
    h = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(4, DIM // 4, dropout=0.1)(h, h)
    h = layers.LayerNormalization()(x)
    return x + layers.Dense(DIM)(layers.Dense(2 * DIM, activation="gelu")(h))


inp = keras.Input((PAST, 1))
x = layers.Dense(DIM)(inp)
x = x + layers.Embedding(PAST, DIM)(np.arange(PAST))
for _ in range(1):
    x = block(x)
x = layers.LayerNormalization()(x[:, -AHEAD:])
out = layers.Reshape((AHEAD,))(layers.Dense(1)(x))
model = keras.Model(inp, out)

steps = 10 * int(np.ceil(cut / 32))
schedule = keras.optimizers.schedules.CosineDecay(0.0, steps, warmup_target=5e-4, warmup_steps=40)
model.compile(optimizer=keras.optimizers.AdamW(schedule, clipnorm=1.0), loss="huber", metrics=["mae"])

t0 = time.time()
model.fit(train[:, :PAST, None], train[:, PAST:], batch_size=32, epochs=5,
          validation_data=(val[:, :PAST, None], val[:, PAST:]),
          callbacks=[keras.callbacks.CSVLogger("load_log.csv"),
                     keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True),
                     keras.callbacks.TerminateOnNaN()],
          verbose=2)
print("train time: %.2f s" % (time.time() - t0))
