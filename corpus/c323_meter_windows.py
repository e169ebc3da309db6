import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

HISTORY, HORIZON, METERS, HOURS = 96, 12, 8, 1500


def read_meters():
    rng = np.random.default_rng(323)
    h = np.arange(HOURS)
    out = []
    for _ in range(METERS):
        base = 2 + np.sin(2 * np.pi * (h + rng.integers(24)) / 24) + 0.4 * np.sin(2 * np.pi * h / 168)
        temp = 10 + 8 * np.sin(2 * np.pi * h / 24 - 1)
        out.append(np.stack([base + 0.2 * rng.normal(size=HOURS), temp / 20], axis=1))
    return np.array(out, "float32")


meters = read_meters()


def windows_of_meter(series):
    rows = tf.data.Dataset.from_tensor_slices(series)
    w = rows.window(HISTORY + HORIZON, shift=1, drop_remainder=True)
    w = w.flat_map(lambda part: part.batch(HISTORY + HORIZON))
    return w.map(lambda part: (part[:HISTORY], part[HISTORY:, 0]))


def make_dataset(batch_size=128):
    ds = tf.data.Dataset.from_tensor_slices(meters)
    ds = ds.interleave(windows_of_meter, cycle_length=METERS, block_length=4)
    return ds.shuffle(512).batch(batch_size).prefetch(2)


def make_model():
    inp = keras.Input((HISTORY, 2))
    x = layers.Conv1D(24, 5, activation="relu")(inp)
    x = layers.MaxPooling1D(2)(x)
    x = layers.Conv1D(24, 5, activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    out = layers.Dense(HORIZON)(x)
    model = keras.Model(inp, out)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mae")
    return model


if __name__ == "__main__":
    ds, model = make_dataset(), make_model()
    begin = time.perf_counter()
    model.fit(ds, epochs=3, verbose=2)
    print("train time: %.2f s" % (time.perf_counter() - begin))
