import os
os.environ["KERAS_BACKEND"] = "jax"
import time
import numpy as np
import keras
from keras import layers, ops

BATCH = 1024


def load_interactions(n=80_896, seed=66):
    rng = np.random.default_rng(seed)
    accounts = rng.choice(np.arange(1000, 260_000), 6000, replace=False)
    articles = rng.choice(np.arange(1, 140_000), 2500, replace=False)
    u = rng.integers(0, len(accounts), n)
    i = rng.integers(0, len(articles), n)
    taste, style = rng.normal(size=(6000, 4)), rng.normal(size=(2500, 4))
    stars = 3.0 + rng.normal(size=6000)[u] * 0.5 + rng.normal(size=2500)[i] * 0.5
    stars = stars + 0.3 * (taste[u] * style[i]).sum(axis=1) + 0.2 * rng.normal(size=n)
    return {"account": accounts[u].astype("int32"), "article": articles[i].astype("int32"),
            "stars": stars.astype("float32")}


class TwoTower(keras.Model):
    def __init__(self, n_accounts, n_articles, dim=32):
        super().__init__()
        self.account_vec = layers.Embedding(n_accounts, dim)
        self.article_vec = layers.Embedding(n_articles, dim)
        self.hidden = [layers.Dense(u, activation="relu") for u in (512, 384)]
        self.score = layers.Dense(1)

    def call(self, inputs):
        a = self.account_vec(inputs["account"])
        b = self.article_vec(inputs["article"])
        h = ops.concatenate([a, b], axis=-1)
        for layer in self.hidden:
            h = layer(h)
        return self.score(h) + ops.sum(a * b, axis=-1, keepdims=True)


def split(table, n_valid):
    def part(sl):
        return {k: table[k][sl] for k in ("account", "article")}, table["stars"][sl][:, None]
    return part(slice(n_valid, None)), part(slice(0, n_valid))


keras.utils.set_random_seed(66)
table = load_interactions()
sizes = {}
for column in ("account", "article"):
    known, table[column] = np.unique(table[column], return_inverse=True)
    table[column] = table[column].astype("int32")
    sizes[column] = len(known)
(x, y), valid = split(table, 4096)
model = TwoTower(n_accounts=sizes["account"], n_articles=sizes["article"])
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
t0 = time.time()
model.fit(x, y, batch_size=BATCH, epochs=4, validation_data=valid, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
