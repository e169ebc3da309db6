import argparse
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
from keras import layers, ops

from lib_reviews import Vocabulary, make_reviews


@keras.saving.register_keras_serializable()
class TokenAndPosition(layers.Layer):
    def __init__(self, max_length, vocab, dim, **kw):
        super().__init__(**kw)
        self.tok = layers.Embedding(vocab, dim)
        self.pos = layers.Embedding(max_length, dim)
        self.max_length = max_length

    def call(self, ids):
        return self.tok(ids) + self.pos(ops.arange(self.max_length))


def encoder_block(x, pad_mask, heads, dim, ff, rate):
    a = layers.MultiHeadAttention(heads, dim // heads)(x, x, attention_mask=pad_mask)
    x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Dropout(rate)(a))
    f = layers.Dense(dim)(layers.Dense(ff, activation="relu")(x))
    return layers.LayerNormalization(epsilon=1e-6)(x + layers.Dropout(rate)(f))


def build(args, vocab):
    ids = keras.Input((args.max_length,), dtype="int32")
    real = ops.not_equal(ids, 0)
    mask = ops.expand_dims(real, 1)
    x = TokenAndPosition(args.max_length, vocab, args.dim)(ids)
    for _ in range(args.blocks):
        x = encoder_block(x, mask, args.heads, args.dim, 2 * args.dim, 0.1)
    x = layers.GlobalAveragePooling1D()(x, mask=real)
    out = layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model(ids, out)
    model.compile(keras.optimizers.Adam(args.lr), "binary_crossentropy", metrics=["accuracy"])
    return model


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--max-length", type=int, default=160)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--blocks", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=1e-3)
    return p.parse_args()


def main():
    args = parse()
    keras.utils.set_random_seed(249)
    texts, y = make_reviews(1440, 1)
    val_texts, val_y = make_reviews(160, 2)
    vocab = Vocabulary().fit(texts)
    x = vocab.encode(texts, args.max_length)
    val_x = vocab.encode(val_texts, args.max_length)
    model = build(args, len(vocab))
    t0 = time.time()
    model.fit(x, y, batch_size=args.batch_size, epochs=args.epochs, validation_data=(val_x, val_y), verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
