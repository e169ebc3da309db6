import keras
import numpy as np
import tensorflow as tf

images = np.random.default_rng(0).integers(0, 255, (2048, 28, 28, 1)).astype("uint8")
labels = np.arange(2048) % 10


def preprocess(image, label):
    return tf.image.per_image_standardization(tf.image.resize(image, (56, 56))), label


dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(2048)
dataset = dataset.map(preprocess, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)
model = keras.Sequential(
    [
        keras.Input((56, 56, 1)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(2),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(dataset, epochs=2, verbose=0)
