import time
import numpy as np
import keras
from keras import layers

rng = np.random.default_rng(7)
x = rng.random((2048, 64)).astype("float32")
y = rng.integers(0, 3, 2048)


class Rows(keras.utils.PyDataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        rows = slice(index * 64, index * 64 + 64)
        return x[rows], y[rows]


model = keras.Sequential([keras.Input((64,)), layers.Dense(1024, activation="relu"), layers.Dense(1024, activation="relu"),
                          layers.Dense(3, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(Rows(), epochs=10, validation_data=(x[:256], y[:256]), verbose=2,
          callbacks=[keras.callbacks.EarlyStopping(patience=4), keras.callbacks.CSVLogger("log.csv")])
print("train time: %.2f s" % (time.time() - t0))
