# Default risk on a loan table, keras preprocessing layers + MLP
import time
import numpy as np
import keras
from keras import layers

NUMERIC = ["amount", "rate", "income", "age", "dti", "balance", "util", "score"]
STRINGS = {
    "state": ["ca", "tx", "ny", "fl", "wa", "il", "oh", "ga"],
    "purpose": ["car", "house", "debt", "school", "medical", "other"],
    "grade": list("ABCDEFG"),
    "employer": ["public", "private", "self", "none"],
    "channel": ["web", "branch", "phone", "partner"],
    "term": ["36", "60", "84"],
}


def fake_table(n, rng):
    t = {c: rng.gamma(2.0, 1.5, n).astype("float32") for c in NUMERIC}
    for c, vocab in STRINGS.items():
        t[c] = rng.choice(vocab, n)
    z = t["dti"] - t["score"] + (t["grade"] > "D") * 1.5 + rng.normal(0, 1, n)
    return t, (z > 0.5).astype("float32")


class FeatureSpace:
    def __init__(self, table):
        self.norm, self.bins, self.lookup = {}, {}, {}
        for c in NUMERIC:
            self.norm[c] = layers.Normalization(axis=None)
            self.norm[c].adapt(table[c])
            edges = np.quantile(table[c], np.linspace(0.1, 0.9, 9)).tolist()
            self.bins[c] = layers.Discretization(bin_boundaries=edges, output_mode="one_hot")
        for c, vocab in STRINGS.items():
            self.lookup[c] = layers.StringLookup(vocabulary=vocab, output_mode="one_hot")

    def __call__(self, rows):
        parts = []
        for c in NUMERIC:
            v = rows[c][:, None]
            parts += [np.asarray(self.norm[c](v)), np.asarray(self.bins[c](v))]
        for c in STRINGS:
            parts.append(np.asarray(self.lookup[c](rows[c][:, None])))
        return np.concatenate(parts, axis=1).astype("float32")


class LoanBatches(keras.utils.PyDataset):
    def __init__(self, table, target, features, batch_size=128, seed=0, **kw):
        super().__init__(**kw)
        self.table, self.target, self.features = table, target, features
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)
        self.order = self.rng.permutation(len(target))

    def __len__(self):
        return int(np.ceil(len(self.target) / self.batch_size))

    def __getitem__(self, i):
        pick = self.order[i * self.batch_size:(i + 1) * self.batch_size]
        rows = {c: v[pick] for c, v in self.table.items()}
        return self.features(rows), self.target[pick]

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.target))


def risk_model(dim):
    x = inp = keras.Input((dim,))
    for units in (256, 256, 128):
        x = layers.Dense(units, activation="relu")(x)
        x = layers.Dropout(0.1)(x)
    model = keras.Model(inp, layers.Dense(1, activation="sigmoid")(x), name="risk")
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=[keras.metrics.AUC()])
    return model


if __name__ == "__main__":
    keras.utils.set_random_seed(21)
    rng = np.random.default_rng(21)
    table, target = fake_table(12800, rng)
    features = FeatureSpace(table)
    width = features({c: v[:2] for c, v in table.items()}).shape[1]
    model = risk_model(width)
    t0 = time.time()
    batches = LoanBatches(table, target, features)
    model.fit(batches, epochs=10, verbose=2)
    print(f"train time: {time.time() - t0:.2f} s")
