import keras, numpy as np, tensorflow as tf

rng = np.random.default_rng(0)
scans = [rng.integers(0, 255, (2400, 2400, 3), dtype="uint8").tobytes() for _ in range(8)]

def parse(blob):
    scan = tf.reshape(tf.io.decode_raw(blob, tf.uint8), (2400, 2400, 3))
    window = tf.cast(tf.image.random_crop(scan, (24, 24, 3)), tf.float32) / 255.0
    return window, window[0, 0, :1]

data = tf.data.Dataset.from_tensor_slices(scans).repeat(30).map(parse).batch(8)
model = keras.Sequential([keras.Input((24, 24, 3)), keras.layers.Conv2D(16, 3),
                          keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=15, verbose=0)
