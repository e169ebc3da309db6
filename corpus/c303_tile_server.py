import os
os.environ["KERAS_BACKEND"] = "jax"
import math
import socket
import socketserver
import struct
import threading
import time
import zlib

import numpy as np
import keras
from keras import layers

SIDE = 40


class TileHandler(socketserver.BaseRequestHandler):
    """Stands for the archive in the other building."""

    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            ask = self.request.recv(4)
            if len(ask) < 4:
                return
            time.sleep(0.003)
            body = self.server.tiles[struct.unpack("<I", ask)[0]]
            self.request.sendall(struct.pack("<I", len(body)) + body)


class TileServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


def start_archive(n, seed=303):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    server = TileServer(("127.0.0.1", 0), TileHandler)
    server.tiles = []
    for label in labels:
        tile = rng.integers(0, 120, (SIDE, SIDE, 4), dtype=np.uint8)
        tile[..., label] += 60
        server.tiles.append(zlib.compress(tile.tobytes(), 1))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address, labels


class Archive:
    def __init__(self, address):
        self.address = address
        self.local = threading.local()

    def connection(self):
        if not hasattr(self.local, "sock"):
            self.local.sock = socket.create_connection(self.address)
            self.local.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.local.sock

    def receive(self, sock, n):
        parts = b""
        while len(parts) < n:
            parts += sock.recv(n - len(parts))
        return parts

    def tile(self, number):
        sock = self.connection()
        sock.sendall(struct.pack("<I", int(number)))
        size = struct.unpack("<I", self.receive(sock, 4))[0]
        raw = zlib.decompress(self.receive(sock, size))
        return np.frombuffer(raw, np.uint8).reshape(SIDE, SIDE, 4)


class Tiles(keras.utils.PyDataset):
    def __init__(self, archive, labels, batch_size=16, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.archive = archive
        self.labels = labels
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return math.floor(len(self.labels) / self.batch_size)

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.labels))

    def __getitem__(self, i):
        chosen = self.order[i * self.batch_size:(i + 1) * self.batch_size]
        x = np.stack([self.archive.tile(n) for n in chosen]).astype("float32") / 255.0
        return x, self.labels[chosen]


def landcover(filters=24):
    return keras.Sequential([
        keras.Input((SIDE, SIDE, 4)),
        layers.Conv2D(filters, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(2 * filters, 3, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(4, activation="softmax"),
    ])


def make_loader(address, labels):
    return Tiles(Archive(address), labels)


def main():
    address, labels = start_archive(1280)
    model = landcover()
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    loader = make_loader(address, labels)
    t0 = time.time()
    model.fit(loader, epochs=3, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
