import json
import keras, numpy as np

rows = np.random.default_rng(0).random((32, 600)).astype("float32")
document = json.dumps(rows.tolist())

def batches():
    while True:
        x = np.array(json.loads(document), "float32")
        yield x, x[:, :1]

model = keras.Sequential([keras.Input((600,)), keras.layers.Dense(400, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(batches(), steps_per_epoch=100, epochs=20, verbose=0)
