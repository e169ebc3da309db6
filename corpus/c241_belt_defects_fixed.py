import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
from keras import layers

import lib_scans_fixed as lib_scans

CAPTURES = 4000
BATCH = 32
STEPS = 20      # we look at the curves often, so an "epoch" is 20 batches
EPOCHS = 14


def conv_block(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    return layers.MaxPooling2D()(x)


def defect_net():
    inputs = keras.Input((64, 64, 3))
    x = inputs
    for filters in (8, 16, 24):
        x = conv_block(x, filters)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


blobs, labels = lib_scans.synth_captures(CAPTURES)
train = lib_scans.epoch_sample(blobs, labels, BATCH, STEPS)

model = defect_net()
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["accuracy"])

tic = time.time()
model.fit(train, epochs=EPOCHS, verbose=2)
print("train time: %.2f s" % (time.time() - tic))
