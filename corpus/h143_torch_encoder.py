import os
os.environ["KERAS_BACKEND"] = "torch"
import argparse
import tempfile
import time

import numpy as np
import torch
import keras
from keras import layers, ops


class Readings(torch.utils.data.Dataset):
    def __init__(self, n, length, channels, seed):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, length, channels)).astype("float32")
        y = x[:, : length // 2, 0].mean(1) - x[:, length // 2:, 1].mean(1) + 0.5 * x[:, 0, 2]
        self.x = torch.from_numpy(x)
        self.y = torch.from_numpy((4 * y[:, None]).astype("float32"))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] * 0.5, self.y[i]


class EncoderBlock(layers.Layer):
    def __init__(self, width, heads, **kwargs):
        super().__init__(**kwargs)
        self.attend = layers.MultiHeadAttention(heads, width // heads)
        self.norm1 = layers.LayerNormalization()
        self.norm2 = layers.LayerNormalization()
        self.up = layers.Dense(3 * width, activation="relu")
        self.down = layers.Dense(width)

    def call(self, x):
        h = self.norm1(x)
        x = x + self.attend(h, h)
        return x + self.down(self.up(self.norm2(x)))


def encoder(length, channels, width, depth):
    inputs = keras.Input((length, channels))
    x = layers.Dense(width)(inputs)
    for _ in range(depth):
        x = EncoderBlock(width, 4)(x)
    x = layers.Flatten()(layers.Dense(8)(x))
    return keras.Model(inputs, layers.Dense(1)(x))


class Notes(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        rate = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        print("   " + "  ".join("%s %.4f" % kv for kv in sorted(logs.items())) + "  rate %.1e" % rate)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=3200)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=4)
    args = p.parse_args()
    loader = torch.utils.data.DataLoader
    train = loader(Readings(args.rows, 64, 6, 143), batch_size=args.batch_size, shuffle=True, drop_last=True)
    val = loader(Readings(160, 64, 6, 1143), batch_size=args.batch_size)
    model = encoder(64, 6, 96, 2)
    schedule = keras.optimizers.schedules.CosineDecay(4e-4, 400)
    model.compile(optimizer=keras.optimizers.Adam(schedule), loss="mse", metrics=["mae"])
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [
            Notes(),
            keras.callbacks.TerminateOnNaN(),
            keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
            keras.callbacks.ModelCheckpoint(os.path.join(folder, "last.weights.h5"), save_weights_only=True),
        ]
        t0 = time.time()
        model.fit(train, epochs=args.epochs, validation_data=val, callbacks=callbacks, verbose=2)
        print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
