"""Speaker identification from short windows of studio recordings (Keras on JAX)."""
import os
os.environ["KERAS_BACKEND"] = "jax"
import tempfile
import time

import numpy as np
import keras
from keras import layers
from scipy.io import wavfile
from scipy.signal import get_window

HP = {
    "rate": 16000,
    "n_fft": 512,
    "hop": 160,
    "n_mels": 64,
    "window_frames": 48,
    "speakers": 8,
    "recordings_per_speaker": 6,
    "seconds": 12,
    "batch_size": 12,
    "steps_per_epoch": 50,
    "epochs": 4,
}


def record(folder, hp, seed=316):
    rng = np.random.default_rng(seed)
    t = np.arange(hp["rate"] * hp["seconds"]) / hp["rate"]
    catalog = []
    for speaker in range(hp["speakers"]):
        pitch = 110 + 35 * speaker
        for k in range(hp["recordings_per_speaker"]):
            voice = sum(np.sin(2 * np.pi * pitch * h * t + rng.uniform(0, 6)) / h for h in range(1, 6))
            voice = voice * (0.6 + 0.4 * np.sin(2 * np.pi * rng.uniform(1, 3) * t)) + rng.normal(0, 0.5, len(t))
            path = os.path.join(folder, "spk%d_%d.wav" % (speaker, k))
            wavfile.write(path, hp["rate"], (voice / np.abs(voice).max() * 32000).astype("int16"))
            catalog.append((path, speaker))
    return catalog


class MelFrontend:
    def __init__(self, hp):
        self.hp = hp
        self.window = get_window("hann", hp["n_fft"]).astype("float32")
        self.bank = self._filters()

    def _filters(self):
        hp = self.hp
        top = 2595 * np.log10(1 + hp["rate"] / 2 / 700)
        hertz = 700 * (10 ** (np.linspace(0, top, hp["n_mels"] + 2) / 2595) - 1)
        bins = np.fft.rfftfreq(hp["n_fft"], 1 / hp["rate"])
        up = (bins[:, None] - hertz[:-2]) / (hertz[1:-1] - hertz[:-2])
        down = (hertz[2:] - bins[:, None]) / (hertz[2:] - hertz[1:-1])
        return np.maximum(0, np.minimum(up, down)).astype("float32")

    def from_file(self, path):
        rate, samples = wavfile.read(path)
        assert rate == self.hp["rate"]
        samples = samples.astype("float32") / 32768
        samples = np.append(samples[0], samples[1:] - 0.97 * samples[:-1])
        frames = np.lib.stride_tricks.sliding_window_view(samples, self.hp["n_fft"])[::self.hp["hop"]]
        power = np.abs(np.fft.rfft(frames * self.window, axis=1)) ** 2
        mel = np.log(power.astype("float32") @ self.bank + 1e-6)
        return (mel - mel.mean(0)) / (mel.std() + 1e-6)


class WindowSequence(keras.utils.PyDataset):
    def __init__(self, catalog, frontend, hp, **kwargs):
        super().__init__(**kwargs)
        self.catalog, self.frontend, self.hp = catalog, frontend, hp
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return self.hp["steps_per_epoch"]

    def window_of(self, path):
        mel = self.frontend.from_file(path)
        start = self.rng.integers(0, len(mel) - self.hp["window_frames"])
        return mel[start:start + self.hp["window_frames"]]

    def __getitem__(self, index):
        chosen = self.rng.integers(0, len(self.catalog), self.hp["batch_size"])
        x = np.stack([self.window_of(self.catalog[i][0]) for i in chosen])
        y = np.array([self.catalog[i][1] for i in chosen])
        return x.astype("float32"), y


def build(hp):
    model = keras.Sequential([
        keras.Input((hp["window_frames"], hp["n_mels"])),
        layers.Conv1D(128, 5, padding="same", activation="relu"),
        layers.Conv1D(128, 5, dilation_rate=2, padding="same", activation="relu"),
        layers.Conv1D(128, 5, dilation_rate=4, padding="same", activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(64, activation="relu"),
        layers.Dense(hp["speakers"], activation="softmax"),
    ])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main(hp=HP):
    catalog = record(tempfile.mkdtemp(), hp)
    frontend = MelFrontend(hp)
    model = build(hp)
    t0 = time.time()
    model.fit(WindowSequence(catalog, frontend, hp), epochs=hp["epochs"], verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
