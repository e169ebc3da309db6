import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np


def clicks(n, seed=109):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        row = rng.random((1, 16)).astype("float32")
        yield row, np.array([[float(row.sum() > 8)]], "float32")


model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
model.compile("sgd", "binary_crossentropy")
start = time.time()
rows = list(clicks(4000))
for i in range(0, len(rows), 50):
    loss = model.train_on_batch(*map(np.concatenate, zip(*rows[i:i + 50])))
print("loss", float(loss))
print("train time: %.1f s" % (time.time() - start))
