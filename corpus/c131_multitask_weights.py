# Multi-task regression/classification on house listings: task weights are re-balanced every few steps.
import os
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops

rng = np.random.default_rng(22)
N, D = 9600, 40
X = rng.normal(size=(N, D)).astype("float32")
w = rng.normal(size=(D,)).astype("float32")
targets = {
    "price": (X @ w)[:, None].astype("float32"),
    "days": np.abs(X[:, :1] * 3 + rng.normal(size=(N, 1))).astype("float32"),
    "sold": (X[:, 1:2] + X[:, 2:3] > 0).astype("float32"),
}


class MultiTask(keras.Model):
    def __init__(self):
        super().__init__()
        self.trunk = keras.Sequential([layers.Dense(256, activation="relu"), layers.BatchNormalization(),
                                       layers.Dense(256, activation="relu"), layers.Dropout(0.1),
                                       layers.Dense(128, activation="relu")])
        self.heads = {"price": layers.Dense(1), "days": layers.Dense(1, activation="softplus"),
                      "sold": layers.Dense(1, activation="sigmoid")}
        self.price, self.days, self.sold = self.heads.values()

    def call(self, x, training=False):
        h = self.trunk(x, training=training)
        return {"price": self.price(h), "days": self.days(h), "sold": self.sold(h)}


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.opt = keras.optimizers.Adam(lr)
        self.opt.build(model.trainable_variables)
        self.weights = {"price": 1.0, "days": 1.0, "sold": 1.0}
        self.running = None

    @tf.function
    def step(self, x, y, weights):
        with tf.GradientTape() as tape:
            out = self.model(x, training=True)
            parts = {
                "price": tf.reduce_mean(tf.square(out["price"] - y["price"])),
                "days": tf.reduce_mean(tf.abs(out["days"] - y["days"])),
                "sold": tf.reduce_mean(keras.losses.binary_crossentropy(y["sold"], out["sold"])),
            }
            loss = sum(weights[k] * parts[k] for k in parts)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return parts

    def rebalance(self, parts):
        cur = {k: float(v) for k, v in parts.items()}
        if self.running is None:
            self.running = cur
        self.running = {k: 0.9 * self.running[k] + 0.1 * cur[k] for k in cur}
        inv = {k: 1.0 / (v + 1e-3) for k, v in self.running.items()}
        total = sum(inv.values())
        self.weights = {k: round(3 * v / total, 4) for k, v in inv.items()}

    def run(self, ds, epochs):
        for epoch in range(epochs):
            for i, (x, y) in enumerate(ds):
                parts = self.step(x, y, self.weights)
                if i % 12 == 11:
                    self.rebalance(parts)
            print("epoch", epoch, {k: round(float(v), 4) for k, v in parts.items()}, self.weights)


ds = tf.data.Dataset.from_tensor_slices((X, targets)).shuffle(N).batch(64).prefetch(2)
model = MultiTask()
model(X[:2])
trainer = Trainer(model)
t0 = time.time()
trainer.run(ds, epochs=2)
print("train time: %.2f s" % (time.time() - t0))
