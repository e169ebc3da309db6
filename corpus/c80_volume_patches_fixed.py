import os
os.environ["KERAS_BACKEND"] = "torch"
import tempfile
import keras
import numpy as np
from keras import layers

folder = tempfile.mkdtemp()
rng = np.random.default_rng(80)
names = []
for k in range(4):
    names.append(os.path.join(folder, "scan%d.npy" % k))
    np.save(names[-1], rng.random((160, 160, 160)).astype("float32"))


class Patches(keras.utils.PyDataset):
    def __init__(self, names, patches, size=16, batch=4, **kw):
        super().__init__(**kw)
        self.scans = [np.load(name, mmap_mode="r") for name in names]
        self.patches, self.size, self.batch = patches, size, batch

    def __len__(self):
        return self.patches // self.batch

    def patch(self):
        scan = self.scans[rng.integers(len(self.scans))]
        z, y, x = rng.integers(0, 160 - self.size, 3)
        return np.array(scan[z:z + self.size, y:y + self.size, x:x + self.size, None])

    def __getitem__(self, i):
        batch = np.stack([self.patch() for _ in range(self.batch)])
        return batch, batch.mean(axis=(1, 2, 3))


inp = keras.Input((16, 16, 16, 1))
x = layers.Conv3D(8, 3, strides=2, activation="relu")(inp)
x = layers.GlobalAveragePooling3D()(x)
model = keras.Model(inp, layers.Dense(1)(x))
model.compile("adam", "mse")
model.fit(Patches(names, 400), epochs=3, verbose=2)
