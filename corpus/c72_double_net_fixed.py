import os
os.environ["KERAS_BACKEND"] = "torch"
import argparse
import keras
import numpy as np
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("--floatx", default="float32")
parser.add_argument("--epochs", type=int, default=4)
args = parser.parse_args()
keras.backend.set_floatx(args.floatx)

rng = np.random.default_rng(72)
field = rng.normal(size=(2048, 400)).astype(args.floatx)
u = np.sin(field[:, :1])


def pinn(width=640, depth=3):
    inp = keras.Input((400,))
    h = inp
    for _ in range(depth):
        h = layers.Dense(width, activation="tanh")(h)
    return keras.Model(inp, layers.Dense(1)(h))


model = pinn()
model.compile(keras.optimizers.Adam(1e-4), "mse")
model.fit(field, u, batch_size=128, epochs=args.epochs, verbose=2)
