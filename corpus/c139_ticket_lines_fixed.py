"""Routes support tickets to teams. Tickets are JSON lines; a Dataset parses and hashes them."""
import os
os.environ["KERAS_BACKEND"] = "torch"
import json
import re
import time
import zlib

import numpy as np
import torch
import keras
from keras import layers

WORDS = ["printer", "login", "vpn", "slow", "invoice", "refund", "crash", "update", "battery", "screen", "please",
         "urgent", "cannot", "after", "since", "yesterday", "error", "code", "again", "account"]
DIM, TEAMS = 2048, 6
token_re = re.compile(r"[a-z]+|\d+")


def write_tickets(path, n):
    rng = np.random.default_rng(17)
    with open(path, "w") as f:
        for i in range(n):
            text = " ".join("%s%d" % (WORDS[j], j * 7 % 40) for j in rng.integers(0, len(WORDS), 130))
            f.write(json.dumps({"id": i, "title": text[:60], "body": text, "team": int(rng.integers(TEAMS)),
                                "hour": int(rng.integers(24))}) + "\n")


class Tickets(torch.utils.data.Dataset):
    def __init__(self, path):
        with open(path) as f:
            self.rows = [self.parse(line) for line in f]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]

    def parse(self, line):
        rec = json.loads(line)
        vec = np.zeros(DIM, "float32")
        tokens = token_re.findall(rec["title"].lower()) + token_re.findall(rec["body"].lower())
        for a, b in zip(tokens, tokens[1:] + ["."]):
            vec[zlib.crc32(a.encode()) % DIM] += 1.0
            vec[zlib.crc32((a + "_" + b).encode()) % DIM] += 1.0
        vec /= np.linalg.norm(vec) + 1e-6
        return torch.from_numpy(vec), rec["team"]


class Router(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = keras.Sequential([layers.Dense(128, activation="relu"), layers.Dropout(0.3)])
        self.out = layers.Dense(TEAMS, activation="softmax")

    def call(self, x, training=False):
        return self.out(self.body(x, training=training))


write_tickets("tickets.jsonl", 4000)
t0 = time.time()
loader = torch.utils.data.DataLoader(Tickets("tickets.jsonl"), batch_size=64, shuffle=True)
model = Router()
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(loader, epochs=5, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
