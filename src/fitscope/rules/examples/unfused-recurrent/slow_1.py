import keras, numpy as np

x = np.random.default_rng(0).random((640, 40, 8)).astype("float32")
model = keras.Sequential([keras.Input((40, 8)), keras.layers.LSTM(32, unroll=True), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x[:, 0, :1], batch_size=32, epochs=3, verbose=0)
