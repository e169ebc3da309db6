import keras, numpy as np, tensorflow as tf

rows = np.random.default_rng(0).random((960, 16)).astype("float32")
data = tf.data.Dataset.from_tensor_slices(rows).batch(32)
net = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(16)])
optimizer = keras.optimizers.SGD(0.01)
optimizer.build(net.trainable_variables)

@tf.function
def train_step(batch, beta):
    with tf.GradientTape() as tape:
        loss = beta * tf.reduce_mean(tf.square(net(batch, training=True) - batch))
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables))

step = 0
for epoch in range(2):
    for batch in data:
        train_step(batch, tf.constant(step / 100, tf.float32))
        step += 1
