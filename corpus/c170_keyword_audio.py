"""Keyword spotting on one-second clips, small conv net, loop written by hand."""
import argparse
import os
import tempfile
import time
import wave

import keras
import numpy as np
import tensorflow as tf

WORDS = ["yes", "no", "up", "down", "left", "right"]
RATE = 16000


def write_clips(root, per_word, seed=11):
    rng = np.random.default_rng(seed)
    t = np.arange(RATE) / RATE
    for k, word in enumerate(WORDS):
        folder = os.path.join(root, word)
        os.makedirs(folder)
        for i in range(per_word):
            f0 = 180 * (k + 1) * rng.uniform(0.95, 1.05)
            sig = 0.4 * np.sin(2 * np.pi * f0 * t * (1 + 0.1 * k * t)) * np.exp(-3 * (t - rng.uniform(0.3, 0.7)) ** 2)
            sig += rng.normal(0, 0.05, RATE)
            with wave.open(os.path.join(folder, f"{word}_{i:04d}.wav"), "wb") as w:
                w.setnchannels(1)
                w.setsampwidth(2)
                w.setframerate(RATE)
                w.writeframes((np.clip(sig, -1, 1) * 32767).astype("<i2").tobytes())


def log_mel(path, label):
    audio, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1, desired_samples=RATE)
    audio = tf.squeeze(audio, -1)
    spec = tf.abs(tf.signal.stft(audio, frame_length=480, frame_step=80, fft_length=1024))
    mel = tf.signal.linear_to_mel_weight_matrix(40, 513, RATE, 60.0, 7600.0)
    feat = tf.math.log(tf.matmul(tf.square(spec), mel) + 1e-6)
    feat = (feat - tf.reduce_mean(feat)) / (tf.math.reduce_std(feat) + 1e-5)
    return tf.ensure_shape(feat, (195, 40))[..., None], label


def time_mask(x, y):
    start = tf.random.uniform([], 0, 170, tf.int32)
    keep = tf.logical_or(tf.range(195) < start, tf.range(195) >= start + 20)
    return x * tf.cast(keep, tf.float32)[None, :, None, None], y


def make_dataset(root, batch_size):
    paths, labels = [], []
    for k, word in enumerate(WORDS):
        for name in sorted(os.listdir(os.path.join(root, word))):
            paths.append(os.path.join(root, word, name))
            labels.append(k)
    order = np.random.default_rng(0).permutation(len(paths))
    ds = tf.data.Dataset.from_tensor_slices((np.array(paths)[order], np.array(labels)[order]))
    ds = ds.map(log_mel, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(512)
    ds = ds.batch(batch_size)
    ds = ds.map(time_mask, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def build():
    inp = keras.Input((195, 40, 1))
    x = keras.layers.Conv2D(16, (9, 5), strides=(3, 2), activation="relu")(inp)
    x = keras.layers.Conv2D(24, 3, strides=2, activation="relu")(x)
    x = keras.layers.Conv2D(32, 3, activation="relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, keras.layers.Dense(len(WORDS))(x))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=18)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--per-word", type=int, default=100)
    args = p.parse_args()

    keras.utils.set_random_seed(3)
    root = tempfile.mkdtemp()
    write_clips(root, args.per_word)
    ds = make_dataset(root, args.batch)
    model = build()
    opt = keras.optimizers.Adam(2e-3)
    opt.build(model.trainable_variables)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    mean_loss = keras.metrics.Mean()
    acc = keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def run_epoch():
        for x, y in ds:
            with tf.GradientTape() as tape:
                logits = model(x, training=True)
                loss = loss_fn(y, logits)
            grads = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(grads, model.trainable_variables))
            mean_loss.update_state(loss)
            acc.update_state(y, logits)

    t0 = time.time()
    for epoch in range(args.epochs):
        mean_loss.reset_state()
        acc.reset_state()
        run_epoch()
        print(f"epoch {epoch + 1}: loss {float(mean_loss.result()):.4f} acc {float(acc.result()):.3f}")
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
