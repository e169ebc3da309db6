import os
os.environ["KERAS_BACKEND"] = "torch"
import time
import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, TensorDataset
import keras
from keras import layers


def loader(x, y, batch_size, training):
    data = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    sampler = RandomSampler(data) if training else SequentialSampler(data)
    return DataLoader(data, batch_size=None, num_workers=0,
                      sampler=BatchSampler(sampler, batch_size, drop_last=training))


class Warmup(keras.callbacks.Callback):
    def __init__(self, peak, steps):
        super().__init__()
        self.peak, self.steps, self.step = peak, steps, 0

    def on_train_batch_begin(self, batch, logs=None):
        self.step += 1
        if self.step <= self.steps:
            self.model.optimizer.learning_rate = self.peak * self.step / self.steps


def build(side, classes):
    inputs = keras.Input((side, side, 3))
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(inputs)
    x = layers.Conv2D(64, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(64, 3, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(classes, activation="softmax")(x))


rng = np.random.default_rng(614)
images = rng.random((2304, 48, 48, 3)).astype("float32")
labels = rng.integers(0, 10, 2304)
train = loader(images[:2048], labels[:2048], 32, training=True)
valid = loader(images[2048:], labels[2048:], 64, training=False)

model = build(48, 10)
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(train, validation_data=valid, epochs=4, callbacks=[Warmup(1e-3, 40)], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
