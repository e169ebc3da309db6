"""What `fitscope.tune` gains: each pipeline as written, tuned, tuned by hand, and with AUTOTUNE everywhere.

    python benchmarks/tune.py                     all pipelines
    python benchmarks/tune.py --only image text   some of them
    python benchmarks/tune.py --rounds 9

The first epoch of each variant, which fills the caches, is not counted; of short epochs the mean of several is taken.
A figure is that of an epoch over the original's (see side_by_side.py). `hand/tune` is the time of the quickest
variant tuned by hand over that of the tuned one. The bars: tune/original at most 1.02, hand/tune at least 0.95.
`original again` is the control: what differs from 1 there is noise. Where `tune` returns the original itself, the
ratio is 1 by definition, and its row one more control.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import numpy as np
import tensorflow as tf
from side_by_side import interleaved, machine, ratio, table

import fitscope

AUTO = tf.data.AUTOTUNE
Data = tf.data.Dataset
Variants = dict[str, Data]


def image() -> Variants:
    """Files of JPEG, decoded, resized and augmented one by one."""
    rng = np.random.default_rng(0)
    folder = Path(tempfile.mkdtemp())
    names, labels = [], rng.integers(0, 10, 400)
    for number in range(400):
        smooth = tf.image.resize(rng.integers(0, 255, (12, 12, 3)).astype("float32"), (160, 160))
        names.append(str(folder / f"{number}.jpg"))
        tf.io.write_file(names[-1], tf.io.encode_jpeg(tf.cast(smooth, tf.uint8)))

    def load(name, label):
        return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(name), channels=3), (96, 96)) / 255.0, label

    def augment(picture, label):
        picture = tf.image.random_flip_left_right(picture)
        return tf.image.random_contrast(tf.image.random_brightness(picture, 0.2), 0.8, 1.2), label

    source = Data.from_tensor_slices((names, labels))
    return {
        "original": source.shuffle(400).map(load).map(augment).batch(32),
        "hand: cached": source.map(load, AUTO).cache().shuffle(400).map(augment, AUTO).batch(32).prefetch(AUTO),
        "hand: parallel": source.shuffle(400).map(load, AUTO).map(augment, AUTO).batch(32).prefetch(AUTO),
        "AUTOTUNE everywhere": source.shuffle(400).map(load, AUTO).map(augment, AUTO)
        .batch(32, num_parallel_calls=AUTO).prefetch(AUTO),
    }  # fmt: skip


def rows() -> Variants:
    """Small pictures in memory, scaled one by one."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 255, (12000, 28, 28), dtype=np.uint8), rng.integers(0, 10, 12000)

    def scale(picture, label):
        return (tf.cast(picture, tf.float32) / 255.0 - 0.5)[..., tf.newaxis], tf.one_hot(label, 10)

    source = Data.from_tensor_slices((x, y))
    return {
        "original": source.map(scale).shuffle(2000).batch(64),
        "hand: batch first": source.shuffle(2000).batch(64).map(scale, AUTO).prefetch(AUTO),
        "hand: cached": source.map(scale, AUTO).cache().shuffle(2000).batch(64).prefetch(AUTO),
        "AUTOTUNE everywhere": source.map(scale, AUTO)
        .shuffle(2000)
        .batch(64, num_parallel_calls=AUTO)
        .prefetch(AUTO),
    }


def text() -> Variants:
    """Lines of files, split into words and looked up."""
    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(2000)]
    folder = Path(tempfile.mkdtemp())
    for number in range(8):
        lines = (" ".join(rng.choice(words, rng.integers(5, 60))) for _ in range(500))
        (folder / f"{number}.txt").write_text("\n".join(lines))
    names = sorted(str(path) for path in folder.iterdir())
    keys = tf.lookup.KeyValueTensorInitializer(words, tf.range(1, 2001, dtype=tf.int64))
    table = tf.lookup.StaticHashTable(keys, 0)

    def encode(line):
        found = table.lookup(tf.strings.split(tf.strings.lower(line)))[:40]
        return tf.pad(found, [[0, 40 - tf.shape(found)[0]]])

    def shaped(line):
        return tf.ensure_shape(encode(line), (40,))

    lines = tf.data.TextLineDataset(names)
    return {
        "original": lines.map(shaped).batch(64),
        "hand: cached": lines.map(shaped, AUTO).batch(64).cache().prefetch(AUTO),
        "hand: parallel": lines.map(shaped, AUTO).batch(64).prefetch(AUTO),
        "AUTOTUNE everywhere": tf.data.TextLineDataset(names, num_parallel_reads=AUTO).map(shaped, AUTO)
        .batch(64, num_parallel_calls=AUTO).prefetch(AUTO),
    }  # fmt: skip


