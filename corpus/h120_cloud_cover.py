"""Cloud cover classes from sky pictures."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile
import time
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIDE = 40


def skies(n, seed):
    rng = np.random.default_rng(seed)
    cover = rng.integers(0, 4, n)
    coarse = rng.normal(size=(n, 10, 10)) + (cover[:, None, None] - 1.5) * 0.8
    cloud = np.repeat(np.repeat(coarse, 4, 1), 4, 2)
    img = 1 / (1 + np.exp(-2 * cloud))
    img = np.stack([img, img * 0.9, 0.6 + 0.4 * img], -1) + rng.normal(0, 0.08, (n, SIDE, SIDE, 3))
    return (np.clip(img, 0, 1) * 255).astype("uint8"), cover.astype("int32")


def jitter(images, labels):
    # sensor noise and exposure, one draw for the batch
    rng = np.random.default_rng(int(labels.sum()))
    gain = rng.uniform(0.8, 1.2, (len(images), 1, 1, 1)).astype("float32")
    out = images.astype("float32") * (gain / 255.0)
    if rng.random() < 0.5:
        out = out[:, :, ::-1]
    return np.ascontiguousarray(out), labels


def prepare(images, labels, batch_size):
    ds = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).batch(batch_size, drop_remainder=True)

    def apply(x, y):
        x, y = tf.numpy_function(jitter, [x, y], [tf.float32, tf.int32])
        return tf.ensure_shape(x, (batch_size, SIDE, SIDE, 3)), tf.ensure_shape(y, (batch_size,))

    return ds.map(apply, num_parallel_calls=2).prefetch(2)


class Notes(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])

    def on_epoch_end(self, epoch, logs=None):
        print("  last losses:", np.round(self.losses[-3:], 3))


def classifier():
    inputs = keras.Input((SIDE, SIDE, 3))
    h = layers.Conv2D(32, 3, padding="same", activation="relu")(inputs)
    h = layers.Conv2D(48, 3, padding="same", activation="relu")(h)
    h = layers.MaxPooling2D()(h)
    h = layers.Conv2D(64, 3, padding="same", activation="relu")(h)
    h = layers.Conv2D(64, 3, padding="same", activation="relu")(h)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(inputs, layers.Dense(4, activation="softmax")(h))


keras.utils.set_random_seed(120)
images, cover = skies(1600, 120)
held = skies(64, 121)
folder = tempfile.mkdtemp(prefix="sky")
model = classifier()
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
callbacks = [
    Notes(),
    keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
    keras.callbacks.ModelCheckpoint(os.path.join(folder, "best.weights.h5"), save_best_only=True, save_weights_only=True),
]
t0 = time.time()
model.fit(prepare(images, cover, 32), validation_data=(held[0].astype("float32") / 255.0, held[1]),
          epochs=4, callbacks=callbacks, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
