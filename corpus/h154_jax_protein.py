import os
os.environ["KERAS_BACKEND"] = "jax"
import tempfile
import time
import numpy as np
import keras
from keras import layers, ops

LENGTH, LETTERS, WIDTH = 96, 24, 64
rng = np.random.default_rng(154)
x = rng.integers(1, LETTERS, (1280, LENGTH))
y = ((x == 5).sum(1) > (x == 7).sum(1)).astype("int32")
x_val, y_val = x[1152:], y[1152:]
x, y = x[:1152], y[:1152]


class Positions(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(shape[1], shape[2]), name="table")

    def call(self, h):
        return h + self.table


def block(h):
    a = layers.MultiHeadAttention(4, WIDTH // 4)(layers.LayerNormalization()(h), layers.LayerNormalization()(h))
    h = layers.Add()([h, a])
    f = layers.Dense(2 * WIDTH, activation="gelu")(layers.LayerNormalization()(h))
    return layers.Add()([h, layers.Dense(WIDTH)(f)])


inp = keras.Input((LENGTH,), dtype="int32")
h = Positions()(layers.Embedding(LETTERS, WIDTH)(inp))
for _ in range(2):
    h = block(h)
h = layers.GlobalAveragePooling1D()(h)
model = keras.Model(inp, layers.Dense(2, activation="softmax")(h))
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])

folder = tempfile.mkdtemp()
callbacks = [
    keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
    keras.callbacks.ModelCheckpoint(os.path.join(folder, "best.weights.h5"), save_weights_only=True,
                                    save_best_only=True),
    keras.callbacks.EarlyStopping(patience=10),
]
t0 = time.time()
model.fit(x, y, batch_size=64, epochs=8, validation_data=(x_val, y_val), callbacks=callbacks, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
