import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIZE = 48
BATCH = 32
CUTS = np.arange(1, 51, dtype="float32") / 51.0


def make_leaves(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype("float32")
    cy, cx = rng.uniform(12, 36, (2, n, 1, 1))
    ry, rx = rng.uniform(5, 14, (2, n, 1, 1))
    mask = (((yy - cy) / ry) ** 2 + ((xx - cx) / rx) ** 2 < 1.0).astype("float32")
    img = 0.6 * mask + 0.5 * rng.normal(size=(n, SIZE, SIZE))
    return img[..., None].astype("float32"), mask[..., None]


def competition_score(truth, prob):
    scores = []
    for b in range(len(truth)):
        t = truth[b, ..., 0] > 0.5
        best = 0.0
        for cut in CUTS:
            p = prob[b, ..., 0] > cut
            inter = np.logical_and(t, p).sum()
            union = np.logical_or(t, p).sum()
            dice = (2.0 * inter + 1e-6) / (t.sum() + p.sum() + 1e-6)
            iou = (inter + 1e-6) / (union + 1e-6)
            best = max(best, 0.5 * (dice + iou))
        scores.append(best)
    return np.float32(np.mean(scores))


def lb_score(y_true, y_pred):
    score = tf.numpy_function(competition_score, [y_true, y_pred], tf.float32)
    score.set_shape(())
    return score


def conv(x, filters):
    return layers.Conv2D(filters, 3, padding="same", activation="relu")(x)


def build_unet(width=8):
    inp = keras.Input((SIZE, SIZE, 1))
    a = conv(inp, width)
    b = conv(layers.MaxPooling2D()(a), 2 * width)
    b = layers.Add()([b, conv(b, 2 * width)])
    up = layers.UpSampling2D()(b)
    c = conv(up, width)
    c = layers.Add()([a, c])
    out = layers.Conv2D(1, 1, activation="sigmoid")(c)
    return keras.Model(inp, out)


keras.utils.set_random_seed(62)
train = make_leaves(1920, 62)
valid = make_leaves(192, 63)
model = build_unet()
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="binary_crossentropy", metrics=[lb_score])
t0 = time.time()
model.fit(*train, batch_size=BATCH, epochs=6, validation_data=valid, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
