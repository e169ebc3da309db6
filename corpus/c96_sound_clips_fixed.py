import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import keras
from lib_clips import PackedClips, record


def build():
    inputs = keras.Input((24, 40))
    x = keras.layers.Conv1D(32, 3, activation="relu")(inputs)
    x = keras.layers.GlobalMaxPooling1D()(x)
    outputs = keras.layers.Dense(6, activation="softmax")(x)
    return keras.Model(inputs, outputs)


if __name__ == "__main__":
    folder = record("clips", 1920, seed=96)
    model = build()
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    start = time.time()
    model.fit(PackedClips(folder, 64), epochs=20, verbose=2)
    print("train time: %.1f s" % (time.time() - start))
