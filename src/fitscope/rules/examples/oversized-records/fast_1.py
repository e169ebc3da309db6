import keras, numpy as np

rng = np.random.default_rng(0)
for night in range(4):
    np.save(f"night_{night}.npy", rng.random((2_000_000, 2)).astype("float32"))

class Windows(keras.utils.PyDataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        return np.stack([self.window(16 * index + row) for row in range(4)]), np.zeros((4, 1), "float32")

    def window(self, number):
        recording = np.load(f"night_{number % 4}.npy", mmap_mode="r")
        return np.array(recording[1000 * number : 1000 * number + 500])

model = keras.Sequential([keras.Input((500, 2)), keras.layers.Conv1D(16, 5), keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Windows(), epochs=10, verbose=0)
