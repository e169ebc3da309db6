import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

tf.random.set_seed(57017)
rng = np.random.default_rng(57017)
train_labels = rng.integers(0, 10, 1280)
train_images = rng.random((1280, 784)).astype("float32")
train_images[np.arange(1280), train_labels * 50] += 2.0
test_labels = train_labels[:320]
test_images = train_images[:320]


# Define a simple sequential model
def create_model():
    model = keras.models.Sequential([
        keras.Input((784,)),
        keras.layers.Dense(768, activation='relu'),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(512, activation='relu'),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(10),
    ])
    model.compile(optimizer='adam',
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=['accuracy'])
    return model


# Include the epoch in the file name (uses `str.format`)
checkpoint_dir = os.path.join(tempfile.mkdtemp(), "training_2")
os.makedirs(checkpoint_dir)
checkpoint_path = os.path.join(checkpoint_dir, "cp-{epoch:04d}.keras")

batch_size = 32

# Create a callback that saves the model every 5 epochs
cp_callback = keras.callbacks.ModelCheckpoint(
    filepath=checkpoint_path,
    verbose=0,
    save_freq=5)

# Create a new model instance
model = create_model()

# Train the model with the new callback
t0 = time.time()
model.fit(train_images,
          train_labels,
          epochs=15,
          batch_size=batch_size,
          callbacks=[cp_callback],
          validation_data=(test_images, test_labels),
          verbose=2)
t1 = time.time()

print(sorted(os.listdir(checkpoint_dir)))
print("train time: %.2f s" % (t1 - t0))
