import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
from keras import layers


class VibrationSource:
    """Cuts random windows out of accelerometer recordings and turns them into short spectra."""

    def __init__(self, machines=24, seconds=40, rate=12800, window=16384, hops=48, batch_size=32, batches=180):
        rng = np.random.default_rng(5)
        n = seconds * rate
        self.faulty = np.arange(machines) % 2
        t = np.arange(n) / rate
        self.signal = rng.normal(size=(machines, n)).astype("float32")
        for m in range(machines):
            if self.faulty[m]:
                self.signal[m] += np.sin(2 * np.pi * rng.uniform(140, 180) * t).astype("float32")
        self.window, self.hops = window, hops
        self.batch_size, self.batches = batch_size, batches
        self.taper = np.hanning(1024).astype("float32")
        self.rng = np.random.default_rng(6)

    def spectra(self, windows):
        step = (self.window - 1024) // (self.hops - 1)
        frames = np.lib.stride_tricks.sliding_window_view(windows, 1024, axis=1)[:, ::step][:, :self.hops]
        power = np.abs(np.fft.rfft(frames * self.taper, axis=-1)) ** 2
        return np.log1p(power[..., 1:65]).astype("float32")

    def __call__(self):
        for _ in range(self.batches):
            m = self.rng.integers(0, len(self.signal), self.batch_size)
            s = self.rng.integers(0, self.signal.shape[1] - self.window, self.batch_size)
            windows = np.stack([self.signal[a, b:b + self.window] for a, b in zip(m, s)])
            yield self.spectra(windows), self.faulty[m].astype("float32")


class FaultDetector(keras.Model):
    def __init__(self):
        super().__init__()
        self.norm = layers.LayerNormalization()
        self.rnn = layers.GRU(48)
        self.drop = layers.Dropout(0.2)
        self.head = layers.Dense(1, activation="sigmoid")

    def call(self, x, training=False):
        x = self.rnn(self.norm(x))
        return self.head(self.drop(x, training=training))


source = VibrationSource()
model = FaultDetector()
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])

start = time.time()
for epoch in range(4):
    model.reset_metrics()
    for x, y in source():
        logs = model.train_on_batch(x, y, return_dict=True)
    print("epoch %d  loss %.4f  accuracy %.3f" % (epoch + 1, logs["loss"], logs["accuracy"]))
print("train time: %.2f s" % (time.time() - start))
