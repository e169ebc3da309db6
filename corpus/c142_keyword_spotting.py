"""Small keyword spotter on one-second clips (made-up tones in noise)."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SAMPLE_RATE = 16000
WORDS = ["yes", "no", "stop", "go"]
N_CLIPS = 1200


def make_clips(n, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    labels = rng.integers(0, len(WORDS), n)
    pitch = 220.0 * (1.5 ** labels) * rng.uniform(0.95, 1.05, n)
    clips = np.sin(2 * np.pi * pitch[:, None] * t[None, :])
    clips += rng.normal(scale=0.7, size=clips.shape)
    return clips.astype("float32"), labels.astype("int32")


MEL = tf.signal.linear_to_mel_weight_matrix(40, 1025, SAMPLE_RATE, 60.0, 7600.0)


def normalise(wave, label):
    wave = wave - tf.reduce_mean(wave)
    return wave / (tf.math.reduce_std(wave) + 1e-6), label


def log_mel(wave, label):
    stft = tf.signal.stft(wave, frame_length=1024, frame_step=80, fft_length=2048)
    mel = tf.matmul(tf.square(tf.abs(stft)), MEL)
    mel = tf.math.log(mel + 1e-6)
    # average neighbouring frames -> 31 x 40
    mel = tf.reduce_mean(tf.reshape(mel[:186], (31, 6, 40)), axis=1)
    return mel[..., None], label


def get_dataset(seed):
    clips, labels = make_clips(N_CLIPS, seed)
    ds = tf.data.Dataset.from_tensor_slices((clips, labels))
    ds = ds.map(normalise, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.cache()
    ds = ds.map(log_mel, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(256).batch(32)
    return ds.prefetch(tf.data.AUTOTUNE)


def get_model():
    return keras.Sequential([
        keras.Input((31, 40, 1)),
        layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dropout(0.3),
        layers.Dense(64, activation="relu"),
        layers.Dense(len(WORDS), activation="softmax"),
    ])


train_ds = get_dataset(0)
model = get_model()
model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
start = time.time()
model.fit(train_ds, epochs=8, verbose=2)
print("train time: %.2f s" % (time.time() - start))
