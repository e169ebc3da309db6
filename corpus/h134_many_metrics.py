import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers, callbacks

IMG = 64
CLASSES = 8
keras.utils.set_random_seed(134)
rng = np.random.default_rng(134)


def fake_leaves(n, patterns):
    y = rng.integers(0, CLASSES, n)
    x = patterns[y] * rng.uniform(0.1, 0.5, (n, 1, 1, 1)) + rng.normal(0, 0.25, (n, IMG, IMG, 3)) + 0.6 * tints[y]
    return (x.clip(0, 1) * 255).astype("uint8"), y


patterns = rng.random((CLASSES, IMG // 8, IMG // 8, 3)).repeat(8, 1).repeat(8, 2)
tints = rng.random((CLASSES, 1, 1, 3))
x_train, y_train = fake_leaves(1344, patterns)
x_val, y_val = fake_leaves(96, patterns)


def normalize(image, label):
    return tf.cast(image, tf.float32) / 255.0, label


# the buffer is larger than the data set on purpose: a perfect shuffle
train_ds = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(50000).batch(32).map(normalize)
val_ds = tf.data.Dataset.from_tensor_slices((x_val, y_val)).batch(64).map(normalize)

model = keras.Sequential([layers.Input((IMG, IMG, 3))])
for filters in (24, 48, 96):
    model.add(layers.Conv2D(filters, 3, padding="same", activation="relu"))
    model.add(layers.Conv2D(filters, 3, padding="same", activation="relu"))
    model.add(layers.MaxPooling2D())
model.add(layers.GlobalAveragePooling2D())
model.add(layers.Dropout(0.2))
model.add(layers.Dense(CLASSES, activation="softmax"))

model.compile(
    optimizer=keras.optimizers.Adam(5e-4),
    loss="sparse_categorical_crossentropy",
    metrics=[
        "accuracy",
        keras.metrics.SparseTopKCategoricalAccuracy(k=2, name="top2"),
        keras.metrics.SparseTopKCategoricalAccuracy(k=3, name="top3"),
        keras.metrics.SparseCategoricalCrossentropy(name="xent"),
    ],
)
log_dir = tempfile.mkdtemp()
cbs = [
    callbacks.EarlyStopping(monitor="val_loss", patience=5, restore_best_weights=True),
    callbacks.ReduceLROnPlateau(monitor="val_loss", patience=3),
    callbacks.CSVLogger(os.path.join(log_dir, "history.csv")),
    callbacks.ModelCheckpoint(os.path.join(log_dir, "best.weights.h5"), save_best_only=True, save_weights_only=True),
    callbacks.TerminateOnNaN(),
]
t0 = time.time()
model.fit(train_ds, validation_data=val_ds, epochs=3, callbacks=cbs, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
