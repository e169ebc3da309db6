import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
from keras import layers
from keras.utils import to_categorical

ROWS, BATCH, CLASSES = 3000, 50, 10


def make_file(path="train.txt"):
    rng = np.random.default_rng(90)
    pixels = rng.integers(0, 256, (ROWS, 784))
    labels = rng.integers(0, CLASSES, (ROWS, 1))
    with open(path, "w") as f:
        for row in np.hstack([pixels, labels]).tolist():
            f.write(",".join(map(str, row)) + "\n")


def load(path="train.txt"):
    table = np.loadtxt(path, delimiter=",", dtype="float32")
    return table[:, :-1] / 255.0, to_categorical(table[:, -1].astype("int32"), CLASSES)


make_file()
model = keras.Sequential([
    keras.Input((784,)),
    layers.Dense(256), layers.Activation("relu"), layers.Dropout(0.2),
    layers.Dense(256), layers.Activation("relu"), layers.Dropout(0.2),
    layers.Dense(CLASSES), layers.Activation("softmax"),
])
model.compile(loss="categorical_crossentropy", optimizer=keras.optimizers.RMSprop(), metrics=["accuracy"])
t0 = time.time()
x, y = load()
model.fit(x, y, batch_size=BATCH, epochs=5, verbose=2)
print("train time: %.1f s" % (time.time() - t0))
