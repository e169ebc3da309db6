import os, glob, time, tempfile
import numpy as np
from scipy import signal
import keras
from keras import layers as L

FS_RAW, FS = 500, 125
SECONDS, LEADS, CLASSES = 10, 8, 5
BATCH = 32
EPOCHS = 7


def write_records(folder, n=320, seed=3):
    rng = np.random.default_rng(seed)
    t = np.arange(SECONDS * FS_RAW) / FS_RAW
    for i in range(n):
        label = int(rng.integers(CLASSES))
        rate = 0.8 + 0.12 * label + 0.06 * rng.standard_normal()
        beats = np.exp(-0.5 * (((t * rate) % 1 - 0.4) / 0.02) ** 2)
        wander = 0.6 * np.sin(2 * np.pi * 0.25 * t + rng.uniform(0, 6))
        gains = rng.uniform(0.5, 1.5, (LEADS, 1))
        x = gains * beats + wander + 0.05 * rng.standard_normal((LEADS, t.size))
        np.save(os.path.join(folder, f"rec{i:04d}_{label}.npy"), (x * 1000).astype(np.int16))


def read_record(path):
    label = int(path.rsplit("_", 1)[1][0])
    raw = np.load(path).astype("float64") / 1000.0
    sos = signal.butter(4, [0.5, 40], btype="band", fs=FS_RAW, output="sos")
    b, a = signal.iirnotch(50, 30, fs=FS_RAW)
    leads = []
    for lead in raw:
        lead = signal.sosfiltfilt(sos, lead)
        lead = signal.filtfilt(b, a, lead)
        lead = signal.resample_poly(lead, FS, FS_RAW)
        leads.append((lead - lead.mean()) / (lead.std() + 1e-6))
    return np.stack(leads, -1).astype("float32"), label


def batches(paths, batch_size, seed=0):
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(paths))
        for k in range(0, len(paths) - batch_size + 1, batch_size):
            items = [read_record(paths[j]) for j in order[k:k + batch_size]]
            yield np.stack([x for x, _ in items]), np.array([y for _, y in items])


def res_block(x, f, s):
    y = L.Conv1D(f, 7, strides=s, padding="same", use_bias=False)(x)
    y = L.BatchNormalization(momentum=0.9)(y)
    y = L.ReLU()(y)
    y = L.Conv1D(f, 7, padding="same", use_bias=False)(y)
    y = L.BatchNormalization(momentum=0.9)(y)
    x = L.Conv1D(f, 1, strides=s, padding="same")(x)
    return L.ReLU()(L.Add()([x, y]))


inp = keras.Input((SECONDS * FS, LEADS))
h = L.Conv1D(48, 9, strides=2, padding="same")(inp)
for f, s in [(64, 2), (96, 4), (128, 2)]:
    h = res_block(h, f, s)
h = L.GlobalAveragePooling1D()(h)
model = keras.Model(inp, L.Dense(CLASSES, activation="softmax")(h))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

with tempfile.TemporaryDirectory() as folder:
    write_records(folder)
    paths = sorted(glob.glob(os.path.join(folder, "*.npy")))
    start = time.time()
    model.fit(batches(paths, BATCH), steps_per_epoch=len(paths) // BATCH, epochs=EPOCHS, verbose=2)
    elapsed = time.time() - start
print(f"train time: {elapsed:.1f} s")
