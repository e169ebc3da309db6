import time
import keras, numpy as np, tensorflow as tf

def smooth(values):
    time.sleep(0.004)
    return np.sin(values)

class Smooth(keras.layers.Layer):
    def call(self, inputs):
        return tf.ensure_shape(tf.numpy_function(smooth, [inputs], tf.float32), inputs.shape)

x = np.random.default_rng(0).random((1600, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), Smooth(), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=16, epochs=2, verbose=0)
