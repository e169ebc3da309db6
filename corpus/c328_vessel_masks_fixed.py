import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

rng = np.random.default_rng(328)


def retina(n, side=32):
    img = rng.normal(0.4, 0.1, (n, side, side, 1)).astype("float32")
    mask = np.zeros_like(img)
    for i in range(n):
        r = np.clip(np.cumsum(rng.integers(-1, 2, side)) + side // 2, 0, side - 1)
        mask[i, r, np.arange(side)] = 1.0
    return img - 0.2 * mask, mask


class DoubleConv(layers.Layer):
    def __init__(self, filters, **kw):
        super().__init__(**kw)
        self.a = layers.Conv2D(filters, 3, padding="same", activation="relu")
        self.b = layers.Conv2D(filters, 3, padding="same", activation="relu")

    def call(self, x):
        return self.b(self.a(x))


class TinyUNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.down, self.mid, self.up = DoubleConv(8), DoubleConv(16), DoubleConv(8)
        self.pool = layers.MaxPooling2D()
        self.grow = layers.UpSampling2D()
        self.join = layers.Concatenate()
        self.head = layers.Conv2D(1, 1, activation="sigmoid")

    def call(self, x):
        d = self.down(x)
        m = self.grow(self.mid(self.pool(d)))
        return self.head(self.up(self.join([d, m])))


train = tf.data.Dataset.from_tensor_slices(retina(960)).shuffle(960).batch(32).prefetch(2)
held_out = tf.data.Dataset.from_tensor_slices(retina(600)).batch(100).prefetch(2)

model = TinyUNet()
model.compile(optimizer="adam", loss="binary_crossentropy",
              metrics=[keras.metrics.BinaryIoU(target_class_ids=[1])])
t0 = time.time()
model.fit(train, validation_data=held_out, epochs=7, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
