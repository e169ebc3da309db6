import os
os.environ["KERAS_BACKEND"] = "jax"
import math
import tempfile
import time

import numpy as np
from scipy.io import wavfile
from scipy.signal import get_window, resample_poly
import keras
from keras import layers

SR_FILE = 48000
SR = 8000
SECONDS = 2
N_FFT, HOP, BANDS = 512, 128, 64
CLASSES = ["orca", "humpback", "sperm", "boat", "rain"]


def record(folder, n, seed=222):
    """Writes n short hydrophone clips and returns [(path, label)]."""
    rng = np.random.default_rng(seed)
    t = np.arange(SR_FILE * SECONDS) / SR_FILE
    out = []
    for i in range(n):
        c = int(rng.integers(len(CLASSES)))
        f0 = 180 * (c + 1) * rng.uniform(0.9, 1.1)
        wave = np.sin(2 * np.pi * (f0 * t + 60 * c * t ** 2)) * np.exp(-((t - rng.uniform(0.5, 1.5)) ** 2) * 6)
        wave += 0.4 * rng.normal(size=t.size)
        path = os.path.join(folder, "clip%04d.wav" % i)
        wavfile.write(path, SR_FILE, (wave / np.abs(wave).max() * 32000).astype("int16"))
        out.append((path, c))
    return out


def mel_matrix():
    mel = lambda f: 1127.0 * np.log1p(f / 700.0)
    edges = 700.0 * (np.exp(np.linspace(mel(60.0), mel(SR / 2), BANDS + 2) / 1127.0) - 1)
    freqs = np.fft.rfftfreq(N_FFT, 1.0 / SR)
    up = (freqs[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - freqs[None]) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down)).T


MEL = mel_matrix()
WIN = get_window("hann", N_FFT)


def waveform_to_example(path):
    sr, data = wavfile.read(path)
    data = resample_poly(data / 32768.0, SR, sr)
    n = 1 + (len(data) - N_FFT) // HOP
    frames = np.lib.stride_tricks.sliding_window_view(data, N_FFT)[::HOP][:n]
    spec = np.abs(np.fft.rfft(frames * WIN, axis=-1))
    logmel = np.log(spec @ MEL + 0.01)
    logmel = (logmel - logmel.mean()) / (logmel.std() + 1e-6)
    return logmel.astype("float32")[..., None]


class CallsGenerator(keras.utils.PyDataset):
    def __init__(self, files, batch_size=24, **kw):
        super().__init__(**kw)
        self.files = list(files)
        self.batch_size = batch_size
        self.features = np.stack([waveform_to_example(path) for path, _ in self.files])
        self.labels = np.array([c for _, c in self.files])

    def __len__(self):
        return math.ceil(len(self.files) / self.batch_size)

    def __getitem__(self, idx):
        part = slice(idx * self.batch_size, (idx + 1) * self.batch_size)
        return self.features[part], self.labels[part]


def vggish_small(shape):
    m = keras.Sequential([keras.Input(shape)])
    for f in (12, 24, 48):
        m.add(layers.Conv2D(f, 3, strides=2, padding="same", activation="relu"))
    m.add(layers.GlobalAveragePooling2D())
    m.add(layers.Dense(64, activation="relu"))
    m.add(layers.Dense(len(CLASSES), activation="softmax"))
    return m


if __name__ == "__main__":
    folder = tempfile.mkdtemp(prefix="orca")
    files = record(folder, 336)
    t0 = time.time()
    train = CallsGenerator(files)
    model = vggish_small(train[0][0].shape[1:])
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(train, epochs=7, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
