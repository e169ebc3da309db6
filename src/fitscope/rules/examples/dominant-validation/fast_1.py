import keras, numpy as np, torch
from torch.utils.data import DataLoader, TensorDataset

x = torch.rand(2048, 200)
train = DataLoader(TensorDataset(x, x[:, :1]), batch_size=64, shuffle=True)
held_out = DataLoader(TensorDataset(x[:1024], x[:1024, :1]), batch_size=64)
model = keras.Sequential([keras.Input((200,)), keras.layers.Dense(500, activation="relu"), keras.layers.Dense(1)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def score():
    with torch.no_grad():
        return np.mean([float(((model(a) - b) ** 2).mean()) for a, b in held_out])

for epoch in range(30):
    for a, b in train:
        optimizer.zero_grad()
        ((model(a) - b) ** 2).mean().backward()
        optimizer.step()
    score()
