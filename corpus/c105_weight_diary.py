import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import keras
import numpy as np
from lib_report import WeightDiary

rng = np.random.default_rng(105)
x = rng.normal(size=(8192, 200)).astype("float32")
y = (x[:, :3].sum(axis=1) > 0).astype("float32")
model = keras.Sequential([
    keras.Input((200,)),
    keras.layers.Dense(600, activation="relu"),
    keras.layers.Dense(300, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
start = time.time()
model.fit(x, y, batch_size=128, epochs=15, callbacks=[WeightDiary("diary")], verbose=2)
print("train time: %.1f s" % (time.time() - start))
