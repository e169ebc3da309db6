from dataclasses import dataclass
import time

import keras
from keras import layers
import numpy as np
import tensorflow as tf

from lib_tickets import MAX_LEN, TicketEncoder


@dataclass
class Config:
    n_mail: int = 5000
    n_chat: int = 3000
    steps: int = 150
    epochs: int = 5
    batch: int = 48
    seed: int = 5


SYL = ["ba", "co", "der", "fi", "gra", "hu", "lin", "mo", "ne", "per", "ran", "sto", "tur", "vel", "wo", "ka"]
ENDINGS = ["", "", "", "ing", "ed", "ly", "s"]


def vocabulary(rng, n):
    words = set()
    while len(words) < n:
        words.add("".join(rng.choice(SYL, rng.integers(2, 4))))
    return sorted(words)


def make_tickets(rng, words, n, lo, hi, classes=5):
    texts, labels = [], rng.integers(0, classes, n)
    part = len(words) // classes
    for y in labels:
        k = rng.integers(lo, hi)
        own = rng.integers(y * part, (y + 1) * part, k)
        any_ = rng.integers(0, len(words), k)
        pick = np.where(rng.random(k) < 0.2, own, any_)
        toks = [words[i] + ENDINGS[j] for i, j in zip(pick, rng.integers(0, len(ENDINGS), k))]
        toks[0] = toks[0].capitalize()
        toks[k // 2] += ", https://help.example.org/t/%d" % rng.integers(1e6)
        toks[-1] += " #%d." % rng.integers(1e5)
        texts.append(" ".join(toks))
    return tf.data.Dataset.from_tensor_slices((texts, labels)).shuffle(n).repeat()


def pad(ids, label):
    return ids.to_tensor(0, shape=(None, MAX_LEN)), label


cfg = Config()
keras.utils.set_random_seed(cfg.seed)
rng = np.random.default_rng(cfg.seed)
words = vocabulary(rng, 1500)
enc = TicketEncoder(words)
mail = make_tickets(rng, words, cfg.n_mail, 90, 150)
chat = make_tickets(rng, words, cfg.n_chat, 50, 120)

train = (
    tf.data.Dataset.sample_from_datasets([mail, chat], weights=[0.65, 0.35], seed=cfg.seed)
    .map(enc.encode, num_parallel_calls=tf.data.AUTOTUNE)
    .ragged_batch(cfg.batch)
    .map(pad, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)

tokens = keras.Input((MAX_LEN,), dtype="int32")
h = layers.Embedding(enc.size, 32)(tokens)
h = layers.Conv1D(48, 5, activation="relu")(h)
h = layers.GlobalMaxPooling1D()(h)
h = layers.Dropout(0.2)(h)
router = keras.Model(tokens, layers.Dense(5, activation="softmax")(h))
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(router.trainable_variables)
cross_entropy = keras.losses.SparseCategoricalCrossentropy()
loss_mean, accuracy = keras.metrics.Mean(), keras.metrics.SparseCategoricalAccuracy()


@tf.function
def update(ids, label):
    with tf.GradientTape() as tape:
        p = router(ids, training=True)
        loss = cross_entropy(label, p)
    grads = tape.gradient(loss, router.trainable_variables)
    optimizer.apply_gradients(zip(grads, router.trainable_variables))
    loss_mean.update_state(loss)
    accuracy.update_state(label, p)


start = time.perf_counter()
batches = iter(train)
for epoch in range(cfg.epochs):
    for _ in range(cfg.steps):
        ids, label = next(batches)
        update(ids, label)
    print(f"epoch {epoch + 1}: loss {float(loss_mean.result()):.4f} accuracy {float(accuracy.result()):.4f}")
    loss_mean.reset_state()
    accuracy.reset_state()
print(f"train time: {time.perf_counter() - start:.2f} s")
