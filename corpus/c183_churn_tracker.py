"""Churn model for the subscription team.

usage: python churn.py --epochs 5 --batch-size 256
Runs are tracked in the team's experiment server (started here on localhost).
"""
import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import asdict, dataclass

import keras
import numpy as np
from keras import layers

SERVER_SOURCE = r'''
import json, sqlite3, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

db = sqlite3.connect(sys.argv[2])
db.execute("PRAGMA synchronous=FULL")
db.execute("CREATE TABLE metric (run TEXT, step INTEGER, name TEXT, value REAL)")
db.execute("CREATE TABLE board (run TEXT PRIMARY KEY, curves TEXT)")
db.execute("CREATE INDEX by_run ON metric (run, name)")
db.commit()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer({"ok": True})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        rows = [(body["run"], r["step"], k, v) for r in body["records"] for k, v in r["values"].items()]
        db.executemany("INSERT INTO metric VALUES (?, ?, ?, ?)", rows)
        db.commit()
        summary = db.execute(
            "SELECT name, COUNT(*), AVG(value), MIN(value), MAX(value) FROM metric WHERE run = ? GROUP BY name",
            (body["run"],)).fetchall()
        curves, smooth = {}, {}
        for name, step, value in db.execute("SELECT name, step, value FROM metric WHERE run = ? ORDER BY step", (body["run"],)):
            smooth[name] = 0.97 * smooth.get(name, value) + 0.03 * value
            curves.setdefault(name, []).append((step, value, round(smooth[name], 6)))
        db.execute("INSERT OR REPLACE INTO board VALUES (?, ?)", (body["run"], json.dumps(curves)))
        db.commit()
        self.answer({"summary": summary, "recent": {k: c[-200:] for k, c in curves.items()}})

    def answer(self, obj):
        data = json.dumps(obj).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''


@dataclass
class Config:
    rows: int = 51200
    features: int = 96
    hidden: int = 320
    lr: float = 1e-3
    epochs: int = 5
    batch_size: int = 256


def start_server(folder):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    source = os.path.join(folder, "tracking_server.py")
    with open(source, "w") as f:
        f.write(SERVER_SOURCE)
    proc = subprocess.Popen([sys.executable, source, str(port), os.path.join(folder, "runs.db")])
    url = f"http://127.0.0.1:{port}/"
    for _ in range(100):
        try:
            urllib.request.urlopen(url, timeout=5).read()
            return proc, url
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("tracking server did not come up")


class Tracker(keras.callbacks.Callback):
    def __init__(self, url, run):
        super().__init__()
        self.url = url
        self.run = run
        self.step = 0

    def send(self, records):
        body = json.dumps({"run": self.run, "records": records}).encode()
        req = urllib.request.Request(self.url, data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(req, timeout=30) as r:
            self.board = json.loads(r.read())

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        values = {k: float(v) for k, v in (logs or {}).items()}
        self.send([{"step": self.step, "values": values}])


def make_table(cfg):
    rng = np.random.default_rng(11)
    x = rng.normal(size=(cfg.rows, cfg.features)).astype("float32")
    w = rng.normal(size=(cfg.features,)) / np.sqrt(cfg.features)
    logit = 2 * (x @ w) + x[:, 0] * x[:, 1] - 0.5 * x[:, 2] ** 2
    y = (rng.random(cfg.rows) < 1 / (1 + np.exp(-logit))).astype("float32")
    return x, y


def make_model(cfg):
    inp = keras.Input((cfg.features,), name="customer")
    h = inp
    for i in range(3):
        h = layers.Dense(cfg.hidden, activation="gelu", name=f"dense_{i}")(h)
        h = layers.Dropout(0.1)(h)
    out = layers.Dense(1, activation="sigmoid", name="churn")(h)
    model = keras.Model(inp, out)
    model.compile(optimizer=keras.optimizers.Adam(cfg.lr), loss="binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=Config.epochs)
    p.add_argument("--batch-size", type=int, default=Config.batch_size)
    a = p.parse_args()
    cfg = Config(epochs=a.epochs, batch_size=a.batch_size)
    keras.utils.set_random_seed(1)
    print(asdict(cfg))
    x, y = make_table(cfg)
    model = make_model(cfg)
    folder = tempfile.mkdtemp()
    proc, url = start_server(folder)
    try:
        t0 = time.time()
        model.fit(x, y, batch_size=cfg.batch_size, epochs=cfg.epochs, verbose=2, callbacks=[Tracker(url, "churn-a")])
        took = time.time() - t0
    finally:
        proc.terminate()
        proc.wait()
    print("train time: %.2f s" % took)


if __name__ == "__main__":
    main()
