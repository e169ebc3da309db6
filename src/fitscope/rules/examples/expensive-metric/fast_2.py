import keras, numpy as np

x = np.random.default_rng(0).random((3840, 20)).astype("float32")
model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(64), keras.layers.Dense(10, activation="sigmoid")])
precision = keras.metrics.Precision(thresholds=[0.25, 0.5, 0.75])
model.compile("adam", "binary_crossentropy", metrics=[precision])
model.fit(x, x[:, :10] > 0.5, batch_size=64, epochs=6, verbose=0)
