import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch
from keras import layers

rng = np.random.default_rng(127)
sensors = rng.normal(size=(800, 36, 10)).astype("float32")
wear = sensors.mean(axis=(1, 2))[:, None]


class Encoder(layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.drop = layers.Dropout(0.1)
        self.cells = layers.TorchModuleWrapper(torch.nn.LSTM(10, units, num_layers=2, batch_first=True))

    def call(self, x, training=None):
        sequence, _ = self.cells(self.drop(x, training=training))
        return sequence[:, -1]


class WearModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(48)
        self.head = layers.Dense(1)

    def call(self, x):
        return self.head(self.encoder(x))


model = WearModel()
model.compile("adam", "mse")
model.fit(sensors, wear, batch_size=50, epochs=3, verbose=2)
