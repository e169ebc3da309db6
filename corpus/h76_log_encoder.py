# Encoder over machine event logs: which fault comes next?
import argparse, json, os, tempfile, time

import numpy as np
import keras
from keras import layers, ops

p = argparse.ArgumentParser()
p.add_argument("--events", type=int, default=48)
p.add_argument("--vocab", type=int, default=300)
p.add_argument("--dim", type=int, default=128)
p.add_argument("--faults", type=int, default=16)
p.add_argument("--batch", type=int, default=64)
p.add_argument("--epochs", type=int, default=4)
args = p.parse_args()


def journal(n, seed):
    r = np.random.default_rng(seed)
    tokens = r.integers(0, args.vocab, size=(n, args.events)).astype("int32")
    label = r.integers(0, args.faults, size=n)
    hits = r.random((n, args.events)) < 0.12
    marks = (label[:, None] * 5 + r.integers(0, 9, size=(n, args.events))) % args.vocab
    return np.where(hits, marks, tokens).astype("int32"), label.astype("int32")


class TokensAndPlaces(layers.Layer):
    def __init__(self, vocab, length, dim):
        super().__init__()
        self.tok, self.pos = layers.Embedding(vocab, dim), layers.Embedding(length, dim)
        self.length = length

    def call(self, t):
        return self.tok(t) + self.pos(ops.arange(self.length))


def block(h, dim, heads):
    a = layers.LayerNormalization()(h)
    h = h + layers.MultiHeadAttention(heads, dim // heads)(a, a)
    f = layers.LayerNormalization()(h)
    f = layers.Dense(3 * dim, activation="gelu")(f)
    return h + layers.Dense(dim)(f)


class Journal(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.file = open(path, "a")

    def on_epoch_end(self, epoch, logs=None):
        self.file.write(json.dumps({"epoch": epoch, **{k: float(v) for k, v in logs.items()}}) + "\n")
        self.file.flush()

    def on_train_end(self, logs=None):
        self.file.close()


keras.utils.set_random_seed(12)
x, y = journal(3072, 0)
xv, yv = journal(64, 1)
ids = keras.Input((args.events,), dtype="int32")
h = TokensAndPlaces(args.vocab, args.events, args.dim)(ids)
for _ in range(2):
    h = block(h, args.dim, heads=4)
h = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(h))
model = keras.Model(ids, layers.Dense(args.faults)(h))
model.compile(
    optimizer=keras.optimizers.AdamW(1e-4, weight_decay=1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(k=3, name="top3")],
)
work = tempfile.mkdtemp()
begin = time.time()
model.fit(
    x, y, batch_size=args.batch, epochs=args.epochs, validation_data=(xv, yv), verbose=2,
    callbacks=[
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=2),
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1),
        keras.callbacks.ModelCheckpoint(os.path.join(work, "enc.weights.h5"), save_weights_only=True, save_best_only=True),
        Journal(os.path.join(work, "journal.jsonl")),
    ],
)
print("train time: %.2f s" % (time.time() - begin))
