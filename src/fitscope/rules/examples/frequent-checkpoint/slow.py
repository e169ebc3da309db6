import time
import keras, numpy as np

x = np.random.default_rng(0).random((3200, 16)).astype("float32")
y = x[:, :1].copy()
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")

saves = keras.callbacks.ModelCheckpoint("model.keras", save_freq=2)
model.fit(x, y, batch_size=32, epochs=5, verbose=0, callbacks=[saves])
