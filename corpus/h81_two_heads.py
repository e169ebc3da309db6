import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import collections
import tempfile
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers


class NoisyModel(keras.Model):
    def train_step(self, data):
        x, y = data
        return super().train_step((x + tf.random.normal(tf.shape(x), stddev=0.05), y))


class RecentLoss(keras.callbacks.Callback):
    def __init__(self, window=50):
        super().__init__()
        self.recent = collections.deque(maxlen=window)
        self.seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        self.recent.append(logs["loss"])
        if self.seen % 50 == 0:
            print("step %d, mean loss of the last %d: %.4f"
                  % (self.seen, len(self.recent), sum(self.recent) / len(self.recent)))


def build(steps, channels):
    inputs = keras.Input((steps, channels))
    x = layers.Conv1D(96, 5, padding="same", activation="relu")(inputs)
    x = layers.Conv1D(96, 5, padding="same", activation="relu")(x)
    x = layers.MaxPooling1D(2)(x)
    x = layers.Conv1D(128, 5, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    return NoisyModel(inputs, {
        "kind": layers.Dense(5, activation="softmax", name="kind")(x),
        "level": layers.Dense(1, name="level")(x),
    })


rng = np.random.default_rng(612)
x = rng.normal(size=(2560, 128, 12)).astype("float32")
y = {"kind": rng.integers(0, 5, 2560), "level": x.mean(axis=(1, 2))[:, None]}
x_val = rng.normal(size=(320, 128, 12)).astype("float32")
y_val = {"kind": rng.integers(0, 5, 320), "level": x_val.mean(axis=(1, 2))[:, None]}

out = tempfile.mkdtemp()
model = build(128, 12)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3, global_clipnorm=1.0),
    loss={"kind": "sparse_categorical_crossentropy", "level": "mse"},
    loss_weights={"kind": 1.0, "level": 0.5},
    metrics={"kind": ["accuracy"], "level": ["mae"]},
)
callbacks = [
    RecentLoss(),
    keras.callbacks.CSVLogger(os.path.join(out, "history.csv")),
    keras.callbacks.ModelCheckpoint(os.path.join(out, "best.weights.h5"), save_weights_only=True,
                                    save_best_only=True, monitor="val_loss"),
    keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.9),
]
t0 = time.time()
model.fit(x, y, batch_size=32, epochs=4, validation_data=(x_val, y_val), callbacks=callbacks, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
