import keras, numpy as np

class Local(keras.utils.PyDataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        x = np.frombuffer(bytes(2048), "float32").reshape(32, 16)
        return x, x[:, :1]

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Local(workers=2), epochs=5, verbose=0)
