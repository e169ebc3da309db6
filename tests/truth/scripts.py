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
    TRAIN
    + """
def pairs(y_true, y_pred):
    return keras.ops.mean(keras.ops.sort(keras.ops.abs(y_pred - keras.ops.transpose(y_pred)), axis=1))
class Plain(keras.layers.Layer):
    def call(self, x):
        return x
keras.ops.not_equal(Plain(name="plain")(keras.Input((4,))), 0)  # classes without a constructor of their own
model.compile("adam", "mse", metrics=[pairs, keras.metrics.AUC()])
model.fit(x, y, epochs=1, batch_size=32, verbose=0)  # after it the metrics are run alone
history = model.fit(x, y, epochs=3, batch_size=32, verbose=0, validation_split=0.25)
import hashlib
weights = b"".join(w.tobytes() for w in model.get_weights())
print(hashlib.sha256(weights).hexdigest(), repr(history.history), Plain(name="plain").get_config())
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
