import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np

rng = np.random.default_rng(67)
features = rng.random((12000, 10)).astype("float32")
clicked = (features[:, 0] > features[:, 1]).astype("int32")

model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy")


def chunks(size):
    for start in range(0, len(features), size):
        yield features[start:start + size], clicked[start:start + size]


for rows, answers in chunks(60):
    model.fit(rows, answers, epochs=1, verbose=0)
print(model.evaluate(features, clicked, batch_size=512, verbose=0))
