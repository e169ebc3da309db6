import keras, numpy as np
from keras import layers

images = np.random.default_rng(0).random((96, 32, 32, 3)).astype("float32")
labels = np.zeros(96, "int32")
augment = keras.Sequential([layers.RandomFlip("horizontal"), layers.RandomRotation(0.1)])

class Augmented(keras.utils.PyDataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        rows = slice(index * 8, index * 8 + 8)
        batch = [augment(image, training=True) for image in images[rows]]
        return np.stack([keras.ops.convert_to_numpy(image) for image in batch]), labels[rows]

model = keras.Sequential([keras.Input((32, 32, 3)), layers.Conv2D(48, 3), layers.Conv2D(48, 3), layers.Flatten(),
                          layers.Dense(2, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(Augmented(), epochs=8, verbose=0)
