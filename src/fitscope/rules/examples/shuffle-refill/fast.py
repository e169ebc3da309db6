import time
import keras, numpy as np, tensorflow as tf

def fetch(rows):
    time.sleep(0.012)
    return rows

def load(rows):
    rows = tf.ensure_shape(tf.numpy_function(fetch, [rows], tf.float32), (4, 64))
    return rows, rows[:, :1]

rows = np.random.default_rng(0).random((480, 64)).astype("float32")
data = tf.data.Dataset.from_tensor_slices(rows).batch(4, drop_remainder=True)
data = data.shuffle(120).map(load, num_parallel_calls=8).prefetch(8)
options = tf.data.Options()
options.threading.private_threadpool_size = 8
data = data.with_options(options)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(700, activation="relu"),
                          keras.layers.Dense(700, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=6, verbose=0)