def window() -> Variants:
    """Windows of a time series, split into what is known and what is to be foretold."""
    series = np.random.default_rng(0).normal(size=(4000, 8)).astype("float32")

    def split(piece):
        return piece[:-1], piece[-1, 0]

    def whole(pieces):
        return pieces.batch(49, drop_remainder=True)

    windows = Data.from_tensor_slices(series).window(49, shift=1, drop_remainder=True).flat_map(whole)
    return {
        "original": windows.map(split).shuffle(1000).batch(32),
        "hand: cached": windows.map(split, AUTO).cache().shuffle(1000).batch(32).prefetch(AUTO),
        "hand: parallel": windows.map(split, AUTO).shuffle(1000).batch(32).prefetch(AUTO),
        "AUTOTUNE everywhere": windows.map(split, AUTO)
        .shuffle(1000)
        .batch(32, num_parallel_calls=AUTO)
        .prefetch(AUTO),
    }


def waiting() -> Variants:
    """A Python function that waits, for a network or a disk."""

    def fetch(number):
        time.sleep(0.004)
        return np.full((32, 32), number, np.float32)

    def load(number):
        return tf.ensure_shape(tf.numpy_function(fetch, [number], tf.float32), (32, 32))

    source = Data.range(512)
    wide = {"num_parallel_calls": 64, "use_unbounded_threadpool": True}
    return {
        "original": source.map(load).batch(32),
        "hand: 64 calls": source.map(load, 64).batch(32).prefetch(AUTO),
        "hand: 64 threads": source.map(load, **wide).batch(32).prefetch(AUTO),
        "AUTOTUNE everywhere": source.map(load, AUTO).batch(32, num_parallel_calls=AUTO).prefetch(AUTO),
    }


