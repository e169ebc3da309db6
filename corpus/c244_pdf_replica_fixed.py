"""Fit of one replica: the whole data set is a single input of shape (1, n_x, 2)."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import numpy as np
import keras
from keras import layers, ops

from lib_fitutils_fixed import Report, StepHistory

N_X = 200
N_DATA = 2000
FLAVOURS = 8
BLOCK = 100


class Convolve(layers.Layer):
    """Fast-kernel table: observables from the PDF on the grid."""

    def __init__(self, table, **kwargs):
        super().__init__(**kwargs)
        self.table = ops.convert_to_tensor(table)

    def call(self, pdf):
        return ops.einsum("bxf,dxf->bd", pdf, self.table)


def grid():
    x = np.geomspace(1e-4, 1.0, N_X)
    return np.stack([x, np.log(x)], axis=-1)[None].astype("float32")


def experiment(seed):
    rng = np.random.default_rng(seed)
    table = (rng.random((N_DATA, N_X, FLAVOURS)) / (N_X * FLAVOURS)).astype("float32")
    data = rng.normal(0.4, 0.05, (1, N_DATA)).astype("float32")
    return table, data


def replica_model(table):
    xgrid = keras.Input((N_X, 2))
    h = layers.Dense(25, activation="tanh")(xgrid)
    h = layers.Dense(20, activation="tanh")(h)
    pdf = layers.Dense(FLAVOURS)(h)
    return keras.Model(xgrid, Convolve(table)(pdf))


def perform_fit(n_passes=900):
    table, data = experiment(244)
    model = replica_model(table)
    model.compile(optimizer=keras.optimizers.Nadam(2e-3, clipnorm=1.0), loss="mse")
    history = StepHistory()
    x = np.repeat(grid(), BLOCK, axis=0)
    y = np.repeat(data, BLOCK, axis=0)
    model.fit(x, y, epochs=n_passes // BLOCK, batch_size=1, shuffle=False, verbose=0,
              callbacks=[history, Report(BLOCK)])
    return history


if __name__ == "__main__":
    begin = time.time()
    h = perform_fit()
    elapsed = time.time() - begin
    print("final chi2 %.5f" % h.chi2[-1])
    print("train time: %.2f s" % elapsed)
