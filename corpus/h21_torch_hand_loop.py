import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch
from keras import layers
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(121)
images = torch.rand(768, 32, 32, 3)
labels = torch.randint(0, 10, (768,))
loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)
net = keras.Sequential([keras.Input((32, 32, 3)), layers.Conv2D(32, 3, activation="relu"), layers.Conv2D(32, 3, activation="relu"),
                        layers.MaxPooling2D(), layers.Flatten(), layers.Dense(10)])
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
criterion = torch.nn.CrossEntropyLoss()
for epoch in range(3):
    running = 0.0
    for batch, target in loader:
        optimizer.zero_grad()
        loss = criterion(net(batch), target)
        loss.backward()
        optimizer.step()
        running += loss.item()
    print("epoch %d loss %.3f" % (epoch + 1, running / len(loader)))
