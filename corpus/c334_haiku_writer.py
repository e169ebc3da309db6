import os
os.environ["KERAS_BACKEND"] = "torch"
import time
import numpy as np
import keras
from keras import layers

LINES = ["old pond a frog leaps", "the sound of water", "winter seclusion", "listening that evening",
         "to the rain in the mountain", "first cold shower", "even the monkey seems to want",
         "a little coat of straw", "over the wintry forest", "winds howl in rage", "with no leaves to blow"]
rng = np.random.default_rng(334)
text = " / ".join(LINES[i] for i in rng.integers(0, len(LINES), 420))
alphabet = sorted(set(text))
index = {c: i for i, c in enumerate(alphabet)}
codes = np.array([index[c] for c in text], "int64")
CONTEXT = 24
x = np.lib.stride_tricks.sliding_window_view(codes, CONTEXT)[:-1]
y = codes[CONTEXT:]


class Recital(keras.callbacks.Callback):
    """After each epoch: a few openings, continued, so that we can hear how it is coming along."""

    openings = ["old pond", "winter", "first cold", "the rain", "a little", "winds howl", "to the", "even"]

    def on_epoch_end(self, epoch, logs=None):
        for opening in self.openings:
            print("   ", self.continue_(opening, 60))

    def continue_(self, opening, length):
        line = opening
        for _ in range(length):
            ctx = [index[c] for c in line[-CONTEXT:].rjust(CONTEXT)]
            p = self.model.predict(np.array([ctx]), verbose=0)[0].astype("float64")
            line += alphabet[rng.choice(len(alphabet), p=p / p.sum())]
        return line


model = keras.Sequential([
    keras.Input((CONTEXT,), dtype="int64"),
    layers.Embedding(len(alphabet), 24),
    layers.Conv1D(64, 5, activation="relu"),
    layers.Conv1D(64, 5, activation="relu"),
    layers.Flatten(),
    layers.Dense(len(alphabet), activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy")

began = time.time()
model.fit(x, y, batch_size=128, epochs=3, callbacks=[Recital()], verbose=2)
print("train time: %.2f s" % (time.time() - began))
