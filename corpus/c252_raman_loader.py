import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import time

import keras
from keras import layers
from torch.utils.data import DataLoader

from lib_spectra import SpectraDataset


def conv_unit(x, filters, stride=1):
    x = layers.Conv1D(filters, 7, strides=stride, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.9)(x)
    return layers.Activation("relu")(x)


def build_model(length=512, classes=8):
    inp = keras.Input((length, 1))
    x = conv_unit(inp, 24, 2)
    x = conv_unit(x, 32)
    x = layers.MaxPooling1D(2)(x)
    x = conv_unit(x, 48)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.2)(x)
    model = keras.Model(inp, layers.Dense(classes, activation="softmax")(x))
    model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(252)
    train = SpectraDataset(4500, seed=1)
    loader = DataLoader(
        train,
        batch_size=50,
        shuffle=True,
        num_workers=2,
        multiprocessing_context="spawn",  # fork clashes with CUDA on the lab machine
    )
    model = build_model()
    tic = time.time()
    for_log = model.fit(loader, epochs=2, verbose=2)
    toc = time.time()
    print("accuracy by epoch:", ["%.3f" % a for a in for_log.history["accuracy"]])
    print("train time: %.2f s" % (toc - tic))


if __name__ == "__main__":
    main()
