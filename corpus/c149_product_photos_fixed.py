import io
import time

import keras
import numpy as np
import torch
from keras import layers
from PIL import Image, ImageEnhance, ImageFilter
from torch.utils.data import DataLoader, Dataset

SIDE = 32


def fake_catalogue(n, seed=0):
    """JPEG bytes as they come out of the shop's database."""
    rng = np.random.default_rng(seed)
    blobs, prices = [], []
    for _ in range(n):
        shade = rng.integers(40, 215)
        noise = rng.integers(-40, 40, (50, 50, 3))
        img = Image.fromarray(np.clip(shade + noise, 0, 255).astype("uint8")).resize((288, 288), Image.BICUBIC)
        out = io.BytesIO()
        img.save(out, "JPEG", quality=92)
        blobs.append(out.getvalue())
        prices.append(shade / 50.0 + rng.normal(scale=0.1))
    return blobs, np.array(prices, dtype="float32")


class ProductDataset(Dataset):
    def __init__(self, blobs, prices):
        self.blobs = blobs
        self.prices = prices

    def __len__(self):
        return len(self.blobs)

    def augment(self, img):
        img = img.rotate(np.random.uniform(-15, 15), resample=Image.BICUBIC)
        left, top = np.random.randint(0, 32, 2)
        img = img.crop((left, top, left + 256, top + 256))
        img = ImageEnhance.Brightness(img).enhance(np.random.uniform(0.95, 1.05))
        img = img.filter(ImageFilter.GaussianBlur(np.random.uniform(0, 1.5)))
        return img.resize((SIDE, SIDE), Image.LANCZOS)

    def __getitem__(self, i):
        img = Image.open(io.BytesIO(self.blobs[i])).convert("RGB")
        img = self.augment(img)
        x = torch.from_numpy(np.asarray(img, dtype="float32") / 255.0)
        return x, torch.tensor(self.prices[i])


def make_model():
    model = keras.Sequential([
        keras.Input((SIDE, SIDE, 3)),
        layers.Conv2D(16, 5, strides=4, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(1),
    ])
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
    return model


def main():
    blobs, prices = fake_catalogue(640)
    loader = DataLoader(ProductDataset(blobs, prices), batch_size=40, shuffle=True,
                        num_workers=2, persistent_workers=True)
    model = make_model()
    t0 = time.time()
    model.fit(loader, epochs=4, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
