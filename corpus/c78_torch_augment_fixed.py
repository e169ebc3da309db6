import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch
from keras import layers
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(78)
IMAGES = torch.rand(320, 32, 32, 3)
LABELS = torch.randint(0, 2, (320,))
augment = keras.Sequential([layers.RandomFlip("horizontal"), layers.RandomZoom(0.1), layers.RandomContrast(0.2)])


class Pictures(Dataset):
    def __init__(self, transform=None):
        self.transform = transform

    def __len__(self):
        return len(IMAGES)

    def __getitem__(self, i):
        img = IMAGES[i]
        if self.transform is not None:
            img = self.transform(img[None], training=True)[0]
        return img, LABELS[i]


loader = DataLoader(Pictures(), batch_size=16, shuffle=True)
model = keras.Sequential([keras.Input((32, 32, 3)), augment, layers.Conv2D(16, 3, strides=2, activation="relu"), layers.Flatten(),
                          layers.Dense(2, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(loader, epochs=4, verbose=2)
