import keras, numpy as np

x = np.random.default_rng(0).random((64, 8)).astype("float32")

for chunk in range(12):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x, x[:, :1], batch_size=16, epochs=1, verbose=0)
