import keras, numpy as np

x = np.random.default_rng(0).random((32, 16)).astype("float32")

class Items(keras.utils.PyDataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        total = 0
        for number in range(200_000):
            total += number % 7
        return x, x[:, :1]

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Items(workers=4), epochs=5, verbose=0)
