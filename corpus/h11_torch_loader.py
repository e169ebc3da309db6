import time
import numpy as np
import torch
import keras
from keras import layers

rng = np.random.default_rng(6)
x = torch.tensor(rng.random((1024, 24, 24, 3)).astype("float32"))
y = torch.tensor(rng.integers(0, 4, 1024))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=64, shuffle=True)
model = keras.Sequential([
    keras.Input((24, 24, 3)),
    layers.Conv2D(32, 3, padding="same", activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(64, 3, padding="same", activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(4, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(loader, epochs=4, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
