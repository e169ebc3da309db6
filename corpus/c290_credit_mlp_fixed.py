import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import keras
from keras.models import Sequential
from keras.layers import Dense, Input

# scoring data: 24 columns, 1 = default. Loss goes down nicely but one epoch takes forever
# for such a small table, and the GPU sits at 2 %.
np.random.seed(5995)
keras.utils.set_random_seed(5995)

params = {
    "rows": 18000,
    "hidden": [256, 256],
    "batch": 64,
    "epochs": 3,
    "lr": 0.0012,
}


def load_table(n):
    X = np.random.randn(n, 24)
    X[:, 5] = np.abs(X[:, 5]) * 3000
    X[:, 9] = np.round(X[:, 9] * 4 + 40)
    w = np.random.randn(24)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (Z @ w + np.random.randn(n) > 1.0).astype(int)
    return Z.astype("float32"), y.astype("float32")


def build(p):
    net = Sequential()
    net.add(Input(shape=(24,)))
    for h in p["hidden"]:
        net.add(Dense(h, activation="relu"))
    net.add(Dense(1, activation="sigmoid"))
    net.compile(loss="binary_crossentropy", optimizer=keras.optimizers.Adam(p["lr"]), metrics=["accuracy"])
    return net


X, Y = load_table(params["rows"])
print(X.shape, Y.mean())
net = build(params)

start = time.time()
net.fit(X, Y, batch_size=params["batch"], epochs=params["epochs"], verbose=2)
print("train time: %.2f s" % (time.time() - start))
