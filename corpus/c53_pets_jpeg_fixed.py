import os
os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile

import keras
from keras import layers

from lib_pets import pets, write_images

names = write_images(tempfile.mkdtemp())
labels = [i % 2 for i in range(len(names))]
ds = pets(names, labels, batch=8, keep=True)

model = keras.Sequential([
    keras.Input((64, 64, 3)),
    layers.Conv2D(8, 3, strides=2, activation="relu"),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer="adam", loss="binary_crossentropy")
history = model.fit(ds, epochs=14, verbose=2)
print(history.history["loss"][-1])
