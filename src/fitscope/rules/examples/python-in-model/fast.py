import keras, numpy as np

class Smooth(keras.layers.Layer):
    def call(self, inputs):
        return keras.ops.sin(inputs)

x = np.random.default_rng(0).random((1600, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), Smooth(), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=16, epochs=2, verbose=0)
