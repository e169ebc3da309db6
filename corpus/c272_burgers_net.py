import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(272)
NU = 0.01 / np.pi


def mlp(depth=5, width=32):
    net = keras.Sequential([keras.Input((2,))], name="u")
    for _ in range(depth):
        net.add(layers.Dense(width, activation="tanh", kernel_initializer="glorot_normal"))
    net.add(layers.Dense(1))
    return net


class BurgersSolver:
    """u_t + u u_x = nu u_xx on [-1, 1] with u(0, x) = -sin(pi x) and u(t, +-1) = 0."""

    def __init__(self, net, rate=1e-3):
        self.net = net
        self.optimizer = keras.optimizers.Adam(rate)
        self.optimizer.build(net.trainable_variables)
        rng = np.random.default_rng(272)
        x0 = rng.uniform(-1, 1, (100, 1))
        tb = rng.uniform(0, 1, (100, 1))
        sides = np.where(rng.random((100, 1)) < 0.5, -1.0, 1.0)
        self.known_points = tf.constant(np.vstack([np.hstack([0 * x0, x0]), np.hstack([tb, sides])]), tf.float32)
        self.known_values = tf.constant(np.vstack([-np.sin(np.pi * x0), 0 * tb]), tf.float32)

    def residual(self, t, x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch([t, x])
                u = self.net(tf.concat([t, x], axis=1), training=True)
            u_t = inner.gradient(u, t)
            u_x = inner.gradient(u, x)
        u_xx = outer.gradient(u_x, x)
        return u_t + u * u_x - NU * u_xx

    def step(self, t, x):
        with tf.GradientTape() as tape:
            physics = tf.reduce_mean(tf.square(self.residual(t, x)))
            fit = self.net(self.known_points, training=True) - self.known_values
            loss = physics + tf.reduce_mean(tf.square(fit))
        gradients = tape.gradient(loss, self.net.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.net.trainable_variables))
        return loss, physics

    def solve(self, steps, points=512):
        rng = np.random.default_rng(1)
        for i in range(steps):
            t = tf.constant(rng.uniform(0, 1, (points, 1)), tf.float32)
            x = tf.constant(rng.uniform(-1, 1, (points, 1)), tf.float32)
            loss, physics = self.step(t, x)
            if i % 50 == 0:
                print("step %4d  loss %.4f  physics %.4f" % (i, float(loss), float(physics)))


if __name__ == "__main__":
    solver = BurgersSolver(mlp())
    t0 = time.time()
    solver.solve(steps=350)
    print("train time: %.2f s" % (time.time() - t0))
