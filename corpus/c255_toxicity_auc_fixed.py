import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import numpy as np
import keras
from keras import layers
from sklearn.metrics import roc_auc_score

LABELS = ["toxic", "severe", "obscene", "threat", "insult", "identity", "spam", "off_topic", "caps", "link"]


def load(n=16384, d=200, seed=255):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)).astype("float32")
    w = rng.normal(size=(d, len(LABELS))) / np.sqrt(d)
    y = (x @ w + 0.5 * rng.normal(size=(n, len(LABELS))) > 0.3).astype("float32")
    cut = int(n * 0.9)
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


def mean_auc(y_true, y_pred):
    scores = []
    for j in range(y_true.shape[1]):
        if 0 < y_true[:, j].sum() < len(y_true):
            scores.append(roc_auc_score(y_true[:, j], y_pred[:, j]))
    return np.float32(np.mean(scores)) if scores else np.float32(0.5)


class EpochAUC(keras.callbacks.Callback):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def on_epoch_end(self, epoch, logs=None):
        pred = self.model.predict(self.x, batch_size=1024, verbose=0)
        print("val auc: %.4f" % mean_auc(self.y, pred))


def get_model(d=200):
    inp = keras.Input((d,))
    x = layers.Dense(512, activation="relu")(inp)
    x = layers.Dropout(0.3)(x)
    x = layers.Dense(512, activation="relu")(x)
    x = layers.Dropout(0.3)(x)
    out = layers.Dense(len(LABELS), activation="sigmoid")(x)
    return keras.Model(inp, out)


keras.utils.set_random_seed(255)
(x_train, y_train), (x_val, y_val) = load()
model = get_model()
model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="binary_crossentropy")
t0 = time.time()
model.fit(x_train, y_train, batch_size=128, epochs=6, validation_data=(x_val, y_val),
          callbacks=[EpochAUC(x_val, y_val)], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
