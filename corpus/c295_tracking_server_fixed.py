import os
os.environ["KERAS_BACKEND"] = "jax"
import atexit
import json
import subprocess
import sys
import time
import urllib.request

import numpy as np
import keras
from keras import layers

# ---------------------------------------------------------------- stand-in for our tracking server
SERVER = r'''
import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.012)      # round trip to the other building + database
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
'''
proc = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
atexit.register(proc.terminate)
TRACKING_URI = "http://127.0.0.1:%d/api/2.0/" % int(proc.stdout.readline())


# ---------------------------------------------------------------- client
class TrackingClient:
    def __init__(self, uri, run_id):
        self.uri = uri
        self.run_id = run_id

    def _call_endpoint(self, name, body):
        body["run_id"] = self.run_id
        req = urllib.request.Request(self.uri + name, data=json.dumps(body).encode(),
                                     headers={"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(req, timeout=10) as response:
            return json.loads(response.read())

    def log_metric(self, key, value, step):
        self._call_endpoint("runs/log-metric", {"key": key, "value": value, "step": step})

    def log_batch(self, metrics):
        self._call_endpoint("runs/log-batch", {"metrics": metrics})


class ExperimentLogger(keras.callbacks.Callback):
    def __init__(self, client):
        super().__init__()
        self.client = client

    def on_epoch_end(self, epoch, logs=None):
        # one request for an epoch
        metrics = [{"key": "train/" + k, "value": float(v), "step": epoch} for k, v in logs.items()]
        self.client.log_batch(metrics)


# ---------------------------------------------------------------- training
keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
x = rng.normal(size=(25600, 64)).astype("float32")
w = rng.normal(size=(64, 1))
y = (np.tanh(x @ w) + 0.1 * rng.normal(size=(25600, 1))).astype("float32")

model = keras.Sequential([
    keras.Input((64,)),
    layers.Dense(768, activation="relu"),
    layers.Dense(768, activation="relu"),
    layers.Dense(1),
])
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])

logger = ExperimentLogger(TrackingClient(TRACKING_URI, "run-%d" % 1550))
t0 = time.time()
model.fit(x, y, batch_size=256, epochs=3, callbacks=[logger], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
