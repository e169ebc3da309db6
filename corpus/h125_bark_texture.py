import os
os.environ["KERAS_BACKEND"] = "torch"
import argparse
import tempfile
import time
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
import keras
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()
keras.utils.set_random_seed(125)


class BarkPatches(Dataset):
    """Stripes of four spacings at any angle."""

    def __init__(self, count, seed, flip):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, 4, count)
        angle = rng.uniform(0, np.pi, (count, 1, 1))
        yy, xx = np.mgrid[:64, :64]
        wave = np.sin((np.cos(angle) * xx + np.sin(angle) * yy) * (0.4 + 0.25 * self.y[:, None, None]))
        noisy = 0.35 * wave + rng.normal(0, 0.5, (count, 64, 64))
        self.x = torch.from_numpy(np.clip(noisy * 60 + 128, 0, 255).astype("uint8"))
        self.flip = flip

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        patch = self.x[i].float().div_(255.0)
        if self.flip and torch.rand(()) < 0.5:
            patch = patch.flip(1)
        return patch[..., None], int(self.y[i])


class Diary(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path, self.batches = path, 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1

    def on_epoch_end(self, epoch, logs=None):
        with open(self.path, "a") as f:
            f.write("%d %d %.4f %.4f\n" % (epoch, self.batches, logs["loss"], logs["val_loss"]))


def residual(x, filters):
    y = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    y = layers.Conv2D(filters, 3, padding="same")(y)
    return layers.ReLU()(layers.Add()([x, y]))


inputs = keras.Input((64, 64, 1))
x = layers.Conv2D(32, 5, strides=2, padding="same", activation="relu")(inputs)
x = residual(x, 32)
x = layers.Conv2D(64, 3, strides=2, padding="same", activation="relu")(x)
x = residual(x, 64)
x = layers.GlobalAveragePooling2D()(x)
model = keras.Model(inputs, layers.Dense(4)(x))
model.compile(optimizer=keras.optimizers.Adam(1e-3), metrics=["accuracy"],
              loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))

train = DataLoader(BarkPatches(1280, 1, flip=True), batch_size=args.batch_size, shuffle=True, drop_last=True)
held = DataLoader(BarkPatches(128, 2, flip=False), batch_size=64)
with tempfile.TemporaryDirectory() as folder:
    t0 = time.time()
    model.fit(train, validation_data=held, epochs=args.epochs, verbose=2,
              callbacks=[Diary(os.path.join(folder, "diary.txt")), keras.callbacks.TerminateOnNaN(),
                         keras.callbacks.ReduceLROnPlateau(patience=2)])
    print("train time: %.2f s" % (time.time() - t0))
