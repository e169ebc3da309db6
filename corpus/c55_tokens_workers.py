import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import random
import keras
import numpy as np
from keras import layers

random.seed(55)
WORDS = ["w%d" % i for i in range(3000)]
reviews = [" ".join(random.choices(WORDS, k=220)) for _ in range(1600)]
stars = [random.randint(0, 1) for _ in reviews]
vocab = {w: i + 1 for i, w in enumerate(WORDS)}


def tokenize(text):
    ids = []
    for token in text.lower().split():
        token = "".join(ch for ch in token if ch.isalnum())
        ids.append(vocab.get(token, 0))
    return ids[:200]


class ReviewSequence(keras.utils.PyDataset):
    def __init__(self, texts, labels, batch_size, **kw):
        super().__init__(**kw)
        self.texts, self.labels, self.bs = texts, labels, batch_size

    def __len__(self):
        return len(self.texts) // self.bs

    def __getitem__(self, idx):
        rows = range(idx * self.bs, (idx + 1) * self.bs)
        return np.array([tokenize(self.texts[i]) for i in rows]), np.array([self.labels[i] for i in rows])


model = keras.Sequential([keras.Input((200,), dtype="int32"), layers.Embedding(3001, 32), layers.GlobalAveragePooling1D(),
                          layers.Dense(16, activation="relu"), layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy")
model.fit(ReviewSequence(reviews, stars, 32, workers=4, max_queue_size=10), epochs=5, verbose=2)
