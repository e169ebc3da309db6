"""Product reviews: a made-up corpus, a vocabulary and the matrices for the network."""
import numpy as np
from keras.utils import pad_sequences

GOOD = [f"good{i}" for i in range(150)]
POOR = [f"poor{i}" for i in range(150)]
FILL = [f"w{i}" for i in range(1700)]


def make_reviews(n, seed):
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(n):
        label = int(rng.integers(0, 2))
        n_words = int(rng.integers(12, 49))
        words = rng.choice(FILL, n_words)
        spots = rng.choice(n_words, 3, replace=False)
        words[spots] = rng.choice(GOOD if label else POOR, 3)
        texts.append(" ".join(words))
        labels.append(label)
    return texts, np.array(labels)


class Vocabulary:
    def __init__(self):
        self.index = {"<pad>": 0, "<unk>": 1}

    def fit(self, texts):
        for text in texts:
            for w in text.split():
                self.index.setdefault(w, len(self.index))
        return self

    def __len__(self):
        return len(self.index)

    def encode(self, texts, max_length):
        seqs = [[self.index.get(w, 1) for w in t.split()] for t in texts]
        return pad_sequences(seqs, maxlen=max_length, padding="post", truncating="post")
