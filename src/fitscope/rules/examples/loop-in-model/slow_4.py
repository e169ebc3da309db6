import keras, numpy as np

def spread_out(y_true, y_pred):
    close = 0.0
    for row in range(128):
        close = close + keras.ops.sum(keras.ops.relu(0.5 - keras.ops.abs(y_pred[row] - y_pred)))
    return close / 128 + keras.ops.mean(keras.ops.square(y_true - y_pred))

x = np.random.default_rng(0).random((12800, 16)).astype("float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(4)])
model.compile("sgd", spread_out)
model.fit(x, x[:, :4], batch_size=128, epochs=10, verbose=0)
