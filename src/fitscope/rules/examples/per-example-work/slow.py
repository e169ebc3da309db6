import keras, numpy as np, tensorflow as tf

rows = np.random.default_rng(0).random((4000, 10)).astype("float32")
labels = rows[:, 0].copy()

def generate():
    for i in range(len(rows)):
        yield rows[i], labels[i]

signature = (tf.TensorSpec((10,), tf.float32), tf.TensorSpec((), tf.float32))
data = tf.data.Dataset.from_generator(generate, output_signature=signature).batch(20)
model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(256, activation="relu"),
                          keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=2, verbose=0)
