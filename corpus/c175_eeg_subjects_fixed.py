import argparse
import time

import numpy as np
import keras
from keras import layers


class Trials(keras.utils.PyDataset):
    """Trials of several subjects, z-scored per subject, shuffled between epochs."""

    def __init__(self, signals, labels, subject, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.signals = signals
        self.labels = labels
        self.subject = subject
        self.mean = np.stack([signals[subject == s].mean((0, 1)) for s in np.unique(subject)])
        self.std = np.stack([signals[subject == s].std((0, 1)) for s in np.unique(subject)])
        self.batch_size = batch_size
        self.idx = np.arange(len(labels))
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return len(self.idx) // self.batch_size

    def __getitem__(self, i):
        b = self.idx[i * self.batch_size:(i + 1) * self.batch_size]
        s = self.subject[b]
        x = (self.signals[b] - self.mean[s][:, None]) / self.std[s][:, None]
        return x, self.labels[b]

    def on_epoch_end(self):
        self.rng.shuffle(self.idx)


def make_trials(n, length, channels, seed=6):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    subj = rng.integers(0, 9, n)
    t = np.arange(length) / 250
    x = rng.standard_normal((n, length, channels), dtype=np.float32)
    x += 0.5 * np.sin(2 * np.pi * (8 + 4 * y)[:, None] * t)[..., None].astype("float32")
    x += subj[:, None, None].astype("float32") * 0.2
    return x, y, subj


def eeg_net(length, channels):
    return keras.Sequential([
        keras.Input((length, channels)),
        layers.Conv1D(16, 25, strides=8, activation="elu"),
        layers.BatchNormalization(),
        layers.Conv1D(32, 9, strides=4, activation="elu"),
        layers.BatchNormalization(),
        layers.GlobalAveragePooling1D(),
        layers.Dropout(0.3),
        layers.Dense(4, activation="softmax"),
    ])


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--trials", type=int, default=2560)
    opt = ap.parse_args(argv)
    keras.utils.set_random_seed(0)
    x, y, subj = make_trials(opt.trials, 1000, 22)
    train = Trials(x, y, subj, opt.batch_size)
    model = eeg_net(1000, 22)
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(train, epochs=opt.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
