import os
os.environ["KERAS_BACKEND"] = "torch"
import time
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
import keras
from keras import layers

keras.utils.set_random_seed(137)
rng = np.random.default_rng(137)


class Spots(Dataset):
    def __init__(self, n):
        self.y = rng.integers(0, 4, n)
        noise = rng.integers(0, 120, (n, 48, 48, 3), dtype=np.uint8)
        for i, c in enumerate(self.y):
            r, q = divmod(c, 2)
            noise[i, r * 24:r * 24 + 24, q * 24:q * 24 + 24] += 40
        self.x = noise

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        img = self.x[i]
        if np.random.rand() < 0.5:
            img = np.roll(img, 1, axis=0)
        return torch.from_numpy(img).float() / 255.0, int(self.y[i])


train_loader = DataLoader(Spots(960), batch_size=32, shuffle=True, num_workers=0)
test_loader = DataLoader(Spots(96), batch_size=32, num_workers=0)

model = keras.Sequential([
    keras.Input((48, 48, 3)),
    layers.Conv2D(48, 3, padding="same", activation="relu"),
    layers.Conv2D(48, 3, padding="same", activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(96, 3, padding="same", activation="relu"),
    layers.Conv2D(96, 3, padding="same", activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(4),
])
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def test():
    correct = 0
    with torch.no_grad():
        for xb, yb in test_loader:
            correct += (model(xb, training=False).argmax(dim=1) == yb).sum().item()
    return correct / len(test_loader.dataset)


t0 = time.time()
for epoch in range(3):
    running, seen, hits = 0.0, 0, 0
    for xb, yb in train_loader:
        logits = model(xb, training=True)
        loss = criterion(logits, yb)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        running += loss.item() * len(yb)
        hits += (logits.argmax(dim=1) == yb).sum().item()
        seen += len(yb)
    scheduler.step()
    print("epoch %d loss %.4f acc %.3f test %.3f" % (epoch, running / seen, hits / seen, test()))
print("train time: %.2f s" % (time.time() - t0))
