import keras, numpy as np

def loss(y_true, y_pred):
    total = 0.0
    for row in range(64):
        total = total + keras.ops.sum(keras.ops.square(y_true[row] - y_pred[row]))
    return total / 64

x = np.random.default_rng(0).random((3840, 16)).astype("float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(16)])
model.compile("sgd", loss)
model.fit(x, x, batch_size=64, epochs=10, verbose=0)
