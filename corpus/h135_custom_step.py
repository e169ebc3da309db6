import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(135)
rng = np.random.default_rng(135)
STEPS, CHANNELS = 96, 16


class WindowSequence(keras.utils.PyDataset):
    """Cuts windows out of one long recording."""

    def __init__(self, signal, target, starts, batch_size, shuffle=True, **kwargs):
        super().__init__(**kwargs)
        self.signal, self.target, self.starts = signal, target, starts.copy()
        self.batch_size, self.shuffle = batch_size, shuffle
        self.mean, self.std = signal.mean(axis=0), signal.std(axis=0)

    def __len__(self):
        return len(self.starts) // self.batch_size

    def __getitem__(self, idx):
        s = self.starts[idx * self.batch_size:(idx + 1) * self.batch_size]
        rows = s[:, None] + np.arange(STEPS)
        return (self.signal[rows] - self.mean) / self.std, self.target[s + STEPS]

    def on_epoch_end(self):
        if self.shuffle:
            rng.shuffle(self.starts)


class QuantileNet(keras.Model):
    def __init__(self, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.q = tf.constant(quantiles)
        self.convs = [layers.Conv1D(128, 5, dilation_rate=2 ** i, padding="causal", activation="relu") for i in range(4)]
        self.head = layers.Dense(len(quantiles))
        self.loss_tracker = keras.metrics.Mean(name="pinball")
        self.cover = keras.metrics.Mean(name="coverage")

    def call(self, x):
        for conv in self.convs:
            x = conv(x)
        return self.head(x[:, -1])

    @property
    def metrics(self):
        return [self.loss_tracker, self.cover]

    def pinball(self, y, pred):
        err = y[:, None] - pred
        return tf.reduce_mean(tf.maximum(self.q * err, (self.q - 1) * err))

    def _log(self, loss, y, pred):
        self.loss_tracker.update_state(loss)
        inside = tf.logical_and(y >= pred[:, 0], y <= pred[:, -1])
        self.cover.update_state(tf.cast(inside, tf.float32))
        return {m.name: m.result() for m in self.metrics}

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            pred = self(x, training=True)
            loss = self.pinball(y, pred)
        grads = tape.gradient(loss, self.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 5.0)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        return self._log(loss, y, pred)

    def test_step(self, data):
        x, y = data
        pred = self(x, training=False)
        return self._log(self.pinball(y, pred), y, pred)


n = 9000
signal = np.cumsum(rng.normal(0, 0.1, (n, CHANNELS)), axis=0)
signal = (signal + np.sin(np.arange(n) / 9.0)[:, None]).astype("float32")
target = np.diff(signal[:, 0], append=0).astype("float32") + np.sin(np.arange(n) / 9.0).astype("float32")
starts = rng.permutation(n - STEPS - 1)
train = WindowSequence(signal, target, starts[:7168], 128)
val = WindowSequence(signal, target, starts[7168:7424], 128, shuffle=False)

model = QuantileNet()
model.compile(optimizer="adam")
t0 = time.time()
for epoch in range(3):
    model.fit(train, epochs=epoch + 1, initial_epoch=epoch, verbose=2)
    print("val", model.evaluate(val, verbose=0, return_dict=True))
print("train time: %.2f s" % (time.time() - t0))
