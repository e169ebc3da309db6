import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

CFG = {
    "rate": 16000,
    "clips": 1280,
    "classes": 8,
    "windows": (256, 512, 1024),
    "hop": 160,
    "mels": 40,
    "batch_size": 32,
    "epochs": 16,
}


def synth_clips(path, cfg):
    rng = np.random.default_rng(301)
    t = np.arange(cfg["rate"]) / cfg["rate"]
    with tf.io.TFRecordWriter(path) as out:
        for _ in range(cfg["clips"]):
            word = int(rng.integers(cfg["classes"]))
            tone = np.sin(2 * np.pi * (300 + 180 * word + 20 * rng.normal()) * t * (1 + 0.1 * t))
            wave = 0.3 * tone + 0.2 * rng.normal(size=t.shape)
            pcm = np.clip(wave * 12000, -32768, 32767).astype("<i2").tobytes()
            feature = {
                "pcm": tf.train.Feature(bytes_list=tf.train.BytesList(value=[pcm])),
                "word": tf.train.Feature(int64_list=tf.train.Int64List(value=[word])),
            }
            out.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def parse(record):
    ex = tf.io.parse_single_example(record, {
        "pcm": tf.io.FixedLenFeature((), tf.string),
        "word": tf.io.FixedLenFeature((), tf.int64),
    })
    return ex["pcm"], ex["word"]


class Frontend:
    """Log-mel pictures in several resolutions, one channel each."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.mel = [
            tf.signal.linear_to_mel_weight_matrix(cfg["mels"], w // 2 + 1, cfg["rate"], 80.0, 7600.0)
            for w in cfg["windows"]
        ]

    def channel(self, wave, window, mel):
        spec = tf.abs(tf.signal.stft(wave, window, self.cfg["hop"], window, pad_end=True))
        logmel = tf.math.log(tf.matmul(tf.square(spec), mel) + 1e-6)
        mean, var = tf.nn.moments(logmel, axes=[0], keepdims=True)
        return (logmel - mean) * tf.math.rsqrt(var + 1e-3)

    def __call__(self, pcm, word):
        wave = tf.cast(tf.io.decode_raw(pcm, tf.int16), tf.float32) / 32768.0
        wave = tf.ensure_shape(wave, (self.cfg["rate"],))
        wave = tf.concat([wave[:1], wave[1:] - 0.97 * wave[:-1]], axis=0)
        picture = tf.stack([self.channel(wave, w, m) for w, m in zip(self.cfg["windows"], self.mel)], axis=-1)
        return picture, word


def corpus(path):
    ds = tf.data.TFRecordDataset(path)
    return ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def training_set(path, cfg):
    ds = corpus(path)
    ds = ds.map(Frontend(cfg), num_parallel_calls=tf.data.AUTOTUNE).cache()
    ds = ds.shuffle(cfg["clips"], seed=1)
    return ds.batch(cfg["batch_size"], drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def spotter(cfg):
    frames = cfg["rate"] // cfg["hop"]
    return keras.Sequential([
        keras.Input((frames, cfg["mels"], len(cfg["windows"]))),
        layers.Conv2D(12, 5, strides=3, activation="relu"),
        layers.Conv2D(24, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dropout(0.2),
        layers.Dense(cfg["classes"], activation="softmax"),
    ])


def main(cfg=CFG):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "clips.tfrecord")
        synth_clips(path, cfg)
        model = spotter(cfg)
        model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        start = time.time()
        model.fit(training_set(path, cfg), epochs=cfg["epochs"], verbose=2)
        print("train time: %.2f s" % (time.time() - start))


if __name__ == "__main__":
    main()
