import os
os.environ["KERAS_BACKEND"] = "jax"
import argparse
import time
import numpy as np
import keras
from keras import layers


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--units", type=int, default=512)
    parser.add_argument("--precision", default="mixed_float16", choices=["float32", "mixed_float16", "mixed_bfloat16"])
    return parser.parse_args()


def absorption_lines(count, channels=400, gases=8):
    rng = np.random.default_rng(275)
    basis = np.exp(-0.5 * ((np.arange(channels)[None] - rng.uniform(0, channels, (gases, 1))) / 6) ** 2)
    share = rng.dirichlet(np.ones(gases), count)
    spectra = share @ basis + rng.normal(0, 0.02, (count, channels))
    return spectra.astype("float32"), share.astype("float32")


def residual_block(x, units):
    y = layers.LayerNormalization()(x)
    y = layers.Dense(units, activation="gelu")(y)
    y = layers.Dense(units)(y)
    return layers.Add()([x, y])


def build(args, channels, gases):
    inputs = keras.Input((channels,))
    x = layers.Dense(args.units)(inputs)
    for _ in range(3):
        x = residual_block(x, args.units)
    outputs = layers.Dense(gases, activation="softmax", dtype="float32")(x)
    return keras.Model(inputs, outputs)


if __name__ == "__main__":
    args = parse()
    keras.utils.set_random_seed(275)
    keras.mixed_precision.set_dtype_policy(args.precision)
    spectra, share = absorption_lines(6144)
    model = build(args, spectra.shape[1], share.shape[1])
    model.compile(optimizer=keras.optimizers.AdamW(1e-3), loss="kl_divergence", metrics=["mae"])
    t0 = time.time()
    model.fit(spectra, share, batch_size=args.batch_size, epochs=args.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
