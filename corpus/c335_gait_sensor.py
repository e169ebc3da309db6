import os
os.environ["KERAS_BACKEND"] = "torch"
import argparse
import time

import torch
from torch.utils.data import DataLoader, TensorDataset
import keras
from keras import layers

parser = argparse.ArgumentParser(description="gait phases from an ankle sensor")
parser.add_argument("--jobs", type=int, default=4, help="loader processes")
parser.add_argument("--epochs", type=int, default=24)
parser.add_argument("--seed", type=int, default=335)
args = parser.parse_args()

torch.manual_seed(args.seed)
steps = 960
phase = torch.randint(0, 4, (steps,))
walk = torch.randn(steps, 64, 6) * 0.5
for k in range(4):
    walk[phase == k, 16 * k:16 * k + 16] += 1.0

loader = DataLoader(TensorDataset(walk, phase), batch_size=48, shuffle=True, num_workers=args.jobs)

model = keras.Sequential([
    keras.Input((64, 6)),
    layers.Conv1D(16, 7, activation="relu"),
    layers.MaxPooling1D(2),
    layers.Conv1D(16, 5, activation="relu"),
    layers.Flatten(),
    layers.Dropout(0.3),
    layers.Dense(4, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])

if __name__ == "__main__":
    t0 = time.time()
    model.fit(loader, epochs=args.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
