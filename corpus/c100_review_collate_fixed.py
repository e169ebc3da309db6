import os
os.environ["KERAS_BACKEND"] = "torch"
import re
import time

import keras
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

LENGTH = 100


class Tokenizer:
    def __init__(self, texts):
        words = sorted({w for text in texts[:500] for w in self.split(text)})
        self.index = {w: i + 2 for i, w in enumerate(words)}

    def split(self, text):
        words = re.findall(r"[a-z']+", text.lower())
        return [w[:-3] if w.endswith("ing") else w[:-1] if w.endswith("s") and len(w) > 3 else w for w in words]

    def __call__(self, text):
        ids = [self.index.get(w, 1) for w in self.split(text)][:LENGTH]
        return ids + [0] * (LENGTH - len(ids))


class Reviews(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        stems = ["".join(rng.choice(list("abcdefghiklmnoprstuvw"), rng.integers(3, 8))) for _ in range(1500)]
        words = [s + e for s in stems for e in ("", "s", "ing")]
        self.texts = [" ".join(rng.choice(words, rng.integers(80, 160))).capitalize() + "." for _ in range(n)]
        self.labels = rng.integers(0, 2, n).astype("float32")

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return self.texts[i], self.labels[i]


def main():
    reviews = Reviews(3200, seed=100)
    tokenizer = Tokenizer(reviews.texts)
    model = keras.Sequential([
        keras.Input((LENGTH,), dtype="int32"),
        keras.layers.Embedding(5000, 16),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ])
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    ids = torch.tensor([tokenizer(text) for text in reviews.texts])
    loader = DataLoader(TensorDataset(ids, torch.tensor(reviews.labels)[:, None]), batch_size=64, shuffle=True)
    model.fit(loader, epochs=10, verbose=2)
    print("train time: %.1f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
