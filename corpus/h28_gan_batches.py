import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(128)
real = rng.random((2048, 32, 32, 1)).astype("float32")


def discriminator():
    return keras.Sequential([keras.Input((32, 32, 1)), layers.Conv2D(32, 5, strides=2), layers.LeakyReLU(0.2),
                             layers.Conv2D(64, 5, strides=2), layers.LeakyReLU(0.2), layers.Flatten(), layers.Dense(1)])


def generator():
    return keras.Sequential([keras.Input((64,)), layers.Dense(8 * 8 * 48), layers.Reshape((8, 8, 48)),
                             layers.Conv2DTranspose(32, 5, strides=2, padding="same", activation="relu"),
                             layers.Conv2DTranspose(1, 5, strides=2, padding="same", activation="sigmoid")])


d, g = discriminator(), generator()
bce = keras.losses.BinaryCrossentropy(from_logits=True)
d.compile(keras.optimizers.Adam(2e-4), bce)
noise = keras.Input((64,))
frozen = keras.models.clone_model(d)
frozen.trainable = False
gan = keras.Model(noise, frozen(g(noise)))
gan.compile(keras.optimizers.Adam(2e-4), bce)
B = 64
for step in range(60):
    picks = real[rng.integers(0, len(real), B)]
    fake = g.predict_on_batch(rng.normal(size=(B, 64)).astype("float32"))
    d_loss = d.train_on_batch(np.concatenate([picks, fake]), np.r_[np.ones((B, 1)), np.zeros((B, 1))])
    frozen.set_weights(d.get_weights())
    g_loss = gan.train_on_batch(rng.normal(size=(B, 64)).astype("float32"), np.ones((B, 1)))
    if step % 20 == 0:
        print(step, float(d_loss), float(g_loss))
