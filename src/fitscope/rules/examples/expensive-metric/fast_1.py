import keras, numpy as np
from keras import ops

def ranked(y_true, y_pred):
    distances = ops.abs(y_pred - ops.transpose(y_pred))
    return ops.mean(ops.sort(distances, axis=1)[:, :10])

class Ranks(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        logs["ranked"] = float(ranked(None, ops.convert_to_tensor(self.model.predict(x[:512], verbose=0))))

x = np.random.default_rng(0).random((16384, 20)).astype("float32")
model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x[:, :1], batch_size=512, epochs=5, callbacks=[Ranks()], verbose=0)
