import time
import keras, numpy as np, tensorflow as tf

def fetch(row):
    time.sleep(0.002)
    return row

def load(row):
    row = tf.ensure_shape(tf.numpy_function(fetch, [row], tf.float32), (8,))
    return row, row[:1]

rows = np.random.default_rng(0).random((640, 8)).astype("float32")
data = tf.data.Dataset.from_tensor_slices(rows).map(load).batch(32)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=2, verbose=0)
