import os
os.environ["KERAS_BACKEND"] = "torch"
import time

import keras
import numpy as np
import torch
from keras import layers
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
VOCAB, LEN = 3000, 64


def reviews(n, seed):
    g = np.random.default_rng(seed)
    lab = g.integers(0, 2, n)
    tok = g.integers(2, VOCAB, (n, LEN))
    mood = g.integers(2, 60, (n, LEN)) + 60 * lab[:, None]
    tok = np.where(g.random((n, LEN)) < 0.06, mood, tok)
    return TensorDataset(torch.tensor(tok), torch.tensor(lab, dtype=torch.float32))


def transformer():
    i = keras.Input((LEN,), dtype="int32")
    x = layers.Embedding(VOCAB, 64)(i)
    a = layers.MultiHeadAttention(4, 16)(x, x)
    x = layers.LayerNormalization()(x + a)
    f = layers.Dense(128, activation="relu")(x)
    x = layers.LayerNormalization()(x + layers.Dense(64)(f))
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(i, layers.Dense(1)(x))


net = transformer()
train = DataLoader(reviews(4096, 1), batch_size=64, shuffle=True)
held_out = DataLoader(reviews(6144, 2), batch_size=128)
criterion = torch.nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=1.5e-4)


def score(model, loader):
    total = hits = n = 0
    with torch.no_grad():
        for tok, lab in loader:
            out = model(tok, training=False)[:, 0]
            total += criterion(out, lab).item() * len(lab)
            hits += ((out > 0) == (lab > 0.5)).sum().item()
            n += len(lab)
    return total / n, hits / n


t0 = time.time()
step = 0
for epoch in range(3):
    for tok, lab in train:
        optimizer.zero_grad()
        loss = criterion(net(tok, training=True)[:, 0], lab)
        loss.backward()
        optimizer.step()
        step += 1
        if step % 12 == 0:
            val_loss, val_acc = score(net, held_out)
            print(f"step {step:4d} loss {loss.item():.4f} val_loss {val_loss:.4f} val_acc {val_acc:.3f}")
print("train time: %.2f s" % (time.time() - t0))
