import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
from keras import layers


class Segmenter:
    def __init__(self, size):
        inputs = keras.Input((size, size, 1))
        a = layers.Conv2D(24, 3, padding="same", activation="relu")(inputs)
        b = layers.Conv2D(48, 3, padding="same", strides=2, activation="relu")(a)
        b = layers.Conv2D(48, 3, padding="same", activation="relu")(b)
        c = layers.Concatenate()([layers.UpSampling2D()(b), a])
        outputs = layers.Conv2D(1, 3, padding="same", activation="sigmoid")(c)
        self.model = keras.Model(inputs, outputs)
        self.model.compile("adam", "binary_crossentropy")

    def train(self, x, y, epochs, batch=16):
        rng = np.random.default_rng(3)
        for epoch in range(epochs):
            order = rng.permutation(len(x))
            for start in range(0, len(x), batch):
                rows = order[start:start + batch]
                loss = self.model.train_on_batch(x[rows], y[rows])
            print("epoch", epoch, "loss %.4f" % loss)


rng = np.random.default_rng(133)
x = rng.random((384, 64, 64, 1)).astype("float32")
y = (x > 0.5).astype("float32")
start = time.time()
segmenter = Segmenter(64)
segmenter.train(x[:352], y[:352], epochs=5)
print("left out:", segmenter.model.evaluate(x[352:], y[352:], batch_size=32, verbose=0))
print("train time: %.1f s" % (time.time() - start))
