import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(92)
USERS, ITEMS, CLICKS = 400_000, 150_000, 12_800
users = rng.integers(0, USERS, CLICKS)
items = rng.integers(0, ITEMS, CLICKS)
clicked = rng.integers(0, 2, CLICKS).astype("float32")


class Recommender(keras.Model):
    def __init__(self, size=32):
        super().__init__()
        self.user_factors = layers.Embedding(USERS, size, name="user_factors")
        self.item_factors = layers.Embedding(ITEMS, size, name="item_factors")
        self.head = layers.Dense(1, activation="sigmoid")

    def call(self, inputs):
        user, item = self.user_factors(inputs["user"]), self.item_factors(inputs["item"])
        return self.head(user * item)


model = Recommender()
model.compile(optimizer=keras.optimizers.SGD(0.5), loss="binary_crossentropy")
t0 = time.time()
model.fit({"user": users, "item": items}, clicked, batch_size=128, epochs=1, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
