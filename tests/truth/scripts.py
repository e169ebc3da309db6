"""Small training scripts, as users write them."""

TRAIN = """
import os, sys, time
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras, numpy as np
keras.utils.set_random_seed(7)
x = np.random.default_rng(0).random((640, 8)).astype("float32")
y = x[:, :1]
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"),
    keras.layers.BatchNormalization(), keras.layers.Dropout(0.3), keras.layers.Dense(1)])
model.compile("adam", "mse")
"""

FIT = (
    TRAIN
    + """
history = model.fit(x, y, epochs=3, batch_size=32, verbose=0, validation_split=0.25)
"""
)

BITS = (
    FIT
    + """
import hashlib
weights = b"".join(w.tobytes() for w in model.get_weights())
print(hashlib.sha256(weights).hexdigest(), repr(history.history))
"""
)

LONG = (
    TRAIN
    + """
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)
print("ready", flush=True)
model.fit(x, y, epochs=1000, batch_size=32, verbose=0, callbacks=[Slow()])
"""
)
