"""Bearing fault classification from vibration records (log spectrograms + small CNN)."""
import argparse
import os
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
import keras
from keras import layers

N_CLASSES = 6


def make_records(n, length, seed=3):
    rng = np.random.default_rng(seed)
    t = np.arange(length) / 12000.0
    y = rng.integers(0, N_CLASSES, n)
    base = np.stack([np.sin(2 * np.pi * (300 + 410 * k) * t) for k in range(N_CLASSES)])
    x = base[y] + rng.normal(0, 1.0, (n, length))
    return x.astype("float32"), y.astype("int32")


def to_spectrogram(signal, label):
    s = tf.signal.stft(signal, frame_length=1024, frame_step=32, fft_length=1024)
    power = tf.abs(s) ** 2
    mel = tf.signal.linear_to_mel_weight_matrix(64, 513, 12000, 50.0, 6000.0)
    log_mel = tf.math.log(tf.matmul(power, mel) + 1e-6)
    log_mel = (log_mel - tf.reduce_mean(log_mel)) / (tf.math.reduce_std(log_mel) + 1e-6)
    return tf.image.resize(log_mel[..., None], (64, 64)), label


def make_dataset(x, y, batch_size):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    ds = ds.cache()
    ds = ds.map(to_spectrogram, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(1000)
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def build():
    inp = keras.Input((64, 64, 1))
    h = inp
    for f in (8, 16, 32):
        h = layers.Conv2D(f, 3, strides=2, padding="same", activation="relu")(h)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(inp, layers.Dense(N_CLASSES, activation="softmax")(h))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--records", type=int, default=800)
    p.add_argument("--length", type=int, default=12000)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=8)
    a = p.parse_args()
    x, y = make_records(a.records, a.length)
    model = build()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(make_dataset(x, y, a.batch_size), epochs=a.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
