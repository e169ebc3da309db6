import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(83)
X = rng.random((640, 24)).astype("float32")
Y = rng.integers(0, 2, 640)
FOLDS = 8


def build_model():
    m = keras.Sequential([keras.Input((24,)), layers.Dense(64, activation="relu"), layers.BatchNormalization(),
                          layers.Dense(64, activation="relu"), layers.Dropout(0.3), layers.Dense(1, activation="sigmoid")])
    m.compile(optimizer=keras.optimizers.SGD(0.05), loss="binary_crossentropy", metrics=["accuracy"])
    return m


scores = []
fold_of = rng.integers(0, FOLDS, len(X))
model = build_model()
first = model.get_weights()
for fold in range(FOLDS):
    model.set_weights(first)
    train, test = fold_of != fold, fold_of == fold
    model.fit(X[train], Y[train], batch_size=32, epochs=3, verbose=0)
    scores.append(model.evaluate(X[test], Y[test], verbose=0)[1])
print("accuracy %.3f" % np.mean(scores))
