"""Reports of a training for people who look at it later."""

import json
import pathlib

import keras


class WeightDiary(keras.callbacks.Callback):
    """Writes all weights as text, so that they can be diffed."""

    def __init__(self, folder):
        super().__init__()
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)

    def describe(self, layer):
        return {"name": layer.name, "weights": [[round(float(v), 5) for v in w.ravel()] for w in layer.get_weights()]}

    def on_epoch_end(self, epoch, logs=None):
        pages = [self.describe(layer) for layer in self.model.layers]
        (self.folder / ("epoch%03d.json" % epoch)).write_text(json.dumps({"logs": {k: float(v) for k, v in logs.items()}, "layers": pages}))
