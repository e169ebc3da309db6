"""Street-scene segmentation from color-coded label images (Keras on PyTorch)."""
import os
os.environ["KERAS_BACKEND"] = "torch"
import argparse
import time

import numpy as np
import torch
import keras
from keras import layers
from torch.utils.data import DataLoader, Dataset

PALETTE = {
    "road": (128, 64, 128),
    "sidewalk": (244, 35, 232),
    "building": (70, 70, 70),
    "vegetation": (107, 142, 35),
    "sky": (70, 130, 180),
    "car": (0, 0, 142),
    "person": (220, 20, 60),
}


def draw_scenes(n, size, seed=314):
    rng = np.random.default_rng(seed)
    colors = np.array(list(PALETTE.values()), "uint8")
    classes = np.zeros((n, size, size), "int64")
    for i in range(n):
        horizon = rng.integers(size // 4, size // 2)
        classes[i, :horizon] = 4
        classes[i, horizon - 8:horizon + 6, : rng.integers(10, size)] = 2
        classes[i, horizon + 6:, : rng.integers(4, 20)] = 1
        for k in range(8):
            y, x = rng.integers(0, size - 12, 2)
            classes[i, y:y + rng.integers(4, 12), x:x + rng.integers(4, 12)] = rng.integers(3, 7)
    labels = colors[classes]
    photos = np.clip(labels * 0.6 + rng.normal(50, 25, labels.shape), 0, 255).astype("uint8")
    return photos, labels


class ColorCoder:
    """Color-coded annotation -> class planes."""

    def __init__(self, palette):
        self.planes = np.eye(len(palette), dtype="float32")
        self.index = np.zeros(1 << 24, "uint8")
        for i, (r, g, b) in enumerate(palette.values()):
            self.index[(r << 16) | (g << 8) | b] = i

    def encode(self, label):
        r, g, b = np.moveaxis(label.astype("int32"), -1, 0)
        return self.planes[self.index[(r << 16) | (g << 8) | b]]


class StreetScenes(Dataset):
    def __init__(self, photos, labels, coder, crop, training=True):
        self.photos, self.labels, self.coder = photos, labels, coder
        self.crop, self.training = crop, training

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, i):
        photo, label = self.photos[i], self.labels[i]
        if self.training:
            top, left = torch.randint(photo.shape[0] - self.crop + 1, (2,)).tolist()
            window = (slice(top, top + self.crop), slice(left, left + self.crop))
            photo, label = photo[window], label[window]
            if torch.rand(()) < 0.5:
                photo, label = photo[:, ::-1], label[:, ::-1]
        x = photo.astype("float32") / 127.5 - 1.0
        return torch.from_numpy(x), torch.from_numpy(self.coder.encode(label))


def encoder_decoder(crop, classes):
    inputs = keras.Input((crop, crop, 3))
    a = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(inputs)
    b = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(a)
    b = layers.Conv2D(32, 3, padding="same", activation="relu")(b)
    c = layers.Concatenate()([layers.UpSampling2D()(b), a])
    c = layers.Conv2D(16, 3, padding="same", activation="relu")(c)
    outputs = layers.Conv2DTranspose(classes, 2, strides=2, activation="softmax")(c)
    return keras.Model(inputs, outputs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenes", type=int, default=384)
    parser.add_argument("--crop", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    photos, labels = draw_scenes(args.scenes, args.crop + 16)
    scenes = StreetScenes(photos, labels, ColorCoder(PALETTE), args.crop)
    loader = DataLoader(scenes, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = encoder_decoder(args.crop, len(PALETTE))
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="categorical_crossentropy", metrics=["categorical_accuracy"])
    t0 = time.time()
    model.fit(loader, epochs=args.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
