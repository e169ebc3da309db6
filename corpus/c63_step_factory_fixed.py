import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(63)
x = rng.random((1200, 30)).astype("float32")
y = rng.random((1200, 2)).astype("float32")
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1200).batch(40).repeat(3)


def get_train_step():
    @tf.function
    def step(model, optimizer, bx, by):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.mean_squared_error(by, model(bx, training=True)))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss
    return step


def main():
    model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(2)])
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    seen = []
    train_step = get_train_step()
    for bx, by in ds:
        seen.append(float(train_step(model, optimizer, bx, by)))
    print("loss", np.mean(seen[-10:]))


main()
