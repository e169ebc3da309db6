import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

VOCAB, LENGTH = 4000, 64


def make_news(n, seed):
    r = np.random.default_rng(seed)
    words = np.array(["w%04d" % i for i in range(3500)])
    slant = np.random.default_rng(1).normal(size=3500)
    ids = r.integers(0, 3500, size=(n, 48))
    score = slant[ids].sum(axis=1) + 1.0 * r.normal(size=n)
    texts = np.array([" ".join(words[row]) for row in ids])
    return texts, (score > 0).astype("int32")


texts, labels = make_news(14000, 0)
val_texts, val_labels = make_news(1500, 5)

vectorize = layers.TextVectorization(max_tokens=VOCAB, output_sequence_length=LENGTH)
vectorize.adapt(tf.data.Dataset.from_tensor_slices(texts).batch(512))


def pipeline(t, y, training):
    ds = tf.data.Dataset.from_tensor_slices((t, y)).batch(64)
    ds = ds.map(lambda a, b: (vectorize(a), b), num_parallel_calls=tf.data.AUTOTUNE).cache()
    if training:
        ds = ds.shuffle(64)
    return ds.prefetch(tf.data.AUTOTUNE)


inp = keras.Input((LENGTH,), dtype="int64")
h = layers.Embedding(VOCAB, 48)(inp)
h = layers.Conv1D(96, 5, padding="same", activation="relu")(h)
h = layers.Conv1D(96, 5, padding="same", activation="relu")(h)
h = layers.GlobalAveragePooling1D()(h)
h = layers.Dense(32, activation="relu")(h)
model = keras.Model(inp, layers.Dense(1, activation="sigmoid")(h))
model.compile(optimizer=keras.optimizers.Adam(4e-4), loss="binary_crossentropy", metrics=["accuracy", keras.metrics.AUC()])

log = os.path.join(tempfile.mkdtemp(), "titles.csv")
callbacks = [
    keras.callbacks.CSVLogger(log),
    keras.callbacks.LambdaCallback(on_epoch_end=lambda e, l: print("epoch %d auc %.4f" % (e, l["auc"]))),
]
t0 = time.time()
model.fit(pipeline(texts, labels, True), validation_data=pipeline(val_texts, val_labels, False),
          epochs=3, callbacks=callbacks, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
