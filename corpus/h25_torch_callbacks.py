import os
os.environ["KERAS_BACKEND"] = "torch"
import tempfile
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(125)
rng = np.random.default_rng(125)
x = rng.normal(size=(6000, 200)).astype("float32")
y = np.tanh(x @ rng.normal(size=(200, 3)) / 10).astype("float32")
folder = tempfile.mkdtemp()


class Norms(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        logs["kernel_norm"] = float(np.linalg.norm(self.model.layers[0].get_weights()[0]))


model = keras.Sequential([keras.Input((200,)), layers.Dense(512, activation="relu"), layers.Dropout(0.1),
                          layers.Dense(512, activation="relu"), layers.Dense(3)])
model.compile("adamw", "mse", metrics=["mae"])
model.fit(x, y, batch_size=100, epochs=8, validation_split=0.15, verbose=1, callbacks=[
    Norms(),
    keras.callbacks.ModelCheckpoint(folder + "/best.weights.h5", save_best_only=True, save_weights_only=True),
    keras.callbacks.EarlyStopping(patience=3),
    keras.callbacks.ReduceLROnPlateau(patience=2),
])
print(model.evaluate(x[:1000], y[:1000], verbose=0))
