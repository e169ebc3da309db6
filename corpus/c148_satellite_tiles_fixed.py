import io
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import keras
import numpy as np
from keras import layers

# --- stand-in for the tile server of the mapping team ---------------------------------------
N_TILES, BANDS, SIZE = 640, 4, 32


class TileHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        tile_id = int(self.path.rsplit("/", 1)[1])
        rng = np.random.default_rng(tile_id)
        tile = rng.random((SIZE, SIZE, BANDS)).astype("float32")
        tile[..., tile_id % BANDS] += 0.25
        buf = io.BytesIO()
        np.save(buf, tile)
        time.sleep(0.004)
        self.send_response(200)
        self.send_header("Content-Length", str(buf.tell()))
        self.end_headers()
        self.wfile.write(buf.getvalue())

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), TileHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
BASE = "http://127.0.0.1:%d/tiles" % server.server_address[1]


# --- training ---------------------------------------------------------------------------------
def get_tile(tile_id):
    with urllib.request.urlopen("%s/%d" % (BASE, tile_id)) as response:
        return np.load(io.BytesIO(response.read()))


class TileSequence(keras.utils.PyDataset):
    def __init__(self, ids, batch_size):
        super().__init__()
        self.ids = ids
        self.batch_size = batch_size
        with ThreadPoolExecutor(16) as pool:
            self.tiles = np.stack(list(pool.map(get_tile, ids)))

    def __len__(self):
        return len(self.ids) // self.batch_size

    def __getitem__(self, i):
        ids = self.ids[i * self.batch_size:(i + 1) * self.batch_size]
        return self.tiles[i * self.batch_size:(i + 1) * self.batch_size], np.array([t % BANDS for t in ids])


def land_cover_model():
    inputs = keras.Input((SIZE, SIZE, BANDS))
    x = layers.Conv2D(24, 3, padding="same", activation="relu")(inputs)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(48, 3, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(BANDS, activation="softmax")(x))


model = land_cover_model()
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
began = time.time()
sequence = TileSequence(list(range(N_TILES)), batch_size=32)
model.fit(sequence, epochs=5, verbose=2)
print("train time: %.2f s" % (time.time() - began))
