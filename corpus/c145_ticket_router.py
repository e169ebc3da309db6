import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

QUEUES = ["billing", "network", "hardware", "account", "other"]


def make_tickets(n=6000, seed=21):
    rng = np.random.default_rng(seed)
    vocab = np.array(["w%04d" % i for i in range(3000)])
    topic = [rng.choice(3000, 60, replace=False) for _ in QUEUES]
    texts, queues = [], []
    for _ in range(n):
        q = int(rng.integers(len(QUEUES)))
        ids = rng.integers(0, 3000, 800)
        hits = rng.random(800) < 0.03
        ids[hits] = rng.choice(topic[q], hits.sum())
        words = vocab[ids]
        words[::9] = np.char.add(np.char.upper(words[::9]), "<br/>,")
        texts.append(" ".join(words))
        queues.append(q)
    return np.array(texts, dtype=object), np.array(queues, dtype="int32")


def clean(text):
    text = tf.strings.lower(text)
    text = tf.strings.regex_replace(text, r"<[^>]+>", " ")
    text = tf.strings.regex_replace(text, r"https?://\S+", " url ")
    text = tf.strings.regex_replace(text, r"[^a-z0-9 ]", "")
    return tf.strings.regex_replace(text, r"\s+", " ")


def main():
    texts, queues = make_tickets()
    vectorizer = layers.TextVectorization(
        max_tokens=4000, ngrams=2, output_mode="multi_hot", pad_to_max_tokens=True, standardize=clean)
    vectorizer.adapt(texts[:1000])

    split = 5400
    train = tf.data.Dataset.from_tensor_slices((texts[:split].astype(str), queues[:split]))
    val = tf.data.Dataset.from_tensor_slices((texts[split:].astype(str), queues[split:]))

    def encode(text, queue):
        return vectorizer(text), queue

    train = train.batch(60).map(encode, num_parallel_calls=tf.data.AUTOTUNE)
    val = val.batch(100).map(encode, num_parallel_calls=tf.data.AUTOTUNE)
    train = train.shuffle(16).prefetch(tf.data.AUTOTUNE)
    val = val.prefetch(tf.data.AUTOTUNE)

    model = keras.Sequential([
        keras.Input((4000,)),
        layers.Dense(32, activation="relu"),
        layers.Dropout(0.5),
        layers.Dense(len(QUEUES), activation="softmax"),
    ])
    model.compile(optimizer=keras.optimizers.Adam(1e-3),
                  loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    start = time.time()
    model.fit(train, validation_data=val, epochs=8, verbose=2)
    print("train time: %.2f s" % (time.time() - start))


if __name__ == "__main__":
    main()
