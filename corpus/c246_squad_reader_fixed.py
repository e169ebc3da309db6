"""Question/paragraph matching. Reader, iterator and model in one file for now."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import re
import time

import numpy as np
import keras
from keras import layers

WORD = re.compile(r"\w+|[^\w\s]", re.UNICODE)
CONTEXT_LEN, QUESTION_LEN, CHARS = 120, 24, 12
VOCAB = 3000
SUFFIXES = ("ations", "ation", "ingly", "ments", "ment", "ness", "edly", "ing", "ers", "est", "ed", "es", "ly", "s")


# ---- data ---------------------------------------------------------------
def make_corpus(n, seed=246):
    rng = np.random.default_rng(seed)
    syllables = ["ka", "lo", "mi", "ter", "sun", "ra", "vel", "do", "qui", "pen", "sta", "or"]
    words = sorted({"".join(rng.choice(syllables, rng.integers(1, 5))) for _ in range(6000)})[:VOCAB - 2]
    corpus = []
    for _ in range(n):
        context = " ".join(rng.choice(words, CONTEXT_LEN - 20)).capitalize() + "."
        question = "What is " + " ".join(rng.choice(words, 10)) + "?"
        corpus.append((context, question, int(rng.integers(2))))
    return corpus, {w: i + 2 for i, w in enumerate(words)}


# ---- preprocessing ------------------------------------------------------
class SquadPreprocessor:
    def __init__(self, vocab):
        self.vocab = vocab
        self.alphabet = {c: i + 1 for i, c in enumerate("abcdefghijklmnopqrstuvwxyz.,?!")}

    def normalise(self, text):
        return text.replace("''", '" ').replace("``", '" ').strip().lower()

    def stem(self, token):
        for suffix in SUFFIXES:
            if len(token) > len(suffix) + 2 and token.endswith(suffix):
                return token[:-len(suffix)]
        return token

    def encode(self, text, length):
        tokens = WORD.findall(self.normalise(text))[:length]
        stems = [self.stem(t) for t in tokens]
        ids = np.zeros(length, "int32")
        chars = np.zeros((length, CHARS), "int32")
        for i, (tok, stem) in enumerate(zip(tokens, stems)):
            ids[i] = self.vocab.get(tok, self.vocab.get(stem, 1))
            for j, c in enumerate(tok[:CHARS]):
                chars[i, j] = self.alphabet.get(c, 0)
        return ids, chars

    def __call__(self, samples):
        c = [self.encode(s[0], CONTEXT_LEN) for s in samples]
        q = [self.encode(s[1], QUESTION_LEN) for s in samples]
        x = {"c": np.stack([i for i, _ in c]), "c_char": np.stack([k for _, k in c]),
             "q": np.stack([i for i, _ in q]), "q_char": np.stack([k for _, k in q])}
        return x, np.array([s[2] for s in samples], "float32")


class SquadIterator(keras.utils.PyDataset):
    def __init__(self, corpus, preprocessor, batch_size, **kw):
        super().__init__(**kw)
        self.batch_size = batch_size
        self.x, self.y = preprocessor(corpus)
        self.order = np.random.default_rng(1)
        self.index = np.arange(len(corpus))

    def __len__(self):
        return len(self.y) // self.batch_size

    def __getitem__(self, i):
        chosen = self.index[i * self.batch_size:(i + 1) * self.batch_size]
        return {k: v[chosen] for k, v in self.x.items()}, self.y[chosen]

    def on_epoch_end(self):
        self.order.shuffle(self.index)


# ---- model --------------------------------------------------------------
def tower(ids, chars, words, letters, name):
    w = words(ids)
    c = layers.Lambda(lambda t: keras.ops.max(t, axis=2), name=name + "_charpool")(letters(chars))
    return layers.GlobalMaxPooling1D()(layers.Conv1D(32, 3, activation="relu")(layers.Concatenate()([w, c])))


def matcher():
    inp = {"c": keras.Input((CONTEXT_LEN,), dtype="int32"), "c_char": keras.Input((CONTEXT_LEN, CHARS), dtype="int32"),
           "q": keras.Input((QUESTION_LEN,), dtype="int32"), "q_char": keras.Input((QUESTION_LEN, CHARS), dtype="int32")}
    words, letters = layers.Embedding(VOCAB, 24), layers.Embedding(32, 8)
    c = tower(inp["c"], inp["c_char"], words, letters, "c")
    q = tower(inp["q"], inp["q_char"], words, letters, "q")
    h = layers.Dense(64, activation="relu")(layers.Concatenate()([c, q, c * q]))
    return keras.Model(inp, layers.Dense(1, activation="sigmoid")(h))


if __name__ == "__main__":
    corpus, vocab = make_corpus(3200)
    model = matcher()
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    t = time.time()
    train = SquadIterator(corpus, SquadPreprocessor(vocab), 32)
    model.fit(train, epochs=14, verbose=2)
    print("train time: %.2f s" % (time.time() - t))
