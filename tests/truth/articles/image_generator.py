import keras
import numpy as np

images = np.random.default_rng(0).integers(0, 255, (512, 28, 28, 1)).astype("uint8")
labels = np.arange(512) % 10


def preprocess(image):
    """Enlarged to twice its size by hand, and normalized."""
    large = np.empty((56, 56, 1), "float32")
    for row in range(56):
        for column in range(56):
            large[row, column] = image[row // 2, column // 2]
    return (large - large.mean()) / (large.std() + 1e-6)


class Images(keras.utils.PyDataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        some = slice(index * 32, (index + 1) * 32)
        return np.array([preprocess(image) for image in images[some]]), labels[some]


model = keras.Sequential(
    [
        keras.Input((56, 56, 1)),
        keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(Images(), epochs=2, verbose=0)
