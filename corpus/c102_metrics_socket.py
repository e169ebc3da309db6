import os
os.environ["KERAS_BACKEND"] = "torch"
import multiprocessing
import socket
import socketserver
import time

import keras
import numpy as np


class Carbon(socketserver.StreamRequestHandler):
    """A stand-in for a collector of metrics on another machine."""

    def handle(self):
        for line in self.rfile:
            if not line.strip():
                time.sleep(0.015)
                self.wfile.write(b"stored\n")
                return


def collector(pipe):
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Carbon)
    pipe.send(server.server_address[1])
    server.serve_forever()


class Graphite(keras.callbacks.Callback):
    def __init__(self, port, prefix):
        super().__init__()
        self.port, self.prefix = port, prefix

    def send(self, lines):
        with socket.create_connection(("127.0.0.1", self.port)) as sock:
            sock.sendall("\n".join(lines).encode() + b"\n\n")
            sock.recv(16)

    def on_train_batch_end(self, batch, logs=None):
        now = int(time.time())
        self.send(["%s.%s %f %d" % (self.prefix, k, v, now) for k, v in logs.items()])


def main():
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=collector, args=(theirs,), daemon=True)
    process.start()
    port = ours.recv()
    rng = np.random.default_rng(102)
    x = rng.random((4800, 24, 24, 1)).astype("float32")
    y = rng.integers(0, 4, 4800)
    model = keras.Sequential([
        keras.Input((24, 24, 1)),
        keras.layers.Conv2D(24, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(4),
    ])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    start = time.time()
    model.fit(x, y, batch_size=32, epochs=3, verbose=2, callbacks=[Graphite(port, "train.mnist")])
    print("train time: %.1f s" % (time.time() - start))
    process.terminate()


if __name__ == "__main__":
    main()
