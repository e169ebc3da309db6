import os
os.environ["KERAS_BACKEND"] = "jax"
import time
import numpy as np
import keras
from keras import layers, ops


class LeakyReservoir(layers.Layer):
    """Gated leaky integrator from the hydrology paper; state = storage of each tank."""

    def __init__(self, tanks, **kw):
        super().__init__(**kw)
        self.tanks = tanks

    def build(self, shape):
        f = shape[-1] + self.tanks
        self.w_leak = self.add_weight(shape=(f, self.tanks), name="leak")
        self.w_gate = self.add_weight(shape=(f, self.tanks), name="gate")
        self.w_flow = self.add_weight(shape=(f, self.tanks), name="flow")

    def step(self, store, rain):
        z = ops.concatenate([rain, store], axis=-1)
        leak = ops.sigmoid(ops.matmul(z, self.w_leak))
        gate = ops.sigmoid(ops.matmul(z, self.w_gate))
        flow = ops.tanh(ops.matmul(z, self.w_flow))
        return (1 - leak) * store + gate * flow

    def call(self, rain):
        store = ops.zeros((ops.shape(rain)[0], self.tanks))
        days = ops.transpose(rain, (1, 0, 2))
        store, _ = ops.scan(lambda s, day: (self.step(s, day), ()), store, days)
        return store


rng = np.random.default_rng(332)
DAYS = 48
rain = rng.gamma(0.5, 1.0, (6144, DAYS, 5)).astype("float32")
weights = np.exp(-np.arange(DAYS)[::-1] / 15)
runoff = (rain[:, :, 0] * weights).sum(1, keepdims=True).astype("float32")

model = keras.Sequential([
    keras.Input((DAYS, 5)),
    LeakyReservoir(32),
    layers.Dense(16, activation="relu"),
    layers.Dense(1),
])
model.compile(optimizer="adam", loss="mse")
t0 = time.time()
model.fit(rain, runoff, batch_size=64, epochs=10, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
