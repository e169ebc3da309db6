"""Toy speech-command corpus: short WAV files on disk, one folder per word."""
import os

import numpy as np
import tensorflow as tf

WORDS = ["down", "go", "left", "no", "right", "stop", "up", "yes"]
RATE = 8000


def synthesize(rng, word):
    t = np.arange(RATE) / RATE
    base = 180.0 + 55.0 * word
    glide = rng.uniform(-40, 40)
    phase = 2 * np.pi * (base * t + 0.5 * glide * t * t)
    env = np.exp(-((t - rng.uniform(0.35, 0.65)) ** 2) / 0.03)
    sig = env * (np.sin(phase) + 0.4 * np.sin(2 * phase + word) + 0.2 * np.sin(3 * phase))
    return (0.3 * sig + 0.05 * rng.normal(size=RATE)).astype("float32")


def write_corpus(root, per_word, seed):
    rng = np.random.default_rng(seed)
    files, labels = [], []
    for k, word in enumerate(WORDS):
        os.makedirs(os.path.join(root, word), exist_ok=True)
        for i in range(per_word):
            name = os.path.join(root, word, "%05d_nohash_0.wav" % i)
            wav = tf.audio.encode_wav(synthesize(rng, k)[:, None], RATE)
            tf.io.write_file(name, wav)
            files.append(name)
            labels.append(k)
    order = rng.permutation(len(files))
    return np.array(files)[order], np.array(labels, "int32")[order]
