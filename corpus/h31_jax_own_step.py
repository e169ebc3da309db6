import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import keras
import numpy as np
from keras import layers, ops


class Denoiser(keras.Model):
    """Learns to take noise away; the noise is drawn inside the compiled step."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed = keras.random.SeedGenerator(1)
        self.down = [layers.Conv1D(f, 7, padding="same", activation="gelu") for f in (48, 64, 64)]
        self.up = layers.Conv1D(1, 7, padding="same")

    def call(self, x, training=False):
        if training:
            x = x + 0.2 * keras.random.normal(ops.shape(x), seed=self.seed)
        for layer in self.down:
            x = layer(x)
        return self.up(x)


class Signals(keras.utils.PyDataset):
    def __init__(self, signals, batch, **kwargs):
        super().__init__(**kwargs)
        self.signals, self.batch = signals, batch

    def __len__(self):
        return len(self.signals) // self.batch

    def __getitem__(self, i):
        part = self.signals[i * self.batch:(i + 1) * self.batch]
        return part, part

    def on_epoch_end(self):
        np.random.default_rng(7).shuffle(self.signals)


def main():
    t = np.linspace(0, 20, 256)
    rng = np.random.default_rng(131)
    signals = np.sin(t * rng.uniform(0.5, 2, (1536, 1)))[..., None].astype("float32")
    model = Denoiser()
    model.compile(keras.optimizers.AdamW(1e-3), "mse")
    start = time.time()
    model.fit(Signals(signals, 32), epochs=6, verbose=2)
    print("train time: %.1f s" % (time.time() - start))


main()
