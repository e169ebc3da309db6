"""Routing of support tickets: embedding, convolutions and attention (Keras on JAX)."""
import os
os.environ["KERAS_BACKEND"] = "jax"
import tempfile
import time

import numpy as np
import keras
from keras import layers

VOCAB, LENGTH, QUEUES = 1500, 96, 5


def write_tickets(n, seed):
    rng = np.random.default_rng(seed)
    queue = rng.integers(0, QUEUES, n)
    text = rng.integers(1, VOCAB, (n, LENGTH))
    hint = rng.random((n, LENGTH)) < 0.08
    text = np.where(hint, 100 * queue[:, None] + rng.integers(1, 60, (n, LENGTH)), text)
    return text.astype("int32"), queue.astype("int32")


class Tickets(keras.utils.PyDataset):
    def __init__(self, text, queue, batch_size, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.text, self.queue, self.batch_size = text, queue, batch_size
        self.rng = np.random.default_rng(seed)
        self.order = np.arange(len(queue))

    def __len__(self):
        return len(self.queue) // self.batch_size

    def __getitem__(self, i):
        rows = self.order[i * self.batch_size:(i + 1) * self.batch_size]
        return self.text[rows], self.queue[rows]

    def on_epoch_end(self):
        self.rng.shuffle(self.order)


def classifier():
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(VOCAB, 96)(inputs)
    for width in (3, 5):
        x = layers.LayerNormalization()(layers.Conv1D(96, width, padding="same", activation="relu")(x) + x)
    x = layers.LayerNormalization()(layers.MultiHeadAttention(4, 24)(x, x) + x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(inputs, layers.Dense(QUEUES, activation="softmax")(x))


def main():
    train = Tickets(*write_tickets(3200, 1), batch_size=64)
    val = write_tickets(256, 2)
    model = classifier()
    model.compile(optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(4e-4, 150)),
                  loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    folder = tempfile.mkdtemp()
    seen = []
    callbacks = [
        keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch)),
        keras.callbacks.ModelCheckpoint(os.path.join(folder, "best.weights.h5"), save_best_only=True, save_weights_only=True),
        keras.callbacks.TerminateOnNaN(),
    ]
    t0 = time.time()
    model.fit(train, validation_data=val, epochs=3, callbacks=callbacks, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
