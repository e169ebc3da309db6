import time
import numpy as np
import keras
from keras import layers

import tensorflow as tf

rng = np.random.default_rng(5)
images = rng.integers(0, 255, (1024, 40, 40, 3), dtype=np.uint8)
labels = rng.integers(0, 5, 1024)


def prepare(image, label):
    image = tf.cast(image, tf.float32) / 255.0
    return tf.image.resize(image, (32, 32)), label


data = (tf.data.Dataset.from_tensor_slices((images, labels))
        .map(prepare, num_parallel_calls=tf.data.AUTOTUNE).cache().shuffle(1024).batch(64).prefetch(tf.data.AUTOTUNE))
model = keras.Sequential([
    keras.Input((32, 32, 3)),
    layers.Conv2D(32, 3, padding="same", activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(48, 3, padding="same", activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(5, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(data, epochs=4, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
