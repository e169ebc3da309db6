import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import tempfile
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
import keras
from keras import layers


def blobs(n, seed):
    r = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:32, 0:32]
    img = np.zeros((n, 32, 32, 1), "float32")
    for _ in range(4):
        cy, cx = r.uniform(4, 28, (2, n, 1, 1))
        s = r.uniform(2, 5, (n, 1, 1))
        img[..., 0] += np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / (2 * s * s))
    noisy = img + 0.3 * r.normal(size=img.shape).astype("float32")
    return torch.from_numpy(noisy), torch.from_numpy(img)


def autoencoder():
    inp = keras.Input((32, 32, 1))
    h = layers.Conv2D(24, 3, padding="same", activation="relu")(inp)
    h = layers.MaxPooling2D(2)(h)
    h = layers.Conv2D(48, 3, padding="same", activation="relu")(h)
    h = layers.Conv2D(48, 3, padding="same", activation="relu")(h)
    h = layers.UpSampling2D(2)(h)
    h = layers.Conv2D(24, 3, padding="same", activation="relu")(h)
    return keras.Model(inp, layers.Conv2D(1, 3, padding="same")(h))


class LossTrace(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.values = []

    def on_train_batch_end(self, batch, logs=None):
        self.values.append(float(logs["loss"]))


def main():
    keras.utils.set_random_seed(9)
    train = DataLoader(TensorDataset(*blobs(2304, 1)), batch_size=64, shuffle=True)
    held = DataLoader(TensorDataset(*blobs(256, 2)), batch_size=64)
    model = autoencoder()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
    best = os.path.join(tempfile.mkdtemp(), "best.weights.h5")
    trace = LossTrace()
    t0 = time.time()
    model.fit(train, validation_data=held, epochs=4, verbose=2, callbacks=[
        trace,
        keras.callbacks.ReduceLROnPlateau(patience=2),
        keras.callbacks.ModelCheckpoint(best, save_best_only=True, save_weights_only=True),
    ])
    print("batches seen:", len(trace.values))
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
