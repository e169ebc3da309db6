import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import queue
import threading
import time
import keras
import numpy as np
import tensorflow as tf
from keras import layers

READERS = 1
rng = np.random.default_rng(79)
page = rng.random((32, 50)).astype("float32")


def read_page(number):
    time.sleep(0.03)  # the database answers
    return page + number % 3


def pages():
    numbers, answers = iter(range(70)), queue.Queue(8)

    def reader():
        for number in numbers:
            answers.put(read_page(number))

    lock = threading.Lock()
    class Shared:
        def __iter__(self):
            return self
        def __next__(self):
            with lock:
                return next(numbers_source)
    numbers_source, numbers = numbers, Shared()
    for _ in range(READERS):
        threading.Thread(target=reader, daemon=True).start()
    for _ in range(70):
        rows = answers.get()
        yield rows[:, 1:], rows[:, :1]


ds = tf.data.Dataset.from_generator(pages, output_signature=(tf.TensorSpec((32, 49)), tf.TensorSpec((32, 1)))).prefetch(4)
model = keras.Sequential([keras.Input((49,)), layers.Dense(128, activation="relu"), layers.Dense(1)])
model.compile("adam", "mse")
model.fit(ds, epochs=3, verbose=2)
