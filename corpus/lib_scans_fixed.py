"""Reads the belt-scanner captures."""
import numpy as np
import tensorflow as tf

SIZE = 224


def synth_captures(count, seed=241):
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 255, (12, SIZE, SIZE, 3), dtype=np.uint8)
    blobs = [tf.io.encode_jpeg(np.roll(base[i % 12], i, axis=0), quality=90).numpy() for i in range(count)]
    return blobs, rng.integers(0, 2, count)


def decode(blob, label):
    img = tf.io.decode_jpeg(blob, channels=3)
    img = tf.image.resize(img, (64, 64))
    img.set_shape((64, 64, 3))
    return img / 255.0, label


def epoch_sample(blobs, labels, batch_size, steps):
    """Every epoch sees `steps` batches drawn at random from all captures."""
    ds = tf.data.Dataset.from_tensor_slices((blobs, labels))
    ds = ds.shuffle(len(blobs)).take(batch_size * steps)
    ds = ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch_size)
    return ds.prefetch(tf.data.AUTOTUNE)
