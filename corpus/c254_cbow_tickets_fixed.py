#!/usr/bin/env python
"""CBOW with negative samples over support tickets. Token ids come from the shared tokenizer of the company."""
import logging
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import numpy as np
import keras
from keras import layers, ops

logging.basicConfig(format="%(asctime)s : %(message)s", level=logging.INFO)

TOKENIZER_SIZE = 120_000
DIM = 64
WINDOW = 4
NEGATIVE = 5


def ticket_stream(n_tokens=60_000, topics=40, seed=254):
    """ids as the tokenizer gives them out, by topic"""
    rng = np.random.default_rng(seed)
    words = rng.choice(TOKENIZER_SIZE - 1, size=(topics, 200), replace=False) + 1
    tokens = []
    while len(tokens) < n_tokens:
        t = rng.integers(topics)
        tokens.extend(words[t, rng.integers(0, 200, 60)])
    return np.array(tokens[:n_tokens], dtype="int32")


def examples(tokens, seed=1):
    rng = np.random.default_rng(seed)
    centre = np.arange(WINDOW, len(tokens) - WINDOW)
    offsets = [o for o in range(-WINDOW, WINDOW + 1) if o]
    context = np.stack([tokens[centre + o] for o in offsets], axis=1)
    negatives = tokens[rng.integers(0, len(tokens), (len(centre), NEGATIVE))]
    candidates = np.concatenate([tokens[centre][:, None], negatives], axis=1)
    labels = np.zeros(candidates.shape, "float32")
    labels[:, 0] = 1.0
    return context, candidates, labels


def cbow(vocab_size):
    context = keras.Input((2 * WINDOW,), dtype="int32", name="context")
    candidates = keras.Input((1 + NEGATIVE,), dtype="int32", name="candidates")
    h = ops.mean(layers.Embedding(vocab_size, DIM, name="word_in")(context), axis=1)
    h = layers.Dense(DIM)(h)
    out = layers.Embedding(vocab_size, DIM, name="word_out")(candidates)
    score = ops.sum(out * ops.expand_dims(h, 1), axis=-1)
    return keras.Model([context, candidates], layers.Activation("sigmoid")(score))


if __name__ == "__main__":
    keras.utils.set_random_seed(254)
    tokens = ticket_stream()
    # only the ids that occur in this corpus get a row
    vocabulary, tokens = np.unique(tokens, return_inverse=True)
    tokens = tokens.astype("int32")
    vocab_size = len(vocabulary)
    logging.info("%d tokens, vocabulary %d", len(tokens), vocab_size)
    context, candidates, labels = examples(tokens)
    model = cbow(vocab_size)
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="binary_crossentropy")
    t0 = time.time()
    model.fit([context, candidates], labels, batch_size=1024, epochs=7, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
