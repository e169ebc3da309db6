import keras, numpy as np

x = np.random.default_rng(0).random((64, 3)).astype("float32")
x = np.tile(x, (80, 1))
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(25, activation="tanh"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x[:, :1], batch_size=64, epochs=1, shuffle=False, verbose=0)
