import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import logging
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger(__name__)


class Encoder(keras.Model):
    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.blocks = []
        for mult in (1, 2, 2):
            self.blocks.append(layers.Conv2D(width * mult, 3, padding="same", activation="relu"))
            self.blocks.append(layers.Conv2D(width * mult, 3, padding="same", activation="relu"))
            self.blocks.append(layers.AveragePooling2D(2))
        self.pool = layers.GlobalAveragePooling2D(2)
        self.head = layers.Dense(32)

    def call(self, x, training=False):
        for block in self.blocks:
            x = block(x)
        return tf.math.l2_normalize(self.head(self.pool(x)), axis=-1)


def two_views(image):
    def view(im):
        im = tf.image.random_flip_left_right(im)
        im = im + tf.random.uniform((), -0.1, 0.1)
        return tf.image.random_crop(im, (32, 32, 3))
    return view(image), view(image)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.encoder = Encoder(args.width)
        self.encoder.build((None, 32, 32, 3))
        self.optimizer = keras.optimizers.Adam(args.lr)
        self.optimizer.build(self.encoder.trainable_variables)
        self.out = tempfile.mkdtemp()

    def nt_xent(self, a, b, temperature):
        logits = tf.matmul(a, b, transpose_b=True) / temperature
        labels = tf.range(tf.shape(a)[0])
        loss = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        return tf.reduce_mean(loss)

    @tf.function
    def train_step(self, a, b, temperature):
        with tf.GradientTape() as tape:
            loss = self.nt_xent(self.encoder(a, training=True), self.encoder(b, training=True), temperature)
        grads = tape.gradient(loss, self.encoder.trainable_variables)
        grads, norm = tf.clip_by_global_norm(grads, 5.0)
        self.optimizer.apply_gradients(zip(grads, self.encoder.trainable_variables))
        return loss, norm

    @tf.function
    def test_step(self, a, b, temperature):
        return self.nt_xent(self.encoder(a), self.encoder(b), temperature)

    def run(self, train_ds, val_ds):
        best, history = 1e9, []
        for epoch in range(self.args.epochs):
            temperature = tf.constant(max(0.1, 0.5 * 0.8 ** epoch))
            for step, (a, b) in enumerate(train_ds):
                loss, norm = self.train_step(a, b, temperature)
                history.append((float(loss), float(norm)))
                if step % 8 == 0:
                    log.info("epoch %d step %d loss %.4f grad %.3f", epoch, step, *history[-1])
            val = float(np.mean([self.test_step(a, b, temperature).numpy() for a, b in val_ds]))
            log.info("epoch %d val %.4f", epoch, val)
            if val < best:
                best = val
                self.encoder.save_weights(os.path.join(self.out, "best.weights.h5"))
        np.save(os.path.join(self.out, "history.npy"), np.array(history))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()
    keras.utils.set_random_seed(131)
    pics = np.random.default_rng(131).random((1344, 36, 36, 3)).astype("float32")
    train = tf.data.Dataset.from_tensor_slices(pics[:1280]).shuffle(1280)
    train = train.map(two_views, num_parallel_calls=tf.data.AUTOTUNE)
    train = train.batch(args.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    val = tf.data.Dataset.from_tensor_slices(pics[1280:]).map(two_views).batch(args.batch).cache()
    trainer = Trainer(args)
    t0 = time.time()
    trainer.run(train, val)
    print("train time: %.2f s" % (time.time() - t0))
