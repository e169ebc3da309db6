import os
os.environ["KERAS_BACKEND"] = "jax"
import argparse
import time
import numpy as np
import keras
from keras import layers


def parse_args():
    p = argparse.ArgumentParser(description="customer churn")
    p.add_argument("--epochs", type=int, default=36)
    p.add_argument("--patience", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--width", type=int, default=384)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--seed", type=int, default=65)
    return p.parse_args()


class ChurnExperiment:
    def __init__(self, args):
        self.args = args
        keras.utils.set_random_seed(args.seed)
        self.train_set, self.valid_set = self.load()
        self.model = self.build()

    def load(self, n_train=12032, n_valid=2048, features=60):
        rng = np.random.default_rng(self.args.seed)
        x = rng.normal(size=(n_train + n_valid, features)).astype("float32")
        w = np.zeros(features)
        w[:12] = rng.normal(scale=0.5, size=12)
        logit = x @ w + 0.6 * x[:, 12] * x[:, 13] - 0.4 * x[:, 14] ** 2
        y = (rng.random(len(x)) < 1 / (1 + np.exp(-logit))).astype("float32")[:, None]
        return (x[:n_train], y[:n_train]), (x[n_train:], y[n_train:])

    def build(self):
        model = keras.Sequential([keras.Input((self.train_set[0].shape[1],))])
        for _ in range(3):
            model.add(layers.Dense(self.args.width, activation="relu"))
        model.add(layers.Dense(1))
        model.compile(optimizer=keras.optimizers.Adam(self.args.lr),
                      loss=keras.losses.BinaryCrossentropy(from_logits=True),
                      metrics=[keras.metrics.BinaryAccuracy(threshold=0.0, name="acc")])
        return model

    def run(self):
        stopper = keras.callbacks.EarlyStopping(
            monitor="val_loss", patience=self.args.patience, restore_best_weights=True, verbose=1)
        history = self.model.fit(*self.train_set, batch_size=self.args.batch_size, epochs=self.args.epochs,
                                 validation_data=self.valid_set, validation_batch_size=256,
                                 callbacks=[stopper], verbose=2)
        return min(history.history["val_loss"])


def main():
    exp = ChurnExperiment(parse_args())
    t0 = time.time()
    best = exp.run()
    print("best val_loss %.4f" % best)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
