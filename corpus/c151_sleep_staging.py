"""Sleep stages from 30-second EEG epochs; one file per night."""
import argparse
import os
import time

import keras
import numpy as np
import torch
from keras import layers

RATE = 100
EPOCH = 30 * RATE
STAGES = 5


def prepare_nights(folder, nights, hours, seed=17):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(seed)
    n = hours * 120
    for night in range(nights):
        path = os.path.join(folder, "night_%02d.npy" % night)
        hyp = os.path.join(folder, "night_%02d_stages.npy" % night)
        if os.path.exists(hyp):
            continue
        stages = rng.integers(0, STAGES, n)
        t = np.arange(EPOCH) / RATE
        freq = 2.0 + 3.0 * stages
        eeg = np.sin(2 * np.pi * freq[:, None] * t) + rng.normal(size=(n, EPOCH))
        eeg = np.stack([eeg, np.roll(eeg, 7, axis=1)], axis=-1)
        np.save(path, eeg.reshape(-1, 2).astype("float32"))
        np.save(hyp, stages)


class SleepEpochs(torch.utils.data.Dataset):
    def __init__(self, folder, nights, per_night):
        self.items = []
        rng = np.random.default_rng(1)
        for night in range(nights):
            path = os.path.join(folder, "night_%02d.npy" % night)
            stages = np.load(path.replace(".npy", "_stages.npy"))
            for k in rng.choice(len(stages), per_night, replace=False):
                self.items.append((path, int(k), int(stages[k])))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        path, k, stage = self.items[i]
        recording = np.load(path)
        segment = np.array(recording[k * EPOCH:(k + 1) * EPOCH])
        segment = (segment - segment.mean(0)) / segment.std(0)
        return torch.from_numpy(segment), stage


def build():
    inputs = keras.Input((EPOCH, 2))
    x = layers.Conv1D(24, 25, strides=6, activation="relu")(inputs)
    x = layers.MaxPooling1D(4)(x)
    x = layers.Conv1D(48, 9, strides=2, activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.25)(x)
    return keras.Model(inputs, layers.Dense(STAGES, activation="softmax")(x))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--folder", default="nights")
    p.add_argument("--nights", type=int, default=10)
    p.add_argument("--hours", type=int, default=4)
    p.add_argument("--epochs", type=int, default=4)
    args = p.parse_args()

    prepare_nights(args.folder, args.nights, args.hours)
    data = SleepEpochs(args.folder, args.nights, per_night=128)
    loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
    model = build()
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(loader, epochs=args.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
