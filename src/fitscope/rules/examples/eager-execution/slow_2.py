import keras, numpy as np, tensorflow as tf

x = np.random.default_rng(0).random((1600, 16)).astype("float32")
y = x[:, :1].copy()
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)

def train_step(features, target):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(features, training=True) - target))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

for epoch in range(8):
    for start in range(0, len(x), 32):
        train_step(x[start:start + 32], y[start:start + 32])
