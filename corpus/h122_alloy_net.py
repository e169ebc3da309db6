import os
os.environ["KERAS_BACKEND"] = "torch"
import argparse
import tempfile
import time
import numpy as np
import keras
import torch
from torch.utils.data import DataLoader, Dataset


class Alloys(Dataset):
    def __init__(self, rows, seed, mixing):
        rng = np.random.default_rng(seed)
        share = rng.dirichlet(np.ones(24) * 0.5, rows)
        hidden = np.tanh(share @ mixing * 3)
        strength = hidden[:, :4].sum(1, keepdims=True) + hidden[:, 4:5] * hidden[:, 5:6]
        self.x = torch.tensor(share, dtype=torch.float32)
        self.y = torch.tensor(strength + rng.normal(0, 0.03, (rows, 1)), dtype=torch.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.log1p(self.x[i] * 50.0), self.y[i]


class Block(keras.layers.Layer):
    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.norm = keras.layers.LayerNormalization()
        self.up = keras.layers.Dense(width * 2, activation="relu")
        self.down = keras.layers.Dense(width)

    def call(self, x):
        return x + self.down(self.up(self.norm(x)))


def network(width, depth):
    inputs = keras.Input((24,))
    h = keras.layers.Dense(width)(inputs)
    for _ in range(depth):
        h = Block(width)(h)
    return keras.Model(inputs, keras.layers.Dense(1)(h))


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=4)
    args = parser.parse_args(argv)
    keras.utils.set_random_seed(122)
    mixing = np.random.default_rng(5).normal(size=(24, 6))
    train = DataLoader(Alloys(6144, 122, mixing), batch_size=256, shuffle=True, num_workers=0)
    held = DataLoader(Alloys(512, 123, mixing), batch_size=256)
    model = network(args.width, args.depth)
    model.compile(optimizer=keras.optimizers.SGD(0.01, momentum=0.9), loss="mse")
    callbacks = [
        keras.callbacks.EarlyStopping(patience=4, restore_best_weights=True),
        keras.callbacks.LearningRateScheduler(lambda e, lr: lr * 0.8),
        keras.callbacks.CSVLogger(os.path.join(tempfile.mkdtemp(prefix="alloy"), "log.csv")),
        keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: print("epoch %d done" % (e + 1))),
    ]
    began = time.time()
    model.fit(train, validation_data=held, epochs=args.epochs, callbacks=callbacks, verbose=2)
    print("train time: %.2f s" % (time.time() - began))


if __name__ == "__main__":
    main()
