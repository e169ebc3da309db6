import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(75)
rng = np.random.default_rng(75)
x = rng.normal(size=(700, 120)).astype("float32")
y = (x[:, 0] + rng.normal(scale=2.0, size=700) > 0).astype("int32")

model = keras.Sequential([keras.Input((120,)), layers.Dense(1024, activation="relu"), layers.Dense(1024, activation="relu"),
                          layers.Dense(1, activation="sigmoid")])
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
callbacks = []
history = model.fit(x[:500], y[:500], batch_size=20, epochs=40, validation_data=(x[500:], y[500:]), callbacks=callbacks, verbose=2)
print("best val_loss", min(history.history["val_loss"]))
