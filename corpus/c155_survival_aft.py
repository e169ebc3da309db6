import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import keras
from keras import ops


def cohort(n, d=40, seed=11):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)).astype("float32")
    risk = x[:, :6] @ np.array([0.5, -0.4, 0.3, 0.6, -0.2, 0.3])
    t = np.exp(1.5 - risk + rng.gumbel(0, 0.5, n))
    c = rng.exponential(12.0, n)
    return x, np.stack([np.log(np.minimum(t, c)), t <= c], axis=1).astype("float32")


def aft_loss(y, mu):
    """Log-normal accelerated failure time, right censored."""
    z = y[:, :1] - mu
    observed = 0.5 * ops.square(z)
    censored = -ops.log(0.5 * ops.erfc(ops.clip(z, -5.0, 5.0) / 1.41421356) + 1e-6)
    return ops.mean(y[:, 1:] * observed + (1.0 - y[:, 1:]) * censored, axis=-1)


class ConcordanceIndex(keras.metrics.Metric):
    def __init__(self, name="c_index", **kw):
        super().__init__(name=name, **kw)
        self.good = self.add_weight(name="good", initializer="zeros")
        self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, y, mu, sample_weight=None):
        time_, event = y[:, 0], y[:, 1]
        mu = ops.reshape(mu, (-1,))
        comparable = ops.cast(time_[:, None] < time_[None, :], "float32") * event[:, None]
        right = ops.cast(mu[:, None] < mu[None, :], "float32")
        tied = ops.cast(ops.equal(mu[:, None], mu[None, :]), "float32")
        self.good.assign_add(ops.sum(comparable * (right + 0.5 * tied)))
        self.total.assign_add(ops.sum(comparable))

    def result(self):
        return self.good / (self.total + 1e-7)


x, y = cohort(122_880)
x_val, y_val = cohort(4_096, seed=12)

model = keras.Sequential(
    [
        keras.Input((40,)),
        keras.layers.Dense(256, activation="selu"),
        keras.layers.Dense(256, activation="selu"),
        keras.layers.Dense(128, activation="selu"),
        keras.layers.Dense(1),
    ]
)
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss=aft_loss, metrics=[ConcordanceIndex()])

t0 = time.time()
model.fit(x, y, batch_size=4096, epochs=6, validation_data=(x_val, y_val), verbose=2)
print("train time: %.2f s" % (time.time() - t0))
