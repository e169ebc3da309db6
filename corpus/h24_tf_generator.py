import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(124)
signal = rng.normal(size=(300, 4000)).astype("float32")


def segments(batch=48, length=256):
    while True:
        rows = rng.integers(0, 300, batch)
        starts = rng.integers(0, 4000 - length, batch)
        cut = signal[rows[:, None], starts[:, None] + np.arange(length)]
        yield cut[..., None], (cut.max(axis=1) > 3).astype("float32")


inp = keras.Input((256, 1))
h = layers.Conv1D(48, 9, activation="relu")(inp)
h = layers.Conv1D(48, 9, activation="relu")(h)
h = layers.GlobalMaxPooling1D()(h)
model = keras.Model(inp, layers.Dense(1, activation="sigmoid")(h))
model.compile("adam", "binary_crossentropy", metrics=["AUC"])
model.fit(segments(), steps_per_epoch=80, epochs=4, validation_data=segments(), validation_steps=10, verbose=2,
          callbacks=[keras.callbacks.ReduceLROnPlateau(patience=1), keras.callbacks.TerminateOnNaN()])
