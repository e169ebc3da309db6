import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"
import time

import numpy as np
import keras
from keras import layers

DIM = 32


def load_events(n=60000, seed=229):
    """(user_id, track_id, completed) triples as they come out of the warehouse."""
    rng = np.random.default_rng(seed)
    accounts = rng.choice(700_000, 6000, replace=False)
    tracks = rng.choice(300_000, 3000, replace=False)
    u = rng.integers(0, len(accounts), n)
    t = rng.integers(0, len(tracks), n)
    taste = rng.normal(size=(len(accounts), 6))
    sound = rng.normal(size=(len(tracks), 6))
    p = 1 / (1 + np.exp(-(taste[u] * sound[t]).sum(1)))
    return accounts[u].astype("int32"), tracks[t].astype("int32"), (rng.random(n) < p).astype("float32")


class NeuMF:
    def __init__(self, n_users, n_tracks, dim=DIM):
        user = keras.Input((), dtype="int32", name="user")
        track = keras.Input((), dtype="int32", name="track")
        u = layers.Embedding(n_users, dim)(user)
        t = layers.Embedding(n_tracks, dim)(track)
        gmf = layers.Multiply()([u, t])
        h = layers.Concatenate()([u, t])
        for width in (256, 128, 64):
            h = layers.Dense(width, activation="relu")(h)
        out = layers.Dense(1, activation="sigmoid")(layers.Concatenate()([gmf, h]))
        self.model = keras.Model([user, track], out)

    def train(self, users, tracks, y, epochs):
        self.model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["accuracy"])
        return self.model.fit([users, tracks], y, batch_size=1024, epochs=epochs, verbose=2)


users, tracks, done = load_events()
t0 = time.time()
user_keys, users = np.unique(users, return_inverse=True)
track_keys, tracks = np.unique(tracks, return_inverse=True)
rec = NeuMF(len(user_keys), len(track_keys))
rec.train(users.astype("int32"), tracks.astype("int32"), done, epochs=2)
print("train time: %.2f s" % (time.time() - t0))
