import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

# forensics baseline: real vs. edited, must survive whatever the upload sites do to a picture
N, SIDE = 480, 224
rng = np.random.default_rng(321)
coarse = rng.integers(0, 255, (N, 28, 28, 3), dtype=np.uint8)
photos = np.repeat(np.repeat(coarse, 8, axis=1), 8, axis=2)
labels = rng.integers(0, 2, N).astype("float32")
photos[labels == 1, 60:120, 60:120] //= 2


def upload(img, label):
    img = tf.image.random_flip_left_right(img)
    img = tf.image.random_jpeg_quality(img, 40, 95)
    img = tf.image.random_jpeg_quality(img, 60, 95)
    img = tf.image.random_jpeg_quality(img, 70, 95)
    img.set_shape((SIDE, SIDE, 3))
    return tf.cast(img, tf.float32) / 127.5 - 1.0, label


train = tf.data.Dataset.from_tensor_slices((photos, labels))
train = train.shuffle(N)
train = train.map(upload)
train = train.batch(24)
train = train.prefetch(tf.data.AUTOTUNE)

model = keras.Sequential([
    keras.Input((SIDE, SIDE, 3)),
    layers.AveragePooling2D(2),
    layers.Conv2D(8, 5, strides=4, activation="relu"),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.GlobalMaxPooling2D(),
    layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

start = time.time()
model.fit(train, epochs=8, verbose=2)
print("train time: %.2f s" % (time.time() - start))
