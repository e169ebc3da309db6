"""One-object detector: box and class from small pictures, with average precision on held-out pictures."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf

SIDE, CELLS, KINDS = 48, 6, 3


def scenes(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 0.15, (n, SIDE, SIDE, 3)).astype("float32")
    target = np.zeros((n, CELLS, CELLS, 5 + KINDS), "float32")
    truth = []
    for i in range(n):
        boxes = []
        for _ in range(rng.integers(2, 5)):
            w, h = rng.integers(6, 15, 2)
            x0, y0 = rng.integers(0, SIDE - w), rng.integers(0, SIDE - h)
            kind = rng.integers(KINDS)
            x[i, y0:y0 + h, x0:x0 + w, kind] += 1.0
            cy, cx = int((y0 + h / 2) * CELLS / SIDE), int((x0 + w / 2) * CELLS / SIDE)
            target[i, cy, cx, :5] = [1, x0 / SIDE, y0 / SIDE, w / SIDE, h / SIDE]
            target[i, cy, cx, 5:] = np.eye(KINDS)[kind]
            boxes.append((kind, x0, y0, x0 + w, y0 + h))
        truth.append(boxes)
    return x, target, truth


def overlap(a, b):
    w = min(a[2], b[2]) - max(a[0], b[0])
    h = min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    inter = w * h
    return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter)


def suppress(dets, limit=0.5):
    kept = []
    for d in sorted(dets, key=lambda d: -d[0]):
        if all(d[1] != k[1] or overlap(d[2:], k[2:]) < limit for k in kept):
            kept.append(d)
    return kept


class AveragePrecision(tf.keras.callbacks.Callback):
    def __init__(self, x, truth, every=1):
        super().__init__()
        self.x, self.truth, self.every = x, truth, every

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every:
            return
        grid = np.asarray(self.model(self.x, training=False))
        scores = []
        for level in np.arange(0.5, 1.0, 0.05):
            hits, total = [], 0
            for cells, boxes in zip(grid, self.truth):
                dets = []
                for c in cells.reshape(-1, 5 + KINDS):
                    x0, y0 = c[1] * SIDE, c[2] * SIDE
                    dets.append((float(c[0]), int(np.argmax(c[5:])), x0, y0, x0 + c[3] * SIDE, y0 + c[4] * SIDE))
                total += len(boxes)
                for d in suppress(dets):
                    hits.append((d[0], any(b[0] == d[1] and overlap(d[2:], b[1:]) > level for b in boxes)))
            hits.sort(key=lambda h: -h[0])
            right = np.cumsum([h[1] for h in hits])
            scores.append(np.mean(right / np.arange(1, len(right) + 1)) if total else 0.0)
        print("epoch %d  AP %.4f" % (epoch + 1, np.mean(scores)))


def detector():
    inp = tf.keras.Input((SIDE, SIDE, 3))
    h = inp
    for filters in (16, 32, 48):
        h = tf.keras.layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(h)
    h = tf.keras.layers.Conv2D(64, 3, padding="same", activation="relu")(h)
    return tf.keras.Model(inp, tf.keras.layers.Conv2D(5 + KINDS, 1, activation="sigmoid")(h))


def cell_loss(y, p):
    there = y[..., :1]
    score = tf.keras.losses.binary_crossentropy(there, p[..., :1])
    rest = tf.reduce_sum(there * tf.square(y[..., 1:] - p[..., 1:]), axis=-1)
    return score + 2.0 * rest


tf.keras.utils.set_random_seed(264)
x, y, _ = scenes(800, 264)
x_held, _, truth = scenes(300, 265)
model = detector()
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss=cell_loss)
t0 = time.time()
model.fit(x, y, batch_size=32, epochs=8, verbose=2, callbacks=[AveragePrecision(x_held, truth)])
print("train time: %.2f s" % (time.time() - t0))
