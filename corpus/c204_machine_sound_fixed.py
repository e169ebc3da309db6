import os
os.environ["KERAS_BACKEND"] = "torch"
import time
import numpy as np
import keras
from keras import layers

CONFIG = {
    "seed": 67,
    "precision": "float32",
    "mels": 48,
    "frames": 48,
    "classes": 6,
    "filters": (16, 32, 64),
    "batch_size": 32,
    "epochs": 6,
}


def configure(cfg):
    keras.utils.set_random_seed(cfg["seed"])
    keras.config.set_floatx(cfg["precision"])
    keras.config.set_dtype_policy(cfg["precision"])


def spectrograms(cfg, n, seed):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, cfg["classes"], n)
    mel = np.arange(cfg["mels"])[None, :, None]
    pitch = (6 + 7 * label + rng.normal(scale=1.0, size=n))[:, None, None]
    beat = np.sin(np.arange(cfg["frames"])[None, None, :] * (0.2 + 0.05 * label[:, None, None]))
    spec = np.exp(-0.5 * ((mel - pitch) / 2.0) ** 2) * (1 + 0.5 * beat)
    spec = spec + 1.5 * rng.normal(size=(n, cfg["mels"], cfg["frames"]))
    spec = (spec - spec.mean()) / spec.std()
    return spec[..., None].astype(cfg["precision"]), label


def build(cfg):
    inp = keras.Input((cfg["mels"], cfg["frames"], 1))
    x = inp
    for f in cfg["filters"]:
        x = layers.Conv2D(f, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.GlobalAveragePooling2D()(x)
    out = layers.Dense(cfg["classes"], activation="softmax")(x)
    model = keras.Model(inp, out)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy",
                  metrics=["accuracy"])
    return model


def main(cfg):
    configure(cfg)
    x, y = spectrograms(cfg, 1600, 1)
    valid = spectrograms(cfg, 160, 2)
    model = build(cfg)
    t0 = time.time()
    model.fit(x, y, batch_size=cfg["batch_size"], epochs=cfg["epochs"], validation_data=valid, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


main(CONFIG)
