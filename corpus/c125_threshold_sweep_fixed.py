import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(95)
scans = rng.random((1600, 48)).astype("float32")
findings = (rng.random((1600, 14)) < 0.1).astype("float32")
THRESHOLDS = [0.3, 0.5, 0.7]

inputs = keras.Input((48,))
x = layers.Dense(128, activation="relu")(inputs)
x = layers.Dropout(0.2)(layers.Dense(128, activation="relu")(x))
model = keras.Model(inputs, layers.Dense(14, activation="sigmoid")(x))
model.compile(
    optimizer="adam",
    loss="binary_crossentropy",
    metrics=[
        "binary_accuracy",
        keras.metrics.Precision(thresholds=THRESHOLDS, name="precision"),
        keras.metrics.Recall(thresholds=THRESHOLDS, name="recall"),
    ],
)
model.fit(scans, findings, batch_size=64, epochs=3, verbose=2)
