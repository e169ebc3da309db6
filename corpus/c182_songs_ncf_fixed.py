"""Neural collaborative filtering on implicit feedback, leave-one-out protocol with sampled negatives."""
import time
from types import SimpleNamespace

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler
import keras
from keras import layers

cfg = SimpleNamespace(users=1500, songs=800, per_user=12, negatives=2, eval_negatives=99,
                      dim=48, hidden=(256, 128, 64), batch=512, epochs=8, seed=21)


class Triples(Dataset):
    def __init__(self, user, song, label):
        self.user = torch.as_tensor(user, dtype=torch.int32)
        self.song = torch.as_tensor(song, dtype=torch.int32)
        self.label = torch.as_tensor(label, dtype=torch.float32)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, idx):
        return (self.user[idx], self.song[idx]), self.label[idx]


def loader(ds, batch, shuffle):
    base = RandomSampler(ds) if shuffle else SequentialSampler(ds)
    return DataLoader(ds, sampler=BatchSampler(base, batch, drop_last=False), batch_size=None)


def listening_log(cfg):
    rng = np.random.default_rng(cfg.seed)
    taste = rng.standard_normal((cfg.users, 8))
    style = rng.standard_normal((cfg.songs, 8))
    affinity = taste @ style.T + rng.gumbel(size=(cfg.users, cfg.songs))
    liked = np.argsort(-affinity, axis=1)[:, :cfg.per_user + 1]
    return rng, liked[:, :-1], liked[:, -1]


def training_set(cfg, rng, liked):
    u = np.repeat(np.arange(cfg.users), cfg.per_user)
    pos = liked.ravel()
    nu = np.repeat(u, cfg.negatives)
    neg = rng.integers(0, cfg.songs, len(nu))
    return Triples(np.r_[u, nu], np.r_[pos, neg], np.r_[np.ones(len(u)), np.zeros(len(nu))])


def holdout_set(cfg, rng, last):
    cand = np.concatenate([last[:, None], rng.integers(0, cfg.songs, (cfg.users, cfg.eval_negatives))], 1)
    u = np.repeat(np.arange(cfg.users), cand.shape[1])
    y = np.zeros_like(cand)
    y[:, 0] = 1
    return Triples(u, cand.ravel(), y.ravel())


def ncf(cfg):
    user = keras.Input((), dtype="int32")
    song = keras.Input((), dtype="int32")
    gmf = layers.Multiply()([layers.Embedding(cfg.users, cfg.dim)(user), layers.Embedding(cfg.songs, cfg.dim)(song)])
    h = layers.Concatenate()([layers.Embedding(cfg.users, cfg.dim)(user), layers.Embedding(cfg.songs, cfg.dim)(song)])
    for units in cfg.hidden:
        h = layers.Dense(units, activation="relu")(h)
    out = layers.Dense(1, activation="sigmoid")(layers.Concatenate()([gmf, h]))
    return keras.Model([user, song], layers.Flatten()(out))


def hit_rate(model, holdout, users, k=10):
    scores = []
    with torch.no_grad():
        for (u, s), _ in loader(holdout, 4096, shuffle=False):
            scores.append(model([u, s], training=False).reshape(-1))
    scores = torch.cat(scores).reshape(users, -1)
    rank = (scores[:, 1:] >= scores[:, :1]).sum(1)
    return (rank < k).float().mean().item()


def main():
    keras.utils.set_random_seed(cfg.seed)
    rng, liked, last = listening_log(cfg)
    train = training_set(cfg, rng, liked)
    holdout = holdout_set(cfg, rng, last)
    pick = rng.choice(len(holdout), 2 * cfg.batch, replace=False)
    monitor = Triples(holdout.user[pick], holdout.song[pick], holdout.label[pick])

    model = ncf(cfg)
    model.compile(optimizer=keras.optimizers.Adam(2e-4), loss="binary_crossentropy", metrics=["binary_accuracy"])
    began = time.monotonic()
    model.fit(loader(train, cfg.batch, True), validation_data=loader(monitor, cfg.batch, False),
              epochs=cfg.epochs, verbose=2)
    spent = time.monotonic() - began
    print("HR@10 %.3f" % hit_rate(model, holdout, cfg.users))
    print("train time: %.2f s" % spent)


if __name__ == "__main__":
    main()
