import time

import keras
import numpy as np
import torch
from keras import layers
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, TensorDataset

keras.utils.set_random_seed(42)

# 11 lab measurements -> quality score
rng = np.random.default_rng(42)
X = rng.normal(size=(4800, 11))
quality = X @ rng.normal(size=11) + 0.5 * X[:, 0] * X[:, 3] + rng.normal(scale=0.3, size=4800)

X_train, X_val, y_train, y_val = train_test_split(X, quality, test_size=0.1, random_state=0)
scaler = StandardScaler().fit(X_train)


def as_dataset(X, y):
    return TensorDataset(torch.tensor(scaler.transform(X), dtype=torch.float32),
                         torch.tensor(y[:, None], dtype=torch.float32))


train_loader = DataLoader(as_dataset(X_train, y_train), batch_size=64, shuffle=True)
val_loader = DataLoader(as_dataset(X_val, y_val), batch_size=240)

model = keras.Sequential([
    keras.Input((11,)),
    layers.Dense(64, activation="relu"),
    layers.Dense(64, activation="relu"),
    layers.Dense(1),
])
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="mse", metrics=["mae"])

t0 = time.time()
model.fit(train_loader, validation_data=val_loader, epochs=18, verbose=0,
          callbacks=[keras.callbacks.EarlyStopping(patience=8, restore_best_weights=True)])
elapsed = time.time() - t0
print("validation:", model.evaluate(val_loader, verbose=0))
print("train time: %.2f s" % elapsed)
