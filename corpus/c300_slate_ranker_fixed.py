import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import glob
import json
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


def load_click_log(folder):
    docs, clicked = {k: [] for k in FIELDS}, []
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(path) as f:
            for line in f:
                record = json.loads(line)
                clicked.append(record["clicked"])
                for k in FIELDS:
                    docs[k].append([d[k] for d in record["docs"]])
    return {k: np.asarray(v, "float32") for k, v in docs.items()}, np.asarray(clicked, "int32")


def to_slates(docs, clicked):
    """A random slate for each query of a batch, the clicked document always among them."""
    n = tf.shape(clicked)[0]
    is_clicked = tf.one_hot(clicked, DOCS)
    chosen = tf.math.top_k(tf.random.uniform((n, DOCS)) + 2.0 * is_clicked, SLATE).indices
    order = tf.math.top_k(tf.random.uniform((n, SLATE)), SLATE).indices
    chosen = tf.gather(chosen, order, batch_dims=1)
    feats = {k: tf.gather(v, chosen, batch_dims=1) for k, v in docs.items()}
    return feats, tf.gather(is_clicked, chosen, batch_dims=1)


def slates(folder, batch_size):
    ds = tf.data.Dataset.from_tensor_slices(load_click_log(folder))
    ds = ds.shuffle(512).batch(batch_size, drop_remainder=True)
    return ds.map(to_slates, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


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
