# distill a wide tabular network into a small one, soft targets from the teacher
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time
import numpy as np
import keras
from keras import layers

BATCH, EPOCHS, T, ALPHA = 128, 14, 3.0, 0.3
rng = np.random.default_rng(99)
x = rng.normal(size=(12800, 64)).astype("float32")
y = np.argmax(x[:, :8] + 0.4 * rng.normal(size=(12800, 8)), axis=1)


def mlp(*widths):
    m = keras.Sequential([keras.Input((64,))])
    for w in widths:
        m.add(layers.Dense(w, activation="relu"))
    m.add(layers.Dense(8))
    return m


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


teacher = mlp(512, 512)
teacher.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
teacher.fit(x[:2560], y[:2560], batch_size=256, epochs=1, verbose=0)

student = mlp(48)
student.compile("adam", keras.losses.CategoricalCrossentropy(from_logits=True), metrics=["accuracy"])

onehot = np.eye(8, dtype="float32")[y]
t0 = time.time()
soft_all = softmax(teacher.predict(x, batch_size=512, verbose=0) / T)
for epoch in range(EPOCHS):
    order = rng.permutation(len(x))
    for s in range(0, len(x), BATCH):
        idx = order[s:s + BATCH]
        soft = soft_all[idx]
        target = ALPHA * onehot[idx] + (1 - ALPHA) * soft
        loss, acc = student.train_on_batch(x[idx], target)
    print("epoch %d loss %.4f acc %.4f" % (epoch, loss, acc))
print("train time: %.2f s" % (time.time() - t0))
