import keras, numpy as np

x = np.random.default_rng(0).random((64, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), *[keras.layers.Dense(16, activation="relu") for _ in range(40)]])
model.compile("adam", "mse")
model.fit(x, x[:, :1], batch_size=16, epochs=2, verbose=0)
