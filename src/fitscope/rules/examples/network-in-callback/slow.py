import time
import keras, numpy as np

x = np.random.default_rng(0).random((3200, 16)).astype("float32")
y = x[:, :1].copy()
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")

import http.server, threading, urllib.request

class Tracker(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.01)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tracker)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_address[1]}/"

class Track(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        urllib.request.urlopen(address, data=str(logs).encode()).read()

model.fit(x, y, batch_size=32, epochs=2, verbose=0, callbacks=[Track()])
server.shutdown()
