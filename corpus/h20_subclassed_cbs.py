import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import tempfile
import keras
import numpy as np
import tensorflow as tf
from keras import layers


class Block(layers.Layer):
    def __init__(self, width):
        super().__init__()
        self.conv = layers.Conv1D(width, 5, padding="same")
        self.norm = layers.LayerNormalization()

    def call(self, x):
        return keras.ops.relu(self.norm(self.conv(x)))


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks = [Block(48), Block(48)]
        self.pool = layers.GlobalAveragePooling1D()
        self.head = layers.Dense(1)

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.pool(x))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(grads, self.trainable_variables)
        return {"loss": loss}


def main(epochs):
    rng = np.random.default_rng(120)
    x = rng.normal(size=(4000, 80, 6)).astype("float32")
    y = x.std(axis=(1, 2))[:, None]
    train = tf.data.Dataset.from_tensor_slices((x[:3500], y[:3500])).shuffle(3500).batch(64).prefetch(2)
    val = tf.data.Dataset.from_tensor_slices((x[3500:], y[3500:])).batch(64)
    out = tempfile.mkdtemp()
    net = Net()
    net.compile(keras.optimizers.Adam(1e-3), "mse")
    net.fit(train, validation_data=val, epochs=epochs, verbose=2, callbacks=[
        keras.callbacks.EarlyStopping(patience=2, min_delta=1e-4, restore_best_weights=True),
        keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.9),
        keras.callbacks.CSVLogger(os.path.join(out, "log.csv")),
        keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: print("epoch", e, sorted(logs))),
    ])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    main(parser.parse_args().epochs)
