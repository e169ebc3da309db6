import os
os.environ["KERAS_BACKEND"] = "jax"
import http.server
import threading
import time
import urllib.parse
import urllib.request

import numpy as np
import keras
from keras import layers

# --- stand-in for the hospital's image archive: it cuts the region out on its side
PATCH = 48
_archive = np.random.default_rng(1).integers(0, 255, (8, 256, 256), dtype=np.uint8)


class Archive(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        q = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
        study, top, left = (int(q[k][0]) for k in ("study", "top", "left"))
        time.sleep(0.012)  # ping to the archive
        body = _archive[study % 8, top:top + PATCH, left:left + PATCH].tobytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *a):
        pass


http.server.ThreadingHTTPServer.request_queue_size = 128
_srv = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Archive)
threading.Thread(target=_srv.serve_forever, daemon=True).start()
BASE_URL = "http://127.0.0.1:%d/wado?" % _srv.server_address[1]


class XRayPatchGenerator(keras.utils.PyDataset):
    """Random patches of the studies, new ones in every epoch."""

    def __init__(self, studies, labels, batch_size=16, steps=24, **kwargs):
        super().__init__(**kwargs)
        self.studies, self.labels = studies, labels
        self.batch_size, self.steps = batch_size, steps
        self.epoch = 0

    def __len__(self):
        return self.steps

    def read_patch(self, study, top, left):
        url = BASE_URL + urllib.parse.urlencode({"study": study, "top": top, "left": left})
        with urllib.request.urlopen(url) as r:
            return np.frombuffer(r.read(), np.uint8).reshape(PATCH, PATCH)

    def __getitem__(self, index):
        rng = np.random.default_rng((self.epoch, index))
        X = np.empty((self.batch_size, PATCH, PATCH, 1), "float32")
        y = np.empty((self.batch_size,), "int32")
        for i in range(self.batch_size):
            k = rng.integers(len(self.studies))
            top, left = rng.integers(0, 256 - PATCH, 2)
            X[i, ..., 0] = self.read_patch(self.studies[k], top, left) / 255.0
            y[i] = self.labels[k]
        return X, y

    def on_epoch_end(self):
        self.epoch += 1


def get_model():
    return keras.Sequential([
        keras.Input((PATCH, PATCH, 1)),
        layers.Conv2D(8, 5, strides=2, activation="relu"),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.GlobalMaxPooling2D(),
        layers.Dense(3, activation="softmax"),
    ])


if __name__ == "__main__":
    keras.utils.set_random_seed(6)
    studies = np.arange(400)
    labels = np.random.default_rng(2).integers(0, 3, 400)
    train_gen = XRayPatchGenerator(studies, labels, workers=8, max_queue_size=16)
    model = get_model()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    t = time.time()
    model.fit(train_gen, epochs=3, verbose=2)
    print("train time: %.2f s" % (time.time() - t))
