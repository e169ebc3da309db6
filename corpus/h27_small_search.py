import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import itertools
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(127)
x = rng.normal(size=(5000, 60)).astype("float32")
y = (x[:, :4].sum(axis=1) > 0).astype("int32")
results = {}
for width, depth in itertools.product([128, 320], [1, 2]):
    keras.backend.clear_session()
    model = keras.Sequential([keras.Input((60,))])
    for _ in range(depth):
        model.add(layers.Dense(width, activation="relu"))
        model.add(layers.BatchNormalization())
    model.add(layers.Dense(1, activation="sigmoid"))
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    history = model.fit(x, y, batch_size=50, epochs=4, validation_split=0.2, verbose=0)
    results[width, depth] = history.history["val_accuracy"][-1]
print(max(results, key=results.get), results)
