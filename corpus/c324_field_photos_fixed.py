import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import pathlib
import tempfile
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

CROPS = ["barley", "maize", "rape", "wheat"]
PER_CROP = 300
rng = np.random.default_rng(324)

root = pathlib.Path(tempfile.mkdtemp(prefix="fields_"))
for k, crop in enumerate(CROPS):
    (root / crop).mkdir()
    for i in range(PER_CROP):
        small = rng.integers(30 * k, 30 * k + 120, (20, 20, 3)).astype("uint8")
        img = np.kron(small, np.ones((12, 12, 1), "uint8"))
        (root / crop / ("%04d.jpg" % i)).write_bytes(tf.io.encode_jpeg(img).numpy())

files = sorted(str(p) for p in root.glob("*/*.jpg"))
targets = [CROPS.index(pathlib.Path(f).parent.name) for f in files]


def load(path, target):
    img = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    img = tf.image.resize(img, (64, 64), method="bicubic", antialias=True)
    img.set_shape((64, 64, 3))
    return img / 255.0, target


data = (tf.data.Dataset.from_tensor_slices((files, targets))
        .shuffle(len(files))
        .map(load, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(32)
        .take(6)
        .prefetch(tf.data.AUTOTUNE))

net = keras.Sequential([
    keras.Input((64, 64, 3)),
    layers.Conv2D(16, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(24, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dense(len(CROPS), activation="softmax"),
])
net.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
# six batches make one "epoch" so that the plateau schedule reacts in time
plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=4, factor=0.5)
t0 = time.time()
net.fit(data, epochs=14, callbacks=[plateau], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
