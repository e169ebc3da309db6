import os
import tempfile
import time

import keras
import numpy as np
from keras import layers


class MixerBlock(layers.Layer):
    def __init__(self, patches, dim, token_units, channel_units, **kwargs):
        super().__init__(**kwargs)
        self.args = dict(patches=patches, dim=dim, token_units=token_units, channel_units=channel_units)
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.t1, self.t2 = layers.Dense(token_units, activation="relu"), layers.Dense(patches)
        self.c1, self.c2 = layers.Dense(channel_units, activation="relu"), layers.Dense(dim)
        self.swap = layers.Permute((2, 1))

    def call(self, x):
        x = x + self.swap(self.t2(self.t1(self.swap(self.n1(x)))))
        return x + self.c2(self.c1(self.n2(x)))

    def get_config(self):
        return {**super().get_config(), **self.args}


class PlateTrainer:
    """Defects on steel plates; grey 56x56 images cut into 7x7 patches."""

    side, patch, kinds = 56, 7, 8

    def __init__(self, workdir, seed=6):
        self.workdir = workdir
        self.rng = np.random.default_rng(seed)
        self.notes = []

    def plates(self, n):
        s = self.side
        img = self.rng.normal(0, 1, size=(n, s, s)).astype("float32")
        kind = self.rng.integers(0, self.kinds, n)
        yy, xx = np.mgrid[:s, :s]
        for k in range(self.kinds):
            a = np.pi * k / self.kinds
            wave = np.sin(0.55 * (np.cos(a) * xx + np.sin(a) * yy)).astype("float32")
            img[kind == k] += 0.22 * wave
        p, g = self.patch, s // self.patch
        img = img.reshape(n, g, p, g, p).transpose(0, 1, 3, 2, 4).reshape(n, g * g, p * p)
        return np.ascontiguousarray(img), kind

    def model(self):
        patches = (self.side // self.patch) ** 2
        inp = keras.Input((patches, self.patch ** 2))
        h = layers.Dense(128)(inp)
        for _ in range(3):
            h = MixerBlock(patches, 128, 96, 320)(h)
        h = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(h))
        m = keras.Model(inp, layers.Dense(self.kinds, activation="softmax")(h))
        m.compile(
            optimizer=keras.optimizers.SGD(0.02, momentum=0.9, nesterov=True),
            loss="sparse_categorical_crossentropy",
            metrics=["accuracy"],
        )
        return m

    def note(self, batch, logs):
        if batch % 20 == 0:
            self.notes.append((batch, logs["loss"]))

    def callbacks(self, epochs):
        join = lambda name: os.path.join(self.workdir, name)
        return [
            keras.callbacks.LearningRateScheduler(lambda e, lr: 0.02 * 0.5 * (1 + np.cos(np.pi * e / epochs))),
            keras.callbacks.EarlyStopping(monitor="val_accuracy", patience=3, mode="max"),
            keras.callbacks.ModelCheckpoint(join("plates-{epoch:02d}.keras"), monitor="val_accuracy", save_best_only=True),
            keras.callbacks.CSVLogger(join("plates.csv"), append=True),
            keras.callbacks.TerminateOnNaN(),
            keras.callbacks.LambdaCallback(on_train_batch_end=self.note),
        ]

    def train(self, epochs=4, batch=64):
        model = self.model()
        x, y = self.plates(3584)
        val = self.plates(160)
        t0 = time.perf_counter()
        model.fit(x, y, validation_data=val, batch_size=batch, epochs=epochs, callbacks=self.callbacks(epochs), verbose=2)
        return time.perf_counter() - t0


if __name__ == "__main__":
    keras.utils.set_random_seed(31)
    with tempfile.TemporaryDirectory() as d:
        seconds = PlateTrainer(d).train()
    print("train time: %.2f s" % seconds)
