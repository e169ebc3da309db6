import keras, numpy as np, tensorflow as tf

x = np.random.default_rng(0).random((4096, 100)).astype("float32")
train = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(64)
held_out = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(256)
model = keras.Sequential([keras.Input((100,)), keras.layers.Dense(700, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.01)
error = keras.metrics.MeanSquaredError()

@tf.function
def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

@tf.function
def score(a, b):
    error.update_state(b, model(a, training=False))

for epoch in range(30):
    for a, b in train:
        train_step(a, b)
    if epoch % 6 == 5:
        for a, b in held_out:
            score(a, b)
        error.reset_state()
