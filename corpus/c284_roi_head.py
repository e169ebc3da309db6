import os
os.environ["KERAS_BACKEND"] = "jax"
import time
import numpy as np
import keras
from keras import layers

# second stage of a two-stage detector: the proposals of one image are one batch
num_classes = 6          # incl. background
pool = 7
rng = np.random.default_rng(1433)


class Image(object):
    def __init__(self, rng):
        n = int(rng.integers(14, 31))            # what is left after NMS
        self.cls = rng.integers(0, num_classes, n)
        self.rois = rng.normal(size=(n, pool, pool, 32)).astype("float32")
        self.rois += self.cls[:, None, None, None] * 0.05


def classifier_layers():
    inp = keras.Input((pool, pool, 32))
    x = layers.Conv2D(64, 3, padding="same", activation="relu")(inp)
    x = layers.Conv2D(64, 3, padding="same", activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dropout(0.5)(x)
    out = layers.Dense(num_classes, activation="softmax")(x)
    return keras.Model(inp, out, name="classifier")


images = [Image(rng) for _ in range(60)]
model_classifier = classifier_layers()
model_classifier.compile(optimizer=keras.optimizers.Adam(1e-4), loss="sparse_categorical_crossentropy",
                         weighted_metrics=["accuracy"])

num_epochs = 4
print("Starting training")
start_time = time.time()
for epoch_num in range(num_epochs):
    losses = []
    order = rng.permutation(len(images))
    for iter_num, k in enumerate(order):
        img = images[k]
        X2, Y1 = img.rois, img.cls
        w = np.ones(len(Y1), "float32")
        loss_class = model_classifier.train_on_batch(X2, Y1, sample_weight=w)
        losses.append(float(loss_class[0]))
        if iter_num % 20 == 19:
            print("epoch %d  iter %d  mean rois %.1f  loss %.4f" % (
                epoch_num + 1, iter_num + 1, np.mean([len(i.cls) for i in images]), np.mean(losses[-20:])))
print("train time: %.2f s" % (time.time() - start_time))
