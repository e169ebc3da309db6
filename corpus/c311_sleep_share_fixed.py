"""Sleep staging from overnight recordings; one small file per 30 s epoch on the lab's share."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import dataclasses
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

STAGES = ["wake", "n1", "n2", "n3", "rem"]


@dataclasses.dataclass
class Settings:
    subjects: int = 12
    epochs_per_subject: int = 36
    channels: int = 6
    samples: int = 600
    batch_size: int = 12
    passes: int = 4
    round_trip: float = 0.007     # measured on our mount; the copy here is a local folder


class Share:
    """The mounted folder with the recordings."""

    def __init__(self, root, settings):
        self.root = root
        self.settings = settings

    def fill(self, seed=311):
        rng = np.random.default_rng(seed)
        s = self.settings
        t = np.arange(s.samples) / 20.0
        for subject in range(s.subjects):
            os.makedirs(os.path.join(self.root, "subj%02d" % subject), exist_ok=True)
            for k in range(s.epochs_per_subject):
                stage = int(rng.integers(len(STAGES)))
                wave = np.sin(2 * np.pi * (0.4 + 0.7 * stage) * t)[:, None]
                signal = wave + rng.normal(0, 0.7, (s.samples, s.channels))
                name = "subj%02d/%04d_%d.bin" % (subject, k, stage)
                (signal * 1000).astype("<i2").tofile(os.path.join(self.root, name))

    def listing(self):
        found = []
        for folder, _, names in os.walk(self.root):
            found += [os.path.join(folder, n) for n in names if n.endswith(".bin")]
        return sorted(found)

    def read(self, path):
        time.sleep(self.settings.round_trip)
        with open(path, "rb") as f:
            raw = f.read()
        signal = np.frombuffer(raw, "<i2").reshape(-1, self.settings.channels)
        stage = int(os.path.basename(path).decode().rsplit(".", 1)[0].split("_")[1])
        return (signal / 1000.0).astype("float32"), np.int64(stage)


def make_input(share, settings):
    def load(path):
        signal, stage = tf.numpy_function(share.read, [path], [tf.float32, tf.int64])
        signal.set_shape((settings.samples, settings.channels))
        stage.set_shape(())
        return signal, stage

    def standardize(signal, stage):
        mean, var = tf.nn.moments(signal, axes=[0])
        return (signal - mean) / tf.sqrt(var + 1e-6), stage

    paths = share.listing()
    ds = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths), seed=1)
    ds = ds.map(load, num_parallel_calls=16, deterministic=False)
    ds = ds.map(standardize, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(settings.batch_size)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 16
    return ds.prefetch(tf.data.AUTOTUNE).with_options(options)


def make_model(settings):
    model = keras.Sequential([
        keras.Input((settings.samples, settings.channels)),
        layers.Conv1D(16, 25, strides=6, activation="relu"),
        layers.Conv1D(32, 9, strides=3, activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dropout(0.2),
        layers.Dense(len(STAGES), activation="softmax"),
    ])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


if __name__ == "__main__":
    settings = Settings()
    share = Share(tempfile.mkdtemp(), settings)
    share.fill()
    data = make_input(share, settings)
    model = make_model(settings)
    t0 = time.time()
    model.fit(data, epochs=settings.passes, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
