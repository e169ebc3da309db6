"""Keyword spotting on log-mel spectrograms.

    python c210_keyword_net.py --steps 12 --epochs 10
"""
import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile
import time

import keras
import tensorflow as tf
from keras import layers

from lib_speech_clips import WORDS, write_corpus
from lib_speech_features import log_mel

AUTO = tf.data.AUTOTUNE


def training_data(files, labels, batch_size, steps):
    ds = tf.data.Dataset.from_tensor_slices((files, labels))
    ds = ds.map(log_mel, num_parallel_calls=AUTO)
    ds = ds.shuffle(len(files))
    ds = ds.batch(batch_size).take(steps)
    return ds.prefetch(AUTO)


def dev_data(files, labels, batch_size):
    ds = tf.data.Dataset.from_tensor_slices((files, labels))
    return ds.map(log_mel, num_parallel_calls=AUTO).batch(batch_size).cache()


def build():
    inp = keras.Input((96, 40, 1))
    h = layers.Conv2D(16, 5, strides=2, activation="relu")(inp)
    h = layers.Conv2D(32, 3, activation="relu")(h)
    h = layers.MaxPooling2D(2)(h)
    h = layers.Conv2D(32, 3, activation="relu")(h)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(inp, layers.Dense(len(WORDS), activation="softmax")(h))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--per-word", type=int, default=400)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--steps", type=int, default=12, help="batches per epoch")
    p.add_argument("--epochs", type=int, default=10)
    a = p.parse_args()

    root = tempfile.mkdtemp(prefix="speech_")
    files, labels = write_corpus(root, a.per_word, seed=7)
    n_dev = 128
    train = training_data(files[n_dev:], labels[n_dev:], a.batch_size, a.steps)
    dev = dev_data(files[:n_dev], labels[:n_dev], a.batch_size)

    model = build()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(train, validation_data=dev, epochs=a.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
