import time
import keras, numpy as np

x = np.random.default_rng(0).random((64, 512)).astype("float32")

class Items(keras.utils.PyDataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        time.sleep(0.01)
        return x, x[:, :1]

model = keras.Sequential([keras.Input((512,)), keras.layers.Dense(2048, activation="relu"),
                          keras.layers.Dense(2048, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Items(), epochs=2, verbose=0)
