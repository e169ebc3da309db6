# Surrogate for a negative binomial GLM: counts of G genes from cell covariates.
import os
os.environ["KERAS_BACKEND"] = "jax"
import time
import numpy as np
import keras
from keras import layers, ops

DTYPE = keras.config.floatx()

N_CELLS, N_COVARIATES, N_GENES = 6144, 96, 600


class NegativeBinomialHead(layers.Layer):
    """mean and dispersion of every gene, side by side"""

    def __init__(self, genes, **kwargs):
        super().__init__(**kwargs)
        self.loc = layers.Dense(genes)
        self.scale = layers.Dense(genes, kernel_initializer="zeros")

    def call(self, h):
        mu = ops.exp(ops.clip(self.loc(h), -6.0, 6.0))
        r = ops.exp(ops.clip(self.scale(h), -4.0, 4.0))
        return ops.concatenate([mu, r], axis=-1)


def nll(y_true, y_pred):
    mu, r = ops.split(y_pred, 2, axis=-1)
    # Gaussian approximation with the NB variance
    var = mu + mu * mu / r + 1e-3
    return ops.mean(0.5 * ops.log(var) + 0.5 * ops.square(y_true - mu) / var, axis=-1)


def simulate(seed=250):
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(N_CELLS, N_COVARIATES))
    coef = rng.normal(size=(N_COVARIATES, N_GENES)) * 0.08
    mean = np.exp(design @ coef + 0.5)
    counts = rng.poisson(mean * rng.gamma(4.0, 0.25, size=mean.shape))
    return design.astype(DTYPE), counts.astype(DTYPE)


def make_estimator():
    inputs = keras.Input((N_COVARIATES,))
    h = inputs
    for width in (768, 768, 768):
        h = layers.Dense(width, activation="tanh")(h)
    model = keras.Model(inputs, NegativeBinomialHead(N_GENES)(h))
    model.compile(optimizer=keras.optimizers.Adam(3e-4), loss=nll)
    return model


keras.utils.set_random_seed(250)
design, counts = simulate()
estimator = make_estimator()
estimator.summary()
start = time.time()
history = estimator.fit(design, counts, batch_size=256, epochs=10, verbose=2)
print("final nll: %.4f" % history.history["loss"][-1])
print("train time: %.2f s" % (time.time() - start))
