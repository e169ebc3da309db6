import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import argparse
import time

import numpy as np
import keras
from keras import layers

# Remaining life of battery cells from charge curves (dilated convolutions with residuals).


def curves(n, length, seed):
    rng = np.random.default_rng(seed)
    life = rng.uniform(0.2, 1.0, n)
    t = np.linspace(0, 1, length)
    knee = 1 / (1 + np.exp(-(t[None] - life[:, None] * 0.8) * 25))
    x = np.stack([1 - knee, knee * t[None], np.broadcast_to(t, knee.shape)], axis=-1)
    x += rng.normal(scale=0.2, size=x.shape)
    return x.astype("float32"), life.astype("float32")


def residual(x, filters, dilation):
    h = layers.Conv1D(filters, 5, padding="same", dilation_rate=dilation, activation="relu")(x)
    h = layers.Conv1D(filters, 1)(h)
    return layers.Add()([x, h])


def build(length, filters):
    inp = keras.Input((length, 3))
    x = layers.Conv1D(filters, 1)(inp)
    for d in (1, 2, 4, 8):
        x = residual(x, filters, d)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dense(32, activation="relu")(x)
    return keras.Model(inp, layers.Dense(1)(x))


def warm_then_decay(epoch, lr):
    return 5e-4 if epoch == 0 else 1e-3 * 0.8 ** (epoch - 1)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--length", type=int, default=128)
    p.add_argument("--filters", type=int, default=64)
    p.add_argument("--epochs", type=int, default=7)
    a = p.parse_args()
    keras.utils.set_random_seed(114)
    x, y = curves(3072, a.length, 1)
    vx, vy = curves(320, a.length, 2)
    model = build(a.length, a.filters)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
    t0 = time.time()
    model.fit(x, y, batch_size=64, epochs=a.epochs, validation_data=(vx, vy), verbose=2,
              callbacks=[keras.callbacks.LearningRateScheduler(warm_then_decay),
                         keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)])
    print("train time: %.2f s" % (time.time() - t0))
