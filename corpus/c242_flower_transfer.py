# fine-tuning a small backbone on our own flower pictures
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import keras
from keras.layers import (Activation, BatchNormalization, Conv2D, Dense, Dropout,
                          GlobalAveragePooling2D, Input, SeparableConv2D)
from keras.models import Model

img_rows, img_cols = 72, 72
channel = 3
num_classes = 6
batch_size = 16
nb_epoch = 8

nb_train_samples = 640
nb_validation_samples = 160


def load_data(n, seed):
    rng = np.random.RandomState(seed)
    X = rng.randint(0, 255, (n, img_rows, img_cols, channel)).astype("uint8")
    Y = rng.randint(0, num_classes, n)
    return X, keras.utils.to_categorical(Y, num_classes)


def flow(X, Y, batch_size, shuffle=True, seed=0):
    """Endless batches, scaled to [-1, 1] as the backbone wants it."""
    rng = np.random.RandomState(seed)
    order = np.arange(len(X))
    while True:
        if shuffle:
            rng.shuffle(order)
        for i in range(0, len(X) - batch_size + 1, batch_size):
            idx = order[i:i + batch_size]
            yield X[idx].astype("float32") / 127.5 - 1.0, Y[idx]


def backbone():
    img = Input((img_rows, img_cols, channel))
    x = Conv2D(24, 3, strides=2, padding="same")(img)
    for f in (32, 48, 64):
        x = SeparableConv2D(f, 3, padding="same", strides=2 if f == 48 else 1)(x)
        x = BatchNormalization()(x)
        x = Activation("relu")(x)
    x = GlobalAveragePooling2D()(x)
    x = Dropout(0.2)(x)
    x = Dense(num_classes, activation="softmax")(x)
    return Model(img, x, name="flowers")


if __name__ == "__main__":
    X_train, Y_train = load_data(nb_train_samples, 1)
    X_valid, Y_valid = load_data(nb_validation_samples, 2)

    model = backbone()
    model.compile(optimizer=keras.optimizers.SGD(learning_rate=1e-3, momentum=0.9, nesterov=True),
                  loss="categorical_crossentropy", metrics=["accuracy"])

    start = time.time()
    model.fit(flow(X_train, Y_train, batch_size),
              steps_per_epoch=nb_train_samples // batch_size,
              epochs=nb_epoch,
              validation_data=flow(X_valid, Y_valid, batch_size, shuffle=False),
              validation_steps=nb_validation_samples,
              verbose=2)
    print("train time: %.2f s" % (time.time() - start))
