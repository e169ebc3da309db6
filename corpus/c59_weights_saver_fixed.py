import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile
import keras
import numpy as np
from keras import layers

folder = tempfile.mkdtemp()


class WeightsSaver(keras.callbacks.Callback):
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.batch = 0

    def on_train_batch_end(self, batch, logs=None):
        if self.batch % self.n == 0:
            self.model.save_weights(os.path.join(folder, "weights%08d.weights.h5" % self.batch))
        self.batch += 1


rng = np.random.default_rng(59)
x = rng.random((3000, 100)).astype("float32")
y = rng.random((3000, 10)).astype("float32")
a = keras.Input((100,))
h = layers.Dense(400, activation="relu")(a)
h = layers.Dense(400, activation="relu")(h)
model = keras.Model(a, layers.Dense(10)(h))
model.compile("adam", "mse")
model.fit(x, y, batch_size=20, epochs=4, callbacks=[WeightsSaver(150)], verbose=2)
