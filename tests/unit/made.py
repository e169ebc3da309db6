"""What the unit tests are made of: a clock, a training without Keras, and runs written down by hand."""

import tempfile
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

from fitscope import store
from fitscope.model import Called, Node
from fitscope.observe.ledger import Place
from fitscope.observe.runfile import Sink

FOLDER = "/project"
LINE = Place(f"{FOLDER}/train.py", 40)


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self):
        self.now = 7_000_000_000

    def __call__(self):
        return self.now

    def passes(self, seconds):
        self.now += round(seconds * 1e9)


def header(**changes):
    return {
        "version": "0.0",
        "started": time.time(),
        "script": "train.py",
        "argv": ["--epochs", "1"],
        "cwd": FOLDER,
        **changes,
    }


def sink(path, **changes):
    return Sink(path, header(**changes), path.with_name("spare.run"))


def train(recorder, clock, *, steps=3, line=LINE):
    """One `fit` of whole seconds: each step waits 1 s for data and works for 2 s."""
    ledger = recorder.ledger()
    root = recorder.root(ledger, "fit", line)
    region = recorder.regions[root]
    region.calls += 1
    data, step = recorder.tree.node(root, "data", "arrays"), recorder.tree.node(root, "step", "step")
    for _ in range(steps):
        began = ledger.enter(data)
        clock.passes(1)
        ledger.enter(step)
        clock.passes(2)
        region.step(clock() - began)
    region.epochs += 1
    ledger.back(ledger.outside)
    return root


class Tree:
    """Nodes of a run, numbered as they are added; whole seconds, so that sums are exact."""

    def __init__(self):
        self.nodes = {}

    def add(self, parent, phase, name="", seconds=0.0, count=1, where=None, thread=0):
        number = len(self.nodes) + 1
        self.nodes[number] = Node(number, parent, phase, name or phase, where, thread, float(seconds), count)
        return number

    def region(self, call="fit", where=None, thread=1):
        return self.add(0, "region", call, count=0, where=where, thread=thread)

    def run(self, **changes):
        """A run with these nodes, each region called once; the rest as in a file without anything in it."""
        values = {
            "wall_seconds": sum(node.seconds for node in self.nodes.values()),
            "ended": "completed",
            "exit_code": 0,
            "backend": "jax",
            "versions": {"keras": "3.15.1"},
            "machine": {"cores": 2},
            "nodes": self.nodes,
            "called": {n.id: Called(1, 0, 0) for n in self.nodes.values() if n.phase == "region"},
        }
        return replace(_empty(), **{**values, **changes})


@cache
def _empty():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "empty.run")
        sink(path).close()
        return replace(store.read(path), path="")
