"""Small transformer encoder on reviews from two shops, trained with its own loop."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

LENGTH, VOCAB = 64, 1200


def reviews(rng, n, words, bias):
    y = rng.integers(0, 2, n)
    texts = []
    for label in y:
        k = rng.integers(54, LENGTH + 1)
        ids = rng.integers(0, len(words), k)
        ids = np.where(rng.random(k) < 0.15, (ids // 2) * 2 + label, ids)
        texts.append(" ".join(words[(i + bias) % len(words) if rng.random() < 0.02 else i] for i in ids))
    return np.array(texts), y.astype("float32")


class Encoder(layers.Layer):
    def __init__(self, dim, heads, hidden, **kw):
        super().__init__(**kw)
        self.att = layers.MultiHeadAttention(heads, dim // heads)
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.up = layers.Dense(hidden, activation="relu")
        self.down = layers.Dense(dim)

    def call(self, x):
        h = self.n1(x)
        x = x + self.att(h, h)
        return x + self.down(self.up(self.n2(x)))


class Positions(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="random_normal", name="table")

    def call(self, x):
        return x + self.table


class Trainer:
    def __init__(self, model, optimizer, data):
        self.model, self.opt, self.batches = model, optimizer, iter(data)
        self.loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)
        self.loss = keras.metrics.Mean()
        self.acc = keras.metrics.BinaryAccuracy(threshold=0.0)
        optimizer.build(model.trainable_variables)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            logit = self.model(x, training=True)
            loss = self.loss_fn(y[:, None], logit)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        self.loss.update_state(loss)
        self.acc.update_state(y[:, None], logit)

    def run(self, steps, epochs):
        for epoch in range(epochs):
            self.loss.reset_state()
            self.acc.reset_state()
            for _ in range(steps):
                self.step(*next(self.batches))
            print(f"epoch {epoch}: loss={float(self.loss.result()):.3f} acc={float(self.acc.result()):.3f}")


def main():
    keras.utils.set_random_seed(30)
    rng = np.random.default_rng(30)
    words = [f"w{i}x" for i in range(VOCAB - 2)]
    a, b = reviews(rng, 1280, words, 7), reviews(rng, 1280, words, 31)

    vectorize = layers.TextVectorization(output_sequence_length=LENGTH, vocabulary=words)
    shops = [tf.data.Dataset.from_tensor_slices(s).shuffle(1280).repeat() for s in (a, b)]
    train = (tf.data.Dataset.sample_from_datasets(shops, weights=[0.5, 0.5])
             .batch(64, drop_remainder=True)
             .map(lambda t, y: (vectorize(t), y), num_parallel_calls=tf.data.AUTOTUNE)
             .prefetch(tf.data.AUTOTUNE))

    inp = keras.Input((LENGTH,), dtype="int64")
    x = Positions()(layers.Embedding(VOCAB, 96)(inp))
    for _ in range(3):
        x = Encoder(96, 4, 256)(x)
    x = layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inp, layers.Dense(1)(x))

    trainer = Trainer(model, keras.optimizers.Adam(3e-4), train)
    t0 = time.time()
    trainer.run(40, 4)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
