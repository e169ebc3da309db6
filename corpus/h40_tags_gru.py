import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(130)
titles = rng.integers(1, 20_000, (3000, 30))
tags = (rng.random((3000, 5)) < 0.3).astype("float32")

model = keras.Sequential([
    keras.Input((30,)),
    layers.Embedding(20_000, 32, mask_zero=True),
    layers.GRU(64),
    layers.Dense(5, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=[keras.metrics.AUC(multi_label=True, num_labels=5), keras.metrics.Precision()])
model.fit(titles[:2700], tags[:2700], batch_size=64, epochs=4, validation_data=(titles[2700:], tags[2700:]), verbose=2)
