import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import json
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import keras
from keras.layers import Conv1D, Dense, Dropout, GlobalAveragePooling1D, Input, MaxPooling1D

np.random.seed(22)
keras.utils.set_random_seed(22)

DATA = tempfile.mkdtemp(prefix="features_")
N_FILES, FRAMES, DIM, N_CLASSES = 800, 120, 40, 6


def fake_data():
    ids = []
    for i in range(N_FILES):
        label = np.random.randint(N_CLASSES)
        feat = np.random.randn(FRAMES, DIM).astype("float32")
        feat[:, label * 5:label * 5 + 5] += 0.4
        name = "utt_%05d" % i
        np.save(os.path.join(DATA, name + ".npy"), feat)
        with open(os.path.join(DATA, name + ".json"), "w") as f:
            json.dump({"id": name, "speaker": i % 17, "label": int(label)}, f)
        ids.append(name)
    return ids


def share_open(path, mode):
    # The features live on our group's NFS share, where every open() takes about this long
    # (strace -T).  On a local disk the sleep reproduces it.
    time.sleep(0.0025)
    return open(path, mode)


def load_one(ID):
    with share_open(os.path.join(DATA, ID + ".npy"), "rb") as f:
        feat = np.load(f)
    with share_open(os.path.join(DATA, ID + ".json"), "r") as f:
        label = json.load(f)["label"]
    return feat, label


class DataGenerator(keras.utils.Sequence):
    'Generates data for Keras'
    def __init__(self, list_IDs, batch_size=16, dim=(FRAMES, DIM), n_classes=N_CLASSES, shuffle=True, **kwargs):
        'Initialization'
        super().__init__(**kwargs)
        self.dim = dim
        self.batch_size = batch_size
        self.list_IDs = list_IDs
        self.n_classes = n_classes
        self.shuffle = shuffle
        with ThreadPoolExecutor(16) as pool:  # read every file once, many at a time; it all fits into RAM
            self.data = dict(zip(list_IDs, pool.map(load_one, list_IDs)))
        self.on_epoch_end()

    def __len__(self):
        'Denotes the number of batches per epoch'
        return int(np.floor(len(self.list_IDs) / self.batch_size))

    def __getitem__(self, index):
        'Generate one batch of data'
        indexes = self.indexes[index * self.batch_size:(index + 1) * self.batch_size]
        list_IDs_temp = [self.list_IDs[k] for k in indexes]
        return self.__data_generation(list_IDs_temp)

    def on_epoch_end(self):
        'Updates indexes after each epoch'
        self.indexes = np.arange(len(self.list_IDs))
        if self.shuffle:
            np.random.shuffle(self.indexes)

    def __data_generation(self, list_IDs_temp):
        'Generates data containing batch_size samples'
        X = np.empty((self.batch_size, *self.dim), dtype="float32")
        y = np.empty((self.batch_size), dtype=int)
        for i, ID in enumerate(list_IDs_temp):
            X[i,], y[i] = self.data[ID]
        return X, keras.utils.to_categorical(y, num_classes=self.n_classes)


IDs = fake_data()

model = keras.Sequential()
model.add(Input((FRAMES, DIM)))
model.add(Conv1D(64, 5, activation="relu"))
model.add(MaxPooling1D(2))
model.add(Conv1D(96, 5, activation="relu"))
model.add(GlobalAveragePooling1D())
model.add(Dropout(0.3))
model.add(Dense(N_CLASSES, activation="softmax"))
model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])

t_start = time.time()
training_generator = DataGenerator(IDs)
model.fit(training_generator, epochs=3, verbose=2)
print("train time: %.2f s" % (time.time() - t_start))
shutil.rmtree(DATA)
