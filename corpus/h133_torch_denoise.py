import os
os.environ["KERAS_BACKEND"] = "torch"
import tempfile
import time

import keras
import numpy as np
import torch
from keras import layers
from torch.utils.data import DataLoader, Dataset

keras.utils.set_random_seed(133)


class NoisyPatches(Dataset):
    def __init__(self, clean, sigma=0.1):
        self.clean = torch.from_numpy(clean)
        self.sigma = sigma

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, i):
        y = self.clean[i]
        if torch.rand(()) < 0.5:
            y = torch.flip(y, (1,))
        return y + self.sigma * torch.randn(y.shape), y


class ResidualScale(layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight(shape=(1,), initializer="ones", name="scale")

    def call(self, inputs):
        noisy, noise = inputs
        return noisy - self.scale * noise


class DnCNN(keras.Model):
    """fit() with its own train_step"""

    def __init__(self, depth=5, width=48):
        super().__init__()
        self.convs = [layers.Conv2D(width, 3, padding="same", activation="relu") for _ in range(depth - 1)]
        self.last = layers.Conv2D(1, 3, padding="same")
        self.res = ResidualScale()
        self.tracker = keras.metrics.Mean(name="loss")
        self.psnr = keras.metrics.Mean(name="psnr")

    def call(self, x, training=False):
        h = x
        for c in self.convs:
            h = c(h)
        return self.res([x, self.last(h)])

    @property
    def metrics(self):
        return [self.tracker, self.psnr]

    def _update(self, loss):
        value = loss.detach()
        self.tracker.update_state(value)
        self.psnr.update_state(-10 * torch.log10(value))
        return {m.name: m.result() for m in self.metrics}

    def train_step(self, data):
        x, y = data
        self.zero_grad()
        loss = torch.mean((self(x, training=True) - y) ** 2)
        loss.backward()
        variables = [v for v in self.trainable_weights]
        with torch.no_grad():
            self.optimizer.apply([v.value.grad for v in variables], variables)
        return self._update(loss)

    def test_step(self, data):
        x, y = data
        return self._update(torch.mean((self(x) - y) ** 2))


class Progress(keras.callbacks.Callback):
    def __init__(self, sample):
        super().__init__()
        self.sample = sample
        self.ema = None

    def on_train_batch_end(self, batch, logs=None):
        loss = float(logs["loss"])
        self.ema = loss if self.ema is None else 0.9 * self.ema + 0.1 * loss
        if batch % 5 == 0:
            print("  step %d ema %.5f" % (batch, self.ema))

    def on_epoch_end(self, epoch, logs=None):
        out = self.model.predict(self.sample, verbose=0)
        print("epoch %d: range of the sample [%.3f, %.3f]" % (epoch, out.min(), out.max()))


rng = np.random.default_rng(133)
patches = rng.random((704, 40, 40, 1)).astype("float32")
train_loader = DataLoader(NoisyPatches(patches[:640]), batch_size=32, shuffle=True)
val_loader = DataLoader(NoisyPatches(patches[640:]), batch_size=32)
model = DnCNN()
model.build((None, 40, 40, 1))
model.compile(optimizer=keras.optimizers.Adam(1e-3))
folder = tempfile.mkdtemp()
tic = time.time()
model.fit(train_loader, validation_data=val_loader, epochs=5, verbose=2, callbacks=[
    Progress(patches[640:648]),
    keras.callbacks.ModelCheckpoint(os.path.join(folder, "dncnn.weights.h5"), save_weights_only=True),
    keras.callbacks.TerminateOnNaN(),
    keras.callbacks.CSVLogger(os.path.join(folder, "log.csv"), append=True),
])
print("train time: %.2f s" % (time.time() - tic))
