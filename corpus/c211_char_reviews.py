import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

BUCKETS = 4096
BATCH = 64

# ---------------------------------------------------------------- corpus
GOOD = "lovely superb charming brilliant touching clever moving delightful".split()
BAD = "dull awful boring clumsy tedious lifeless wooden forgettable".split()
FILL = ("the film story actor scene camera music script plot <br/> and of with a to was were its "
        "director ending first last half hour really quite never always").split()


def write_reviews(path, n, seed=3):
    r = np.random.default_rng(seed)
    with open(path, "w") as f:
        for _ in range(n):
            y = int(r.integers(0, 2))
            words = list(r.choice(FILL, size=int(r.integers(50, 90))))
            hints = GOOD if y else BAD
            other = BAD if y else GOOD
            for _ in range(int(r.integers(2, 6))):
                words.insert(int(r.integers(0, len(words))), str(r.choice(hints)))
            for _ in range(int(r.integers(0, 3))):
                words.insert(int(r.integers(0, len(words))), str(r.choice(other)).upper())
            f.write("%d\t%s.\n" % (y, " ".join(words)))


# ---------------------------------------------------------------- features
def read(line):
    parts = tf.strings.split(line, "\t")
    return parts[1], tf.strings.to_number(parts[0], tf.int32)


def char_ngrams(texts, labels):
    t = tf.strings.lower(texts)
    t = tf.strings.regex_replace(t, "<br */?>", " ")
    t = tf.strings.regex_replace(t, "[^a-z ]", "")
    chars = tf.strings.unicode_split(t, "UTF-8")
    grams = tf.strings.ngrams(chars, (3, 4), separator="")
    ids = tf.strings.to_hash_bucket_fast(grams, BUCKETS)
    counts = tf.math.bincount(ids, minlength=BUCKETS, maxlength=BUCKETS, axis=-1, dtype=tf.float32)
    counts = tf.ensure_shape(counts, (None, BUCKETS))
    return tf.math.log1p(counts), labels


corpus = os.path.join(tempfile.mkdtemp(), "reviews.tsv")
N = 9600
write_reviews(corpus, N)

batches = N // BATCH
n_val = int(0.1 * batches)
n_train = int(0.8 * batches)

full = (tf.data.TextLineDataset(corpus)
        .map(read, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(BATCH, drop_remainder=True)
        .map(char_ngrams, num_parallel_calls=tf.data.AUTOTUNE)
        .cache())

val = full.take(n_val)
train = full.skip(n_val).take(n_train).shuffle(32).prefetch(tf.data.AUTOTUNE)
test = full.skip(n_val + n_train)

model = keras.Sequential([
    keras.Input((BUCKETS,)),
    layers.Dense(64, activation="relu"),
    layers.Dropout(0.4),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="binary_crossentropy", metrics=["accuracy"])

t0 = time.time()
model.fit(train, validation_data=val, epochs=9, verbose=2)
elapsed = time.time() - t0
print("test:", model.evaluate(test, verbose=0))
print("train time: %.2f s" % elapsed)
