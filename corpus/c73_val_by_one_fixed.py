import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch
from keras import layers
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(73)
x = torch.rand(2000, 1, 20)
y = torch.randint(0, 4, (2000,))
train_set, val_set = random_split(TensorDataset(x, y), [1400, 600])
train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
val_loader = DataLoader(val_set, batch_size=128)

model = keras.Sequential([keras.Input((1, 20)), layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(128, activation="relu"),
                          layers.Dense(4, activation="softmax")])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_loader, validation_data=val_loader, epochs=3, verbose=2)
