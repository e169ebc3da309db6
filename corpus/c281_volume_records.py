import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import glob
import tempfile
import time

import numpy as np
import tensorflow as tf
from keras import Input, Model
from keras.layers import BatchNormalization, Conv3D, Dense, Dropout, GlobalAveragePooling3D

DEPTH, HEIGHT, WIDTH = 24, 32, 32
BATCH = 16
N_FILES, PER_FILE = 4, 100
record_dir = tempfile.mkdtemp()
np.random.seed(43585)


# ---------------------------------------------------------------- records
def _bytes(v):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[v]))


def _int(v):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[v]))


for f in range(N_FILES):
    with tf.io.TFRecordWriter(os.path.join(record_dir, "train_%d.tfrecord" % f)) as w:
        for k in range(PER_FILE):
            label = k % 2
            vol = np.random.rand(DEPTH, HEIGHT, WIDTH).astype("float32") * (0.8 + 0.2 * label)
            feats = {"vol": _bytes(vol.tobytes()), "label": _int(label)}
            w.write(tf.train.Example(features=tf.train.Features(feature=feats)).SerializeToString())


# ------------------------------------------------------------ augmentation
def rotate_slice(sl, angle):
    c, s = np.cos(angle), np.sin(angle)
    yy, xx = np.meshgrid(np.arange(HEIGHT), np.arange(WIDTH), indexing="ij")
    yy = yy - HEIGHT / 2
    xx = xx - WIDTH / 2
    src_y = np.clip(np.round(c * yy - s * xx + HEIGHT / 2), 0, HEIGHT - 1).astype(int)
    src_x = np.clip(np.round(s * yy + c * xx + WIDTH / 2), 0, WIDTH - 1).astype(int)
    return sl[src_y, src_x]


def augment_np(vol):
    angle = np.random.uniform(-0.25, 0.25)
    out = np.empty_like(vol)
    for z in range(vol.shape[0]):
        out[z] = rotate_slice(vol[z], angle)
    if np.random.rand() < 0.5:
        out = out[:, :, ::-1]
    gamma = np.random.uniform(0.8, 1.2)
    out = np.power(np.clip(out, 1e-4, 1.0), gamma)
    out = out + np.random.normal(0, 0.02, out.shape)
    return out.astype("float32")


@tf.function
def tf_augment(vol, label):
    vol = tf.numpy_function(augment_np, [vol], tf.float32)
    vol.set_shape((DEPTH, HEIGHT, WIDTH))
    return vol[..., tf.newaxis], label


def decode(serialized):
    ex = tf.io.parse_single_example(serialized, {
        "vol": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    vol = tf.reshape(tf.io.decode_raw(ex["vol"], tf.float32), (DEPTH, HEIGHT, WIDTH))
    return vol, ex["label"]


def input_fn(filenames, batch_size, buffer_size=400, data_augmentation=True):
    ds = tf.data.TFRecordDataset(filenames)
    ds = ds.shuffle(buffer_size)
    ds = ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    if data_augmentation:
        ds = ds.map(tf_augment, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch_size)
    return ds.prefetch(tf.data.AUTOTUNE)


def build_model():
    inputs = Input((DEPTH, HEIGHT, WIDTH, 1))
    x = Conv3D(8, 3, strides=2, activation="relu")(inputs)
    x = BatchNormalization()(x)
    x = Conv3D(16, 3, strides=2, activation="relu")(x)
    x = GlobalAveragePooling3D()(x)
    x = Dropout(0.3)(x)
    return Model(inputs, Dense(1, activation="sigmoid")(x), name="3dcnn")


train_ds = input_fn(sorted(glob.glob(os.path.join(record_dir, "*.tfrecord"))), BATCH)
model = build_model()
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["acc"])
begin = time.time()
model.fit(train_ds, epochs=7, verbose=2)
print("train time: %.2f s" % (time.time() - begin))
