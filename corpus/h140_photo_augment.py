import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers


def photos(n, side, classes, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    x = rng.integers(0, 200, (n, side, side, 3), dtype=np.uint8)
    for i, k in enumerate(y):
        x[i, :, k * side // classes:(k + 1) * side // classes, k % 3] += 25
    return x, y


def augment(image, label):
    image = tf.image.random_flip_up_down(image)
    return tf.cast(image, tf.float32) / 255.0, label


def scale(image, label):
    return tf.cast(image, tf.float32) / 255.0, label


def pipeline(x, y, batch_size, training):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(len(x))
    ds = ds.map(augment if training else scale, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)


class EpochClock(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.t = time.perf_counter()
        self.batches = 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self.t)
        print("   %d batches, %.1f s, val_loss %.4f" % (self.batches, self.seconds[-1], logs["val_loss"]))


def convnet(side, classes):
    inputs = keras.Input((side, side, 3))
    x = layers.Conv2D(32, 4, strides=4, activation="relu")(inputs)
    for _ in range(3):
        x = layers.Conv2D(64, 3, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(classes, activation="softmax")(x))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--images", type=int, default=4800)
    p.add_argument("--side", type=int, default=48)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=7)
    args = p.parse_args()
    train = pipeline(*photos(args.images, args.side, 4, 140), args.batch_size, True)
    val = pipeline(*photos(320, args.side, 4, 1140), args.batch_size, False)
    model = convnet(args.side, 4)
    model.compile(optimizer=keras.optimizers.Adam(2e-4), loss="sparse_categorical_crossentropy",
                  metrics=["accuracy"])
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [
            EpochClock(),
            keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * (0.9 if epoch else 1.0)),
        ]
        t0 = time.time()
        model.fit(train, epochs=args.epochs, validation_data=val, callbacks=callbacks, verbose=2)
        print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
