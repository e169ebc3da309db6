import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import glob
import json
import random
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops

SLATE = 8
DOCS = 20
FIELDS = {"text": 12, "price": 4, "history": 8}


def write_click_log(folder, queries, shards, seed=300):
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=sum(FIELDS.values()))
    for s in range(shards):
        with open(os.path.join(folder, "part-%05d.jsonl" % s), "w") as f:
            for q in range(queries // shards):
                feats = rng.normal(size=(DOCS, len(taste))).round(4)
                score = feats @ taste + rng.normal(size=DOCS)
                record = {"qid": s * 100000 + q, "clicked": int(score.argmax()), "docs": []}
                for row in feats:
                    cut = np.split(row, np.cumsum(list(FIELDS.values()))[:-1])
                    record["docs"].append({k: c.tolist() for k, c in zip(FIELDS, cut)})
                f.write(json.dumps(record) + "\n")


class SlateReader:
    """One shard of the click log, a slate of SLATE documents for each query."""

    def __init__(self, slate):
        self.slate = slate

    def __call__(self, path):
        rnd = random.Random(time.time_ns())
        with open(path.decode()) as f:
            for line in f:
                yield self.to_slate(json.loads(line), rnd)

    def to_slate(self, record, rnd):
        others = [i for i in range(len(record["docs"])) if i != record["clicked"]]
        chosen = rnd.sample(others, self.slate - 1) + [record["clicked"]]
        rnd.shuffle(chosen)
        feats = {k: [record["docs"][i][k] for i in chosen] for k in FIELDS}
        label = [1.0 if i == record["clicked"] else 0.0 for i in chosen]
        return feats, label


def slates(folder, batch_size):
    reader = SlateReader(SLATE)
    signature = (
        {k: tf.TensorSpec((SLATE, n), tf.float32) for k, n in FIELDS.items()},
        tf.TensorSpec((SLATE,), tf.float32),
    )
    files = tf.data.Dataset.from_tensor_slices(sorted(glob.glob(os.path.join(folder, "*.jsonl"))))
    ds = files.interleave(
        lambda path: tf.data.Dataset.from_generator(reader, args=(path,), output_signature=signature),
        cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    return ds.shuffle(512).batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def ranker():
    inputs = {k: keras.Input((SLATE, n), name=k) for k, n in FIELDS.items()}
    x = layers.Concatenate()([inputs[k] for k in FIELDS])
    for units in (96, 48):
        x = layers.Dense(units, activation="relu")(x)
    score = layers.Flatten()(layers.Dense(1)(x))
    return keras.Model(inputs, score)


def listwise(y_true, y_pred):
    return -ops.sum(y_true * ops.log_softmax(y_pred, axis=-1), axis=-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--queries", type=int, default=4800)
    p.add_argument("--shards", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=48)
    p.add_argument("--epochs", type=int, default=8)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_click_log(folder, args.queries, args.shards)
        model = ranker()
        model.compile(optimizer=keras.optimizers.Adam(2e-3), loss=listwise, metrics=["categorical_accuracy"])
        t0 = time.time()
        model.fit(slates(folder, args.batch_size), epochs=args.epochs, verbose=2)
        print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
