import keras, numpy as np

x = np.random.default_rng(0).random((3200, 16)).astype("float32")

def batches():
    while True:
        for start in range(0, 3200, 32):
            yield x[start:start + 32], x[start:start + 32, :1]

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(batches(), steps_per_epoch=100, epochs=8, validation_data=batches(), validation_steps=20, verbose=0)
