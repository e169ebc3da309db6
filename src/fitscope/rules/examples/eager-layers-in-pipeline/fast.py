import keras, numpy as np, tensorflow as tf
from keras import layers

images = np.random.default_rng(0).random((96, 32, 32, 3)).astype("float32")
labels = np.zeros(96, "int32")
flip, rotate = layers.RandomFlip("horizontal"), layers.RandomRotation(0.1)
data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(8)
data = data.map(lambda x, y: (rotate(flip(x)), y), num_parallel_calls=tf.data.AUTOTUNE)
model = keras.Sequential([keras.Input((32, 32, 3)), layers.Conv2D(48, 3), layers.Conv2D(48, 3), layers.Flatten(),
                          layers.Dense(2, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(data, epochs=8, verbose=0)
