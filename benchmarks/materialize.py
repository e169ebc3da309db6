"""Reading a store against what a user would write instead, and training on it against training on a cached batch.

    python benchmarks/materialize.py                 both parts
    python benchmarks/materialize.py --rounds 9 --json figures.json

Reading: the same images as a store, as tf.data `save`/`load` and as TFRecord, read in batches of 32, in order and
shuffled, four times in one pass; the end of a tf.data iterator, which may wait for its own autotuner, is not counted.
Training: a pipeline that decodes JPEG files, first as it is, then from its store, against one batch that is repeated
from memory: the second epoch of each. How ratios are made is said in side_by_side.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf
from side_by_side import Times, interleaved, machine, ratio

from fitscope.remedy.storing.materialize import materialize

BATCH = 32
PASSES = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    parser.add_argument("--part", choices=("reading", "training"))
    options = parser.parse_args()
    print(machine())
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        if options.part != "training":
            rows += reading(Path(folder), options.images, options.rounds)
        if options.part != "reading":
            rows += training(Path(folder), options.rounds)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def reading(folder: Path, count: int, rounds: int) -> list[dict[str, Any]]:
    images = np.random.default_rng(0).integers(0, 255, (count, 96, 96, 3), dtype=np.uint8)
    source = tf.data.Dataset.from_tensor_slices((images, np.arange(count)))
    pipeline = source.map(lambda image, label: (image, label % 10))
    store = materialize(pipeline, folder / "store")
    pipeline.save(str(folder / "saved"))
    write_records(pipeline, folder / "images.tfrecord")
    batches, shuffled = pipeline.batch(BATCH), pipeline.shuffle(count).batch(BATCH)
    records = tf.data.TFRecordDataset(str(folder / "images.tfrecord"))
    parsed = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    loaded = tf.data.Dataset.load(str(folder / "saved"))
    variants = {
        "store": materialize(batches, folder / "store").as_tf(),
        "save/load": loaded.batch(BATCH),
        "TFRecord": parsed.batch(BATCH),
        "store, shuffled": materialize(shuffled, folder / "store").as_tf(),
        "save/load, shuffled": loaded.shuffle(count).batch(BATCH),
        "TFRecord, shuffled": parsed.shuffle(count).batch(BATCH),
        "store, single": store.as_tf().map(lambda image, label: (image, label)).batch(BATCH),
        "PyDataset, shuffled": store.as_pydataset(BATCH, shuffle=True),
    }
    seconds = interleaved({name: lambda each=each: drain(each) for name, each in variants.items()}, rounds, warm_up=1)
    print(f"Reading {count} images of 96 x 96 x 3 (time of the alternative over that of the store; more is better)")
    found = []
    for mine, others in (
        ("store", ("save/load", "TFRecord")),
        ("store, shuffled", ("save/load, shuffled", "TFRecord, shuffled")),
        ("store, single", ("save/load", "TFRecord")),
        ("PyDataset, shuffled", ("save/load, shuffled", "TFRecord, shuffled")),
    ):
        rate = PASSES * count / statistics.median(seconds[mine])
        print(f"  {mine}: {rate:,.0f} images/s")
        for other in others:
            found.append(row(f"{other} / {mine}", seconds, other, mine))
    return found


def write_records(dataset: tf.data.Dataset, path: Path) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for image, label in dataset:
            features = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.numpy().tobytes()])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    features = {"image": tf.io.FixedLenFeature((), tf.string), "label": tf.io.FixedLenFeature((), tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), (96, 96, 3)), example["label"]


def drain(dataset: Any) -> float:
    began = time.perf_counter()
    if isinstance(dataset, keras.utils.PyDataset):
        for _ in range(PASSES):
            for index in range(len(dataset)):
                dataset[index]
            dataset.on_epoch_end()
        return time.perf_counter() - began
    iterator = iter(dataset.repeat(PASSES))
    for _ in iterator:
        pass
    return time.perf_counter() - began


def training(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """The second epoch of a pipeline that decodes, of its store, and of one batch from memory."""
    count = 960
    (folder / "jpeg").mkdir()
    smooth = np.random.default_rng(0).integers(0, 255, (count, 8, 8, 3), dtype=np.uint8)
    for number, image in enumerate(smooth):
        large = tf.cast(tf.image.resize(image, (480, 480)), tf.uint8)
        (folder / "jpeg" / f"{number}.jpg").write_bytes(tf.io.encode_jpeg(large).numpy())
    names = sorted(str(path) for path in (folder / "jpeg").iterdir())
    files = tf.data.Dataset.from_tensor_slices((names, np.arange(count) % 10))
    pipeline = files.shuffle(count).map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH, drop_remainder=True)
    pipeline = pipeline.prefetch(tf.data.AUTOTUNE)
    store = materialize(pipeline, folder / "decoded")
    print(store.why)
    model = keras.Sequential(
        [
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(16, 3, strides=4, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(10),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    cached = pipeline.take(1).cache().repeat(count // BATCH)
    variants = {"decoding": pipeline, "store": store.as_tf(), "PyDataset": store.as_pydataset(BATCH, shuffle=True)}
    variants |= {"cached batch": cached, "cached again": cached}
    steps = count // BATCH
    seconds = interleaved(
        {name: lambda each=each: second_epoch(model, each, steps) for name, each in variants.items()},
        rounds,
        warm_up=1,
    )
    print("Second epoch (time over that of one cached batch; the bar is 1.1, less is better)")
    names = ("decoding", "store", "PyDataset", "cached again")
    return [row(f"{name} / cached batch", seconds, name, "cached batch") for name in names]


def decode(name: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    image = tf.io.decode_jpeg(tf.io.read_file(name), channels=3)
    return tf.cast(tf.image.resize(image, (96, 96)), tf.uint8), label


def second_epoch(model: keras.Model, data: Any, steps: int) -> float:
    """A tf.data pipeline goes on from epoch to epoch, as one that repeats does: Keras does not end it between."""
    clock = Clock()
    settings: dict[str, Any] = {"shuffle": False}
    if isinstance(data, tf.data.Dataset):
        data, settings = data.repeat(), {"steps_per_epoch": steps}
    model.fit(data, epochs=2, verbose=0, callbacks=[clock], **settings)
    return clock.seconds


class Clock(keras.callbacks.Callback):
    """The seconds of the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.began = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seconds = time.perf_counter() - self.began


def row(what: str, seconds: Times, above: str, below: str) -> dict[str, Any]:
    found = ratio(seconds[above], seconds[below])
    print(f"    {what:45} {found}", flush=True)
    return {"what": what, "ratio": found.median, "low": found.low, "high": found.high}


if __name__ == "__main__":
    main()
