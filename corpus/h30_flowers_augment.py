import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def augment(images, labels):
    images = tf.image.random_flip_left_right(images)
    return tf.image.random_brightness(images, 0.1), labels


def block(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.MaxPooling2D()(layers.ReLU()(x))


rng = np.random.default_rng(130)
images = rng.random((1024, 48, 48, 3)).astype("float32")
labels = rng.integers(0, 5, 1024)
train = tf.data.Dataset.from_tensor_slices((images[:896], labels[:896])).cache().shuffle(896).batch(32)
train = train.map(augment, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
valid = tf.data.Dataset.from_tensor_slices((images[896:], labels[896:])).batch(64).cache()
inputs = keras.Input((48, 48, 3))
x = block(block(block(inputs, 24), 48), 64)
model = keras.Model(inputs, layers.Dense(5, activation="softmax")(layers.GlobalAveragePooling2D()(x)))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
callbacks = [
    keras.callbacks.EarlyStopping(patience=8, restore_best_weights=True),
    keras.callbacks.ModelCheckpoint("best.weights.h5", save_weights_only=True, save_best_only=True),
]
t0 = time.time()
model.fit(train, validation_data=valid, epochs=6, callbacks=callbacks, verbose=2)
print("train time: %.1f s" % (time.time() - t0))
