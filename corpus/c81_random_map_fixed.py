import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf
from keras import layers

rng = np.random.default_rng(81)
blobs = []
for _ in range(80):
    small = rng.integers(0, 255, (40, 40, 3), dtype=np.uint8)
    blobs.append(tf.io.encode_jpeg(np.kron(small, np.ones((12, 12, 1), np.uint8))).numpy())
labels = rng.integers(0, 2, 80)


@tf.function
def augment(blob, label):
    img = tf.io.decode_jpeg(blob, channels=3)
    img = tf.image.random_crop(img, (384, 384, 3))
    img = tf.image.random_flip_left_right(img)
    img = tf.image.resize(tf.cast(img, tf.float32) / 255.0, (96, 96), antialias=True)
    return tf.ensure_shape(tf.image.random_contrast(img, 0.7, 1.3), (96, 96, 3)), label


ds = tf.data.Dataset.from_tensor_slices((blobs, labels)).shuffle(80)
ds = ds.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.batch(8).prefetch(2)
model = keras.Sequential([keras.Input((96, 96, 3)), layers.Conv2D(4, 5, strides=4, activation="relu"), layers.Flatten(),
                          layers.Dense(2, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(ds, epochs=10, verbose=2)
