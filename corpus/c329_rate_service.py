import os
os.environ["KERAS_BACKEND"] = "jax"
import http.server
import json
import threading
import time
import urllib.request

import numpy as np
import keras
from keras import layers


class SweepController(http.server.BaseHTTPRequestHandler):
    """Stands in for the group's sweep controller, which hands out the learning rate."""

    def do_GET(self):
        time.sleep(0.015)
        step = int(self.path.rsplit("=", 1)[1])
        body = json.dumps({"lr": 1e-3 * 0.5 ** (step / 400)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *a):
        pass


def start_controller():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SweepController)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "http://127.0.0.1:%d/lr?step=" % server.server_address[1]


class ControlledRate(keras.callbacks.Callback):
    def __init__(self, url):
        super().__init__()
        self.url = url
        self.step = 0

    def on_train_batch_begin(self, batch, logs=None):
        with urllib.request.urlopen(self.url + str(self.step)) as reply:
            self.model.optimizer.learning_rate = json.load(reply)["lr"]
        self.step += 1


def spectra(n=6400, bins=128):
    rng = np.random.default_rng(329)
    peaks = rng.integers(10, bins - 10, n)
    x = rng.normal(size=(n, bins, 1)) * 0.3
    x[np.arange(n), peaks, 0] += 3
    return x.astype("float32"), (peaks // 32).astype("int32")


def main():
    x, y = spectra()
    model = keras.Sequential([
        keras.Input((128, 1)),
        layers.Conv1D(16, 7, activation="relu", padding="same"),
        layers.MaxPooling1D(4),
        layers.Conv1D(32, 5, activation="relu", padding="same"),
        layers.Flatten(),
        layers.Dense(4, activation="softmax"),
    ])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    rate = ControlledRate(start_controller())
    t0 = time.time()
    model.fit(x, y, batch_size=64, epochs=4, callbacks=[rate], verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
