"""Synthetic-data generator: a VAE with one decoder head for each column of the table."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import collections
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

PARAMS = {
    "rows": 4096,
    "batch_size": 128,
    "epochs": 6,
    "latent_dim": 16,
    "hidden": 128,
    "kl_weight": 0.05,
    "learning_rate": 1e-3,
    "categories": {"region": 6, "product": 9, "channel": 4, "segment": 5},
    "numeric": ["age", "income", "balance", "tenure", "visits", "spend"],
}


def fake_table(params, seed=312):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(params["rows"], 3))
    frame = {}
    for i, name in enumerate(params["numeric"]):
        frame[name] = base[:, i % 3] * (1 + 0.2 * i) + rng.normal(0, 0.3, params["rows"])
    for i, (name, k) in enumerate(params["categories"].items()):
        frame[name] = np.clip(np.digitize(base[:, i % 3], np.linspace(-2, 2, k - 1)), 0, k - 1)
    return frame


class TableEncoder:
    def __init__(self, frame, params):
        self.params = params
        self.stats = {c: (frame[c].mean(), frame[c].std()) for c in params["numeric"]}

    def transform(self, frame):
        out = {}
        for c, (m, s) in self.stats.items():
            out[c] = ((frame[c] - m) / s).astype("float32")[:, None]
        for c, k in self.params["categories"].items():
            out[c] = np.eye(k, dtype="float32")[frame[c]]
        return out


class VAEWrapper:
    def __init__(self, params):
        self.params = params
        self.widths = {c: 1 for c in params["numeric"]}
        self.widths.update(params["categories"])
        self.encoder = self._build_encoder()
        self.decoder = self._build_decoder()
        self.optimizer = keras.optimizers.Adam(params["learning_rate"])
        self.history = []

    def _build_encoder(self):
        inputs = {c: keras.Input((w,), name=c) for c, w in self.widths.items()}
        embedded = [layers.Dense(16, activation="relu")(i) for i in inputs.values()]
        x = layers.Concatenate()(embedded)
        for _ in range(2):
            x = layers.Dense(self.params["hidden"])(x)
            x = layers.BatchNormalization()(x)
            x = layers.LeakyReLU()(x)
        mean = layers.Dense(self.params["latent_dim"])(x)
        log_var = layers.Dense(self.params["latent_dim"])(x)
        return keras.Model(inputs, [mean, log_var])

    def _build_decoder(self):
        z = keras.Input((self.params["latent_dim"],))
        x = z
        for _ in range(2):
            x = layers.Dense(self.params["hidden"])(x)
            x = layers.BatchNormalization()(x)
            x = layers.LeakyReLU()(x)
        heads = {c: layers.Dense(w, name="out_" + c)(x) for c, w in self.widths.items()}
        return keras.Model(z, heads)

    def _feature_loss(self, name, target, output):
        if name in self.params["categories"]:
            loss = tf.nn.softmax_cross_entropy_with_logits(target, output)
        else:
            loss = tf.reduce_sum(tf.square(target - output), axis=-1)
        return tf.reduce_mean(loss)

    def _train_step(self, batch):
        report = {}
        with tf.GradientTape() as tape:
            mean, log_var = self.encoder(batch, training=True)
            z = mean + tf.exp(0.5 * log_var) * tf.random.normal(tf.shape(mean))
            outputs = self.decoder(z, training=True)
            kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + log_var - tf.square(mean) - tf.exp(log_var), axis=1))
            report["kl"] = kl.numpy()
            loss = self.params["kl_weight"] * kl
            for name in self.widths:
                feature = self._feature_loss(name, batch[name], outputs[name])
                report[name] = feature.numpy()
                loss += feature
        variables = self.encoder.trainable_variables + self.decoder.trainable_variables
        gradients = tape.gradient(loss, variables)
        gradients, _ = tf.clip_by_global_norm(gradients, 5.0)
        self.optimizer.apply_gradients(zip(gradients, variables))
        report["loss"] = loss.numpy()
        return report

    def fit(self, columns):
        ds = tf.data.Dataset.from_tensor_slices(columns)
        ds = ds.shuffle(self.params["rows"]).batch(self.params["batch_size"], drop_remainder=True)
        ds = ds.prefetch(tf.data.AUTOTUNE)
        for epoch in range(self.params["epochs"]):
            totals, steps = collections.Counter(), 0
            for batch in ds:
                totals.update({k: float(v) for k, v in self._train_step(batch).items()})
                steps += 1
            means = {k: v / steps for k, v in totals.items()}
            self.history.append(means)
            worst = max(self.widths, key=means.get)
            print("epoch %d  loss %.4f  kl %.4f  worst column %s" % (epoch + 1, means["loss"], means["kl"], worst))


def main():
    frame = fake_table(PARAMS)
    columns = TableEncoder(frame, PARAMS).transform(frame)
    vae = VAEWrapper(PARAMS)
    t0 = time.time()
    vae.fit(columns)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
