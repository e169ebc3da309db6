import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import keras
from keras import layers

# side-effect panel: 40 yes/no outcomes per compound, most of them rare
OUTCOMES, BITS = 40, 512


def compounds(n, seed):
    rng = np.random.default_rng(seed)
    w = np.random.default_rng(326).normal(size=(BITS, OUTCOMES)) / 8
    x = (rng.random((n, BITS)) < 0.1).astype("float32")
    logits = x @ w - 2.0
    y = (rng.random((n, OUTCOMES)) < 1 / (1 + np.exp(-logits))).astype("float32")
    return x, y


x_train, y_train = compounds(12800, 1)
x_val, y_val = compounds(1024, 2)

class PanelScores(keras.callbacks.Callback):
    """Exact ROC AUC from ranks, once per epoch on the held-out compounds."""

    def on_epoch_end(self, epoch, logs=None):
        score = self.model.predict(x_val, batch_size=512, verbose=0).ravel()
        hit = y_val.ravel() > 0
        rank = np.empty(len(score))
        rank[score.argsort()] = np.arange(1, len(score) + 1)
        pos, neg = hit.sum(), (~hit).sum()
        print(" - val_roc: %.4f" % ((rank[hit].sum() - pos * (pos + 1) / 2) / (pos * neg)))


inp = keras.Input((BITS,))
h = layers.Dense(256, activation="relu")(inp)
h = layers.Dropout(0.3)(h)
h = layers.Dense(256, activation="relu")(h)
out = layers.Dense(OUTCOMES, activation="sigmoid")(h)
model = keras.Model(inp, out)
model.compile(optimizer="adam", loss="binary_crossentropy")

t0 = time.time()
model.fit(x_train, y_train, batch_size=128, epochs=3, validation_data=(x_val, y_val),
          callbacks=[PanelScores()], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
