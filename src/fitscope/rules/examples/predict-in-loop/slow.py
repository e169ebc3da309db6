import keras, numpy as np

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)])
model.compile("sgd", "mse")
rows = np.random.default_rng(0).random((40, 8)).astype("float32")
answers = []
for row in rows:
    answers.append(model.predict(row[None], verbose=0))
