"""Clips of sound as spectrograms: one small file each, or all in one."""

import json
import pathlib

import keras
import numpy as np


def record(folder, n, seed):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    for i in range(n):
        np.save(folder / ("clip%05d.npy" % i), rng.random((24, 40)).astype("float32"))
        (folder / ("clip%05d.json" % i)).write_text(json.dumps({"id": i, "label": int(rng.integers(0, 6)), "rate": 16000}))
    return folder


class ClipFiles(keras.utils.PyDataset):
    def __init__(self, folder, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.paths = sorted(pathlib.Path(folder).glob("*.npy"))
        self.batch_size = batch_size

    def __len__(self):
        return len(self.paths) // self.batch_size

    def load(self, path):
        with open(path.with_suffix(".json")) as f:
            meta = json.load(f)
        return np.load(path), meta["label"]

    def __getitem__(self, idx):
        part = self.paths[idx * self.batch_size:(idx + 1) * self.batch_size]
        clips, labels = zip(*[self.load(path) for path in part])
        return np.stack(clips), np.array(labels)

    def on_epoch_end(self):
        np.random.default_rng(0).shuffle(self.paths)


class PackedClips(keras.utils.PyDataset):
    def __init__(self, folder, batch_size, **kwargs):
        super().__init__(**kwargs)
        files = ClipFiles(folder, batch_size)
        self.batches = [files[i] for i in range(len(files))]

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, idx):
        return self.batches[idx]
