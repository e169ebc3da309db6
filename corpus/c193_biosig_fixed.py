import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import keras
from keras import layers
from lib_biosig import Recording, batches, chain, mixed, spectra

recording = Recording(windows=12000, hop=160, length=2048, classes=4, seed=604)
train = chain(
    recording.segments(),
    mixed(buffer=8000, seed=604),
    spectra(recording, frame=128, step=32),
    batches(size=32, per_epoch=40),
)

model = keras.Sequential([
    keras.Input((61, 65, 1)),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Conv2D(32, 3, padding="same", activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(64, 3, padding="same", activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(4, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(train, epochs=6, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
