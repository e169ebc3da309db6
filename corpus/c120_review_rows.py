import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(90)
MAXLEN = 400
lengths = np.clip(rng.lognormal(3.3, 0.45, 1500), 4, 390).astype(int)
reviews = [rng.integers(1, 5000, n) for n in lengths]
labels = np.array([int(np.mean(r) > 2500) for r in reviews])
x = keras.utils.pad_sequences(reviews, maxlen=MAXLEN, padding="post", truncating="post")

model = keras.Sequential([
    layers.Embedding(5000, 48, mask_zero=True),
    layers.GRU(48),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(x[:1300], labels[:1300], batch_size=64, epochs=3, validation_data=(x[1300:], labels[1300:]), verbose=2)
print("train time: %.2f s" % (time.time() - t0))
