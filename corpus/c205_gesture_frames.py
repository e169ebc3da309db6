import os
os.environ["KERAS_BACKEND"] = "torch"
import functools
import time
import numpy as np
import keras
from keras import layers, ops

FRAMES, JOINTS, GESTURES = 64, 40, 10


def timed(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        t0 = time.time()
        result = fn(*args, **kwargs)
        print("train time: %.2f s" % (time.time() - t0))
        return result
    return wrapper


def record_gestures(n, seed):
    base = np.random.default_rng(68)
    direction = base.normal(size=(GESTURES, JOINTS))
    speed = base.uniform(0.1, 0.5, GESTURES)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, GESTURES, n)
    phase = rng.uniform(0, 6.28, (n, 1))
    wave = np.sin(np.arange(FRAMES)[None] * speed[y][:, None] + phase)
    x = 0.4 * wave[..., None] * direction[y][:, None, :] + rng.normal(size=(n, FRAMES, JOINTS))
    return x.astype("float32"), y


class PoseEncoder(layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.first = layers.Dense(units, activation="relu")
        self.norm = layers.LayerNormalization()
        self.second = layers.Dense(units, activation="relu")

    def call(self, pose):
        return self.second(self.norm(self.first(pose)))


class GestureNet(keras.Model):
    def __init__(self, units=128, **kwargs):
        super().__init__(**kwargs)
        self.encoder = PoseEncoder(units)
        self.temporal = layers.Conv1D(64, 5, padding="same", activation="relu")
        self.pool = layers.GlobalAveragePooling1D()
        self.head = layers.Dense(GESTURES, activation="softmax")

    def call(self, clip):
        encoded = []
        for t in range(FRAMES):
            encoded.append(self.encoder(clip[:, t, :]))
        h = ops.stack(encoded, axis=1)
        return self.head(self.pool(self.temporal(h)))


@timed
def train(model, data, valid, *, epochs, batch_size):
    return model.fit(*data, validation_data=valid, epochs=epochs, batch_size=batch_size, verbose=2)


if __name__ == "__main__":
    keras.utils.set_random_seed(68)
    net = GestureNet()
    net.compile(optimizer=keras.optimizers.Adam(3e-4), loss="sparse_categorical_crossentropy",
                metrics=["accuracy"])
    train(net, record_gestures(3840, 1), record_gestures(256, 2), epochs=5, batch_size=64)
