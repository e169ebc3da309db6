"""Federated averaging over households; every household keeps its own readings."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
from dataclasses import dataclass
import numpy as np
import keras

FEATURES = 16


@dataclass
class Household:
    x: np.ndarray
    y: np.ndarray

    def train(self, model, weights, batch_size, local_epochs):
        model.set_weights(weights)
        model.fit(self.x, self.y, batch_size=batch_size, epochs=local_epochs, verbose=0)
        return model.get_weights(), len(self.x)


class Server:
    def __init__(self, model, households, share=0.4, seed=266):
        self.model = model
        self.households = households
        self.share = share
        self.rng = np.random.default_rng(seed)
        self.weights = model.get_weights()

    def round(self, batch_size=16, local_epochs=1):
        count = max(1, int(self.share * len(self.households)))
        chosen = self.rng.choice(len(self.households), count, replace=False)
        results = [self.households[c].train(self.model, self.weights, batch_size, local_epochs) for c in chosen]
        total = sum(n for _, n in results)
        self.weights = [sum(w[k] * (n / total) for w, n in results) for k in range(len(self.weights))]

    def score(self, x, y):
        self.model.set_weights(self.weights)
        return float(np.mean((self.model.predict_on_batch(x)[:, 0] - y) ** 2))


def make_households(count, rows, seed):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=FEATURES)
    out = []
    for _ in range(count):
        own = base + rng.normal(0, 0.2, FEATURES)
        x = rng.normal(size=(rows, FEATURES)).astype("float32")
        y = np.tanh(x @ own * 0.4) + rng.normal(0, 0.05, rows)
        out.append(Household(x, y.astype("float32")))
    return out


def regressor():
    model = keras.Sequential([
        keras.Input((FEATURES,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(1),
    ])
    model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    return model


if __name__ == "__main__":
    keras.utils.set_random_seed(266)
    everyone = make_households(31, 64, seed=266)
    held_out = everyone.pop()
    server = Server(regressor(), everyone)
    started = time.time()
    for r in range(12):
        server.round()
        if r % 4 == 3:
            print("round %d  mse on a new household %.4f" % (r + 1, server.score(held_out.x, held_out.y)))
    print("train time: %.2f s" % (time.time() - started))
