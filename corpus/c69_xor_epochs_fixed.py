import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np

X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype="float32")
y = np.array([[0], [1], [1], [0]], dtype="float32")

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1, activation="sigmoid")])
model.compile(loss="binary_crossentropy", optimizer=keras.optimizers.SGD(0.1))
model.fit(np.tile(X, (300, 1)), np.tile(y, (300, 1)), batch_size=4, epochs=4, verbose=0)
print(model.predict(X, verbose=0).round(2))
