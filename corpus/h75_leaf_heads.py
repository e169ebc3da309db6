"""Leaf photographs (made up): species and leaf area from one trunk, two heads."""
import os
import tempfile
import time
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf
from keras import callbacks as cb
from keras import layers


@dataclass
class Settings:
    n_train: int = 3840
    n_val: int = 128
    side: int = 40
    species: int = 6
    batch: int = 64
    epochs: int = 4
    widths: tuple = (24, 48, 64)
    out: str = field(default_factory=tempfile.mkdtemp)


def photographs(n, cfg, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[-1:1:cfg.side * 1j, -1:1:cfg.side * 1j].astype("float32")
    species = rng.integers(0, cfg.species, n)
    size = rng.uniform(0.35, 0.9, n).astype("float32")
    angle = np.arctan2(y, x)
    radius = np.hypot(y, x)
    turn = rng.uniform(0, 2 * np.pi, n).astype("float32")
    lobes = 2 + species[:, None, None]
    edge = size[:, None, None] * (0.75 + 0.25 * np.cos(lobes * (angle + turn[:, None, None])))
    leaf = (radius[None] < edge).astype("float32")
    veins = np.sin((8 + 4 * species[:, None, None]) * (x + 0.4 * y) + turn[:, None, None])
    img = (leaf * (1 + 0.6 * veins))[..., None] * np.array([0.3, 0.8, 0.2]) + rng.normal(0, 0.3, (n, cfg.side, cfg.side, 3))
    return img.astype("float32"), {"species": species, "area": leaf.mean(axis=(1, 2))[:, None]}


def stream(x, y, batch, training):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(1024, seed=9).repeat()
    options = tf.data.Options()
    options.autotune.enabled = False
    return ds.batch(batch).prefetch(4).with_options(options)


class MacroF1(cb.Callback):
    """Once per epoch, on the validation photographs."""

    def __init__(self, x, y, classes):
        super().__init__()
        self.x, self.y, self.classes = x, y, classes

    def on_epoch_end(self, epoch, logs=None):
        guess = np.argmax(self.model.predict_on_batch(self.x)["species"], axis=-1)
        table = np.zeros((self.classes, self.classes))
        np.add.at(table, (self.y, guess), 1)
        f1 = 2 * np.diag(table) / np.maximum(1, table.sum(0) + table.sum(1))
        print(f"   macro f1 {f1.mean():.3f}")


def build(cfg, steps):
    inp = keras.Input((cfg.side, cfg.side, 3))
    h = inp
    for w in cfg.widths:
        h = layers.Conv2D(w, 3, padding="same", activation="relu", kernel_initializer="he_normal")(h)
        h = layers.Conv2D(w, 3, padding="same", activation="relu", kernel_initializer="he_normal")(h)
        h = layers.MaxPooling2D()(h)
        h = layers.BatchNormalization(momentum=0.9)(h)
    h = layers.GlobalAveragePooling2D()(h)
    species = layers.Dense(cfg.species, activation="softmax", name="species")(h)
    area = layers.Dense(1, name="area")(h)
    model = keras.Model(inp, {"species": species, "area": area})
    model.compile(
        optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-3, steps)),
        loss={"species": "sparse_categorical_crossentropy", "area": "mse"},
        loss_weights={"species": 1.0, "area": 5.0},
        metrics={"species": ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(3, name="top3")], "area": ["mae"]},
    )
    return model


def main():
    cfg = Settings()
    keras.utils.set_random_seed(3)
    x, y = photographs(cfg.n_train, cfg, 1)
    xv, yv = photographs(cfg.n_val, cfg, 2)
    steps = cfg.n_train // cfg.batch
    model = build(cfg, cfg.epochs * steps)
    train, val = stream(x, y, cfg.batch, True), stream(xv, yv, cfg.batch, False)
    watchers = [
        cb.ModelCheckpoint(os.path.join(cfg.out, "best.keras"), monitor="val_loss", save_best_only=True),
        cb.EarlyStopping("val_loss", patience=4, restore_best_weights=True),
        cb.CSVLogger(os.path.join(cfg.out, "history.csv")),
        cb.TerminateOnNaN(),
        MacroF1(xv, yv["species"], cfg.species),
    ]
    t0 = time.time()
    model.fit(train, steps_per_epoch=steps, epochs=cfg.epochs, validation_data=val, callbacks=watchers, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


main()
