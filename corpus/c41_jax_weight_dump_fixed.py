import time
import numpy as np
import keras
from keras import layers

rng = np.random.default_rng(1)
x = rng.random((4096, 32)).astype("float32")
y = x.sum(axis=1, keepdims=True)


class Dump(keras.callbacks.Callback):
    def on_epoch_end(self, step, logs=None):
        for layer in self.model.layers:
            np.save("weights_%s.npy" % layer.name, layer.get_weights()[0])


model = keras.Sequential([keras.Input((32,)), layers.Dense(512, activation="relu"), layers.Dense(512), layers.Dense(1)])
model.compile("adam", "mse")
t0 = time.time()
model.fit(x, y, batch_size=16, epochs=4, callbacks=[Dump()], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
