import functools
import numpy as np
import tensorflow as tf


class Recording:
    def __init__(self, windows, hop, length, classes, seed):
        rng = np.random.default_rng(seed)
        self.length = length
        self.starts = (np.arange(windows) * hop).astype("int32")
        self.labels = rng.integers(0, classes, windows)
        t = np.arange(windows * hop + length)
        wave = np.sin(t * 0.05) + 0.5 * np.sin(t * 0.21) + 0.3 * rng.normal(size=len(t))
        self.wave = tf.constant(wave, dtype=tf.float32)

    def segments(self):
        return tf.data.Dataset.from_tensor_slices((self.starts, self.labels))


def spectra(recording, frame, step):
    def one(start, label):
        piece = tf.slice(recording.wave, [start], [recording.length])
        piece = piece - tf.reduce_mean(piece)
        power = tf.abs(tf.signal.stft(piece, frame, step))
        power = tf.math.log1p(power)
        power = (power - tf.reduce_mean(power)) / (tf.math.reduce_std(power) + 1e-6)
        return power[..., tf.newaxis], label
    return lambda ds: ds.map(one, num_parallel_calls=tf.data.AUTOTUNE)


def mixed(buffer, seed):
    return lambda ds: ds.shuffle(buffer, seed=seed, reshuffle_each_iteration=True)


def batches(size, per_epoch):
    return lambda ds: ds.batch(size).take(per_epoch).prefetch(tf.data.AUTOTUNE)


def chain(ds, *stages):
    return functools.reduce(lambda acc, stage: stage(acc), stages, ds)
