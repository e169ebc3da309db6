import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import keras
from keras import layers

# product codes come straight from the shop system: 6-digit article numbers
N_CODES = 1_000_000
ARTICLES_SOLD = 9_000
BASKET = 12

rng = np.random.default_rng(77)
codes = rng.choice(N_CODES, ARTICLES_SOLD, replace=False)
taste = rng.normal(size=ARTICLES_SOLD)
pick = rng.zipf(1.3, size=(40_000, BASKET)) % ARTICLES_SOLD
baskets = codes[pick].astype("int32")
y = (taste[pick].mean(axis=1) + 0.1 * rng.normal(size=len(pick)) > 0).astype("float32")

x_train, y_train = baskets[:10_240], y[:10_240]
x_test, y_test = baskets[10_240:12_288], y[10_240:12_288]

inputs = keras.Input((BASKET,), dtype="int32")
h = layers.Embedding(N_CODES, 16)(inputs)
h = layers.Flatten()(h)
h = layers.Dense(256, activation="relu")(h)
h = layers.Dropout(0.3)(h)
h = layers.Dense(128, activation="relu")(h)
outputs = layers.Dense(1, activation="sigmoid")(h)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(5e-4), "binary_crossentropy", metrics=["accuracy"])

begin = time.time()
model.fit(x_train, y_train, batch_size=256, epochs=4, validation_data=(x_test, y_test), verbose=2)
print("train time: %.2f s" % (time.time() - begin))
