"""Leaf disease classes from a folder of pictures; residual net with mixup in its train_step."""
import os
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

CLASSES = ["blight", "healthy", "mildew", "rust"]


def make_folder(root, per_class, size=64, seed=9):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size] / size
    for k, name in enumerate(CLASSES):
        os.makedirs(os.path.join(root, name))
        for i in range(per_class):
            base = np.stack([0.2 + 0.1 * k * xx, 0.5 + 0.2 * yy, 0.2 + 0.3 * np.sin((k + 2) * 6 * xx) ** 2], -1)
            img = np.clip(base + rng.normal(0, 0.25, base.shape), 0, 1)
            keras.utils.save_img(os.path.join(root, name, f"{i:04d}.png"), img, scale=True)


class MixupNet(keras.Model):
    def train_step(self, data):
        x, y = data
        lam = tf.random.uniform([], 0.7, 1.0)
        x = lam * x + (1 - lam) * tf.reverse(x, [0])
        y = lam * y + (1 - lam) * tf.reverse(y, [0])
        with tf.GradientTape() as tape:
            p = self(x, training=True)
            loss = self.compute_loss(x, y, p)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        for m in self.metrics:
            if m.name == "loss":
                m.update_state(loss)
            else:
                m.update_state(y, p)
        return {m.name: m.result() for m in self.metrics}


def block(x, f, stride):
    s = layers.Conv2D(f, 1, strides=stride)(x) if stride > 1 else x
    h = layers.Conv2D(f, 3, strides=stride, padding="same", activation="relu")(x)
    h = layers.Conv2D(f, 3, padding="same")(h)
    return layers.Activation("relu")(layers.Add()([s, h]))


def build():
    inp = keras.Input((64, 64, 3))
    x = layers.Rescaling(1 / 127.5, offset=-1)(inp)
    x = layers.Conv2D(32, 5, strides=2, padding="same", activation="relu")(x)
    x = block(x, 32, 1)
    x = block(x, 64, 2)
    x = block(x, 64, 1)
    x = block(x, 128, 2)
    x = block(x, 128, 1)
    x = layers.GlobalAveragePooling2D()(x)
    return MixupNet(inp, layers.Dense(len(CLASSES), activation="softmax")(x))


keras.utils.set_random_seed(14)
root = tempfile.mkdtemp()
make_folder(root, 400)
train = keras.utils.image_dataset_from_directory(root, image_size=(64, 64), batch_size=None, label_mode="categorical", seed=14)
train = train.cache().shuffle(400).batch(40, drop_remainder=True).prefetch(2)
options = tf.data.Options()
options.autotune.enabled = False
train = train.with_options(options)
model = build()
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="categorical_crossentropy", metrics=["categorical_accuracy"])
t0 = time.time()
model.fit(train, epochs=4, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