def python() -> Variants:
    """Augmentation in numpy, as in corpus/c03: a Python function that computes."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 255, (3000, 28, 28), dtype=np.uint8), rng.integers(0, 10, 3000)

    def transform(picture):
        if np.random.rand() < 0.5:
            picture = picture[:, ::-1]
        table = np.clip(np.arange(256, dtype="float32") * np.random.uniform(0.8, 1.2), 0, 255)
        return (table[picture] / 255.0).astype("float32")[..., None]

    def process(picture, label):
        return tf.ensure_shape(tf.numpy_function(transform, [picture], tf.float32), (28, 28, 1)), label

    source = Data.from_tensor_slices((x, y)).shuffle(1000)
    return {
        "original": source.map(process).batch(64),
        "hand: parallel": source.map(process, AUTO).batch(64).prefetch(AUTO),
        "hand: prefetch": source.map(process).batch(64).prefetch(AUTO),
        "AUTOTUNE everywhere": source.map(process, AUTO).batch(64, num_parallel_calls=AUTO).prefetch(AUTO),
    }


def bucket() -> Variants:
    """Pictures fetched with some latency, as in corpus/c05."""

    def fetch(number):
        time.sleep(0.01)
        return (np.arange(48 * 48 * 3).reshape(48, 48, 3) % 255 + number % 3).astype("float32") / 255

    def load(number, label):
        return tf.ensure_shape(tf.numpy_function(fetch, [number], tf.float32), (48, 48, 3)), label

    source = Data.from_tensor_slices((np.arange(256), np.arange(256) % 3)).shuffle(256)
    return {
        "original": source.map(load).batch(32),
        "hand: 64 threads": source.map(load, 64, use_unbounded_threadpool=True).batch(32).prefetch(AUTO),
        "AUTOTUNE everywhere": source.map(load, AUTO).batch(32, num_parallel_calls=AUTO).prefetch(AUTO),
    }


def crops() -> Variants:
    """Large records, parsed anew for each crop, as in corpus/c29."""
    path = str(Path(tempfile.mkdtemp()) / "scans.tfrecord")
    rng = np.random.default_rng(0)
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(16):
            scan = tf.constant(rng.integers(0, 255, (512, 512, 3), dtype=np.uint8))
            writer.write(tf.io.serialize_tensor(scan).numpy())

    def parse(record):
        return tf.ensure_shape(tf.io.parse_tensor(record, tf.uint8), (512, 512, 3))

    def crop(scan):
        return tf.cast(tf.image.random_crop(scan, (64, 64, 3)), tf.float32) / 255.0

    source = tf.data.TFRecordDataset(path)
    return {
        "original": source.map(parse, AUTO).repeat(25).map(crop, AUTO).batch(16).prefetch(AUTO),
        "hand: cached": source.map(parse, AUTO).cache().repeat(25).map(crop, AUTO).batch(16).prefetch(AUTO),
        "AUTOTUNE everywhere": source.map(parse, AUTO).repeat(25).map(crop, AUTO).batch(16, num_parallel_calls=AUTO)
        .prefetch(AUTO),
    }  # fmt: skip


def healthy() -> Variants:
    """Nothing to gain: cached, parallel and prefetched already, as in corpus/h10."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 255, (4000, 32, 32, 3), dtype=np.uint8), rng.integers(0, 5, 4000)

    def prepare(picture, label):
        return tf.cast(picture, tf.float32) / 255.0, label

    data = Data.from_tensor_slices((x, y)).map(prepare, AUTO).cache().shuffle(1024).batch(64).prefetch(AUTO)
    return {"original": data, "hand: the same": data}


PIPELINES: dict[str, Callable[[], Variants]] = {
    each.__name__: each for each in (image, rows, text, window, waiting, python, bucket, crops, healthy)
}


def epoch(data: Data) -> float:
    iterator = iter(data)
    began = time.perf_counter()
    for _ in iterator:
        pass
    return time.perf_counter() - began


def repeats_of(data: Data) -> int:
    """How many epochs make a time that can be told from noise; the first one, which fills caches, is not counted."""
    epoch(data)
    return max(1, min(20, round(0.15 / epoch(data))))


def mean_epoch(data: Data, repeats: int) -> float:
    return sum(epoch(data) for _ in range(repeats)) / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=PIPELINES, default=list(PIPELINES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    print(machine())
    worst = {"tune/original": 0.0, "hand/tune": 9.9}
    for name in options.only:
        variants = PIPELINES[name]()
        began = time.perf_counter()
        tuned = fitscope.tune(variants["original"], seconds=options.seconds)
        print(f"\n{name}: {PIPELINES[name].__doc__} Tuned in {time.perf_counter() - began:.1f} s.")
        variants["original again"] = variants["original"]
        variants["tune"] = tuned
        epochs = {each: partial(mean_epoch, data, repeats_of(data)) for each, data in variants.items()}
        times = interleaved(epochs, options.rounds)
        table(times, "original")
        by_hand = min(
            (each for each in times if each.startswith("hand")), key=lambda each: statistics.median(times[each])
        )
        hand, own = ratio(times[by_hand], times["tune"]), ratio(times["tune"], times["original"]).median
        if tuned is variants["original"]:
            own = 1.0
        print(f"  {'hand/tune':32s} {hand}  ({by_hand})", flush=True)
        worst = {"tune/original": max(worst["tune/original"], own), "hand/tune": min(worst["hand/tune"], hand.median)}
    print(f"\nworst: tune/original {worst['tune/original']:.3f} (bar 1.02)", end="")
    print(f", hand/tune {worst['hand/tune']:.3f} (bar 0.95)")


if __name__ == "__main__":
    main()
