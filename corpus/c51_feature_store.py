import os
os.environ["KERAS_BACKEND"] = "jax"
import http.client
import http.server
import threading
import time

import keras
import numpy as np
from keras import layers


class Store(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        time.sleep(0.025)
        body = np.random.default_rng(len(self.path)).random((64, 40)).astype("float32").tobytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
threading.Thread(target=server.serve_forever, daemon=True).start()
PORT = server.server_address[1]


class FeatureStore:
    def __init__(self, port):
        self.port = port

    def rows(self, key):
        conn = http.client.HTTPConnection("127.0.0.1", self.port)
        conn.request("GET", "/rows/%d" % key)
        raw = conn.getresponse().read()
        conn.close()
        return np.frombuffer(raw, "float32").reshape(64, 40)


class Features(keras.utils.PyDataset):
    def __init__(self, store, n, **kwargs):
        super().__init__(**kwargs)
        self.store, self.n = store, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rows = self.store.rows(i)
        return rows[:, :39], rows[:, 39:]


def main():
    model = keras.Sequential([keras.Input((39,)), layers.Dense(64, activation="relu"), layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(Features(FeatureStore(PORT), 60), epochs=4, verbose=2)
    server.shutdown()


main()
