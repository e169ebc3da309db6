import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"
import time

import numpy as np
import keras
from keras import layers, ops
from scipy.ndimage import distance_transform_edt as distance

SIZE = 112


def phantom(n, seed=227):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    masks = np.zeros((n, SIZE, SIZE, 1), "float32")
    for i in range(n):
        for _ in range(3):
            cy, cx = rng.uniform(15, SIZE - 15, 2)
            a, b = rng.uniform(4, 18, 2)
            masks[i, ..., 0] += ((yy - cy) / a) ** 2 + ((xx - cx) / b) ** 2 < 1
    masks = np.minimum(masks, 1)
    imgs = 0.6 * masks + 0.35 * rng.normal(size=masks.shape)
    return imgs.astype("float32"), masks


def calc_dist_map(seg):
    res = np.zeros_like(seg)
    posmask = seg.astype(bool)
    if posmask.any():
        negmask = ~posmask
        res = distance(negmask) * negmask - (distance(posmask) - 1) * posmask
    return res


def calc_dist_map_batch(y_true):
    return np.array([calc_dist_map(y) for y in y_true]).astype(np.float32)


def dice(y_true, y_pred):
    inter = ops.sum(y_true * y_pred)
    return 1 - (2 * inter + 1) / (ops.sum(y_true) + ops.sum(y_pred) + 1)


def surface_loss(y_true_dist_map, y_pred):
    return ops.mean(y_pred * y_true_dist_map)


def total_loss(y_true, y_pred):
    mask, dist = y_true[..., :1], y_true[..., 1:]
    return dice(mask, y_pred) + 0.05 * surface_loss(dist, y_pred)


def block(x, f):
    x = layers.Conv2D(f, 3, padding="same", activation="relu")(x)
    return layers.Conv2D(f, 3, padding="same", activation="relu")(x)


def unet(f=8):
    inp = keras.Input((SIZE, SIZE, 1))
    a = block(inp, f)
    b = block(layers.MaxPooling2D()(a), 2 * f)
    c = block(layers.MaxPooling2D()(b), 4 * f)
    u = layers.Concatenate()([layers.UpSampling2D()(c), b])
    u = block(u, 2 * f)
    u = layers.Concatenate()([layers.UpSampling2D()(u), a])
    u = block(u, f)
    return keras.Model(inp, layers.Conv2D(1, 1, activation="sigmoid")(u))


imgs, masks = phantom(240)
model = unet()
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=total_loss)
t0 = time.time()
targets = np.concatenate([masks, calc_dist_map_batch(masks)], axis=-1)
model.fit(imgs, targets, batch_size=12, epochs=5, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
