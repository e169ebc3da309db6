import keras, numpy as np

rng = np.random.default_rng(0)
x, y = rng.random((96, 32)).astype("float32"), rng.random((96, 1)).astype("float32")
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse")
model.fit(x[:64], y[:64], batch_size=2, epochs=100, validation_data=(x[64:], y[64:]), verbose=0)
