import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers, models

AUTOTUNE = tf.data.AUTOTUNE
SAMPLE_RATE = 16000
COMMANDS = ["down", "go", "left", "no", "right", "stop", "up", "yes"]
NUM_CLIPS = 3000
CLIPS_PER_EPOCH = 1440      # a full pass takes too long while I try things out
BATCH_SIZE = 32
EPOCHS = 6

seed = 42
tf.random.set_seed(seed)
rng = np.random.default_rng(seed)


def fake_clips(n):
    t = np.arange(SAMPLE_RATE, dtype="float32") / SAMPLE_RATE
    labels = rng.integers(0, len(COMMANDS), n)
    tones = np.stack([np.sin(2 * np.pi * (200 + 150 * k) * t) for k in range(len(COMMANDS))]).astype("float32")
    clips = np.empty((n, SAMPLE_RATE), "int16")
    for i, k in enumerate(labels):
        noise = rng.standard_normal(SAMPLE_RATE, dtype="float32")
        clips[i] = (4000 * tones[k] + 6000 * noise).clip(-32768, 32767)
    return clips, labels


mel_matrix = tf.signal.linear_to_mel_weight_matrix(64, 513, SAMPLE_RATE, 60.0, 7600.0)


def get_log_mel(pcm, label):
    waveform = tf.cast(pcm, tf.float32) / 32768.0
    spectrogram = tf.abs(tf.signal.stft(waveform, frame_length=640, frame_step=160, fft_length=1024))
    mel = tf.tensordot(spectrogram, mel_matrix, 1)
    log_mel = tf.math.log(mel + 1e-6)
    log_mel = tf.image.resize(log_mel[..., tf.newaxis], [64, 48])
    return log_mel, label


def preprocess_dataset(clips, labels, limit=None):
    ds = tf.data.Dataset.from_tensor_slices((clips, labels))
    ds = ds.map(get_log_mel, num_parallel_calls=AUTOTUNE)
    ds = ds.cache()
    if limit:
        ds = ds.take(limit)
    return ds.shuffle(128, seed=seed).batch(BATCH_SIZE).prefetch(AUTOTUNE)


clips, labels = fake_clips(NUM_CLIPS)
train_ds = preprocess_dataset(clips, labels, limit=CLIPS_PER_EPOCH)

model = models.Sequential([
    layers.Input(shape=(64, 48, 1)),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Conv2D(32, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Dropout(0.25),
    layers.Flatten(),
    layers.Dense(64, activation="relu"),
    layers.Dense(len(COMMANDS)),
])
model.compile(optimizer="adam",
              loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"])

t0 = time.time()
history = model.fit(train_ds, epochs=EPOCHS, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
