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


def gen_data(path="train.txt", batchsize=BATCH):
    while 1:
        f = open(path)
        batch_X, batch_y = [], []
        for line in f:
            line = line.strip("\n").split(",")
            line = [np.float32(i) for i in line]
            batch_X.append(line[:-1])
            batch_y.append(int(line[-1]))
            if len(batch_X) == batchsize:
                yield np.array(batch_X) / 255.0, to_categorical(batch_y, CLASSES)
                batch_X, batch_y = [], []
        f.close()


make_file()
model = keras.Sequential([
    keras.Input((784,)),
    layers.Dense(256), layers.Activation("relu"), layers.Dropout(0.2),
    layers.Dense(256), layers.Activation("relu"), layers.Dropout(0.2),
    layers.Dense(CLASSES), layers.Activation("softmax"),
])
model.compile(loss="categorical_crossentropy", optimizer=keras.optimizers.RMSprop(), metrics=["accuracy"])
t0 = time.time()
model.fit(gen_data(), steps_per_epoch=ROWS // BATCH, epochs=5, verbose=2)
print("train time: %.1f s" % (time.time() - t0))
