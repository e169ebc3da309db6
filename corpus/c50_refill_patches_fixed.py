import argparse
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf
from keras import layers


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--buffer", type=int, default=320)
    p.add_argument("--images", type=int, default=400)
    return p.parse_args()


def write_records(path, n):
    rng = np.random.default_rng(50)
    with tf.io.TFRecordWriter(path) as w:
        for i in range(n):
            img = rng.integers(0, 255, (96, 96, 3), dtype=np.uint8)
            feature = {
                "img": tf.train.Feature(bytes_list=tf.train.BytesList(value=[tf.io.encode_png(img).numpy()])),
                "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 5])),
            }
            w.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def annotation(label):
    time.sleep(0.01)  # the label server
    return label


def decode(record):
    f = tf.io.parse_single_example(record, {"img": tf.io.FixedLenFeature([], tf.string),
                                            "y": tf.io.FixedLenFeature([], tf.int64)})
    img = tf.image.convert_image_dtype(tf.io.decode_png(f["img"], 3), tf.float32)
    img = tf.image.random_flip_left_right(tf.ensure_shape(img, (96, 96, 3)))
    return img, tf.ensure_shape(tf.numpy_function(annotation, [f["y"]], tf.int64), ())


def make_dataset(path, args):
    ds = tf.data.TFRecordDataset(path)
    ds = ds.shuffle(args.buffer)
    ds = ds.map(decode, num_parallel_calls=8)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 8
    return ds.batch(args.batch_size).prefetch(tf.data.AUTOTUNE).with_options(options)


def main():
    args = parse_args()
    path = os.path.join(tempfile.mkdtemp(), "train.tfrecord")
    write_records(path, args.images)
    inp = keras.Input((96, 96, 3))
    x = layers.Conv2D(16, 5, strides=2, activation="relu")(inp)
    x = layers.Conv2D(32, 3, activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inp, layers.Dense(5, activation="softmax")(x))
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(make_dataset(path, args), epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()
