import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf
from lib_clinreport import ClinicalReport

tf.keras.utils.set_random_seed(271)
VITALS, HOURS = 12, 24


def admissions(count, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, HOURS, VITALS)).cumsum(axis=1).astype("float32") / 4
    risk = x[:, -6:, 0].mean(axis=1) - 0.8 * x[:, -6:, 3].mean(axis=1) + 0.5 * x[:, :, 5].max(axis=1)
    y = (risk + rng.normal(0, 0.6, count) > 2.0).astype("float32")
    return x, y


class SepsisNet(tf.keras.Model):
    def __init__(self, filters=48):
        super().__init__()
        self.blocks = [tf.keras.layers.Conv1D(filters, 3, padding="causal", dilation_rate=d, activation="relu")
                       for d in (1, 2, 4)]
        self.pool = tf.keras.layers.GlobalMaxPooling1D()
        self.drop = tf.keras.layers.Dropout(0.2)
        self.out = tf.keras.layers.Dense(1, activation="sigmoid")

    def call(self, x, training=False):
        for block in self.blocks:
            x = block(x)
        return self.out(self.drop(self.pool(x), training=training))


x_train, y_train = admissions(12000, 1)
x_held, y_held = admissions(2500, 2)
print("prevalence %.3f" % y_train.mean())

model = SepsisNet()
model.compile(optimizer="adam", loss="binary_crossentropy")
report = ClinicalReport(x_held, y_held)
t0 = time.time()
model.fit(x_train, y_train, batch_size=128, epochs=6, callbacks=[report], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
