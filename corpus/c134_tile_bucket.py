"""Land cover from tiles kept in an object store (here: a small server on this machine with the latency of one)."""
import http.server
import io
import os
import threading
import time
import urllib.request

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from keras import layers

N_TILES, SIZE, CLASSES = 480, 32, 5
LATENCY = 0.008


class Bucket(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(LATENCY)
        i = int(self.path.rsplit("/", 1)[1])
        rng = np.random.default_rng(i)
        tile = rng.integers(0, 255, (SIZE, SIZE, 4), dtype=np.uint8)
        body = io.BytesIO()
        np.save(body, tile)
        body = body.getvalue()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class TileSequence(keras.utils.PyDataset):
    def __init__(self, base_url, ids, labels, batch_size=16, **kwargs):
        super().__init__(**kwargs)
        self.base_url, self.ids, self.labels, self.batch_size = base_url, ids, labels, batch_size

    def __len__(self):
        return len(self.ids) // self.batch_size

    def fetch(self, i):
        with urllib.request.urlopen("%s/tiles/%d" % (self.base_url, i)) as r:
            return np.load(io.BytesIO(r.read()))

    def __getitem__(self, k):
        sl = slice(k * self.batch_size, (k + 1) * self.batch_size)
        x = np.stack([self.fetch(i) for i in self.ids[sl]]).astype("float32") / 255.0
        return x, self.labels[sl]


def build():
    return keras.Sequential([
        keras.Input((SIZE, SIZE, 4)),
        layers.Conv2D(16, 3, activation="relu", padding="same"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu", padding="same"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(CLASSES, activation="softmax"),
    ])


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = "http://127.0.0.1:%d" % server.server_port

ids = np.arange(N_TILES)
labels = np.random.default_rng(0).integers(0, CLASSES, N_TILES)
train = TileSequence(url, ids, labels)
model = build()
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(train, epochs=2, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
server.shutdown()
