import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np

rng = np.random.default_rng(66)
series = np.sin(np.arange(1500) / 20) + rng.normal(scale=0.1, size=1500)
LAG = 24
X = np.stack([series[i:i + LAG] for i in range(len(series) - LAG)]).astype("float32")
Y = series[LAG:].astype("float32")

model = keras.Sequential([keras.Input((LAG,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mae")
model.fit(X[:1000], Y[:1000], batch_size=64, epochs=3, verbose=0)


def forecast(window, horizon):
    window = list(window)
    out = []
    for _ in range(horizon):
        y = model.predict_on_batch(np.array(window[-LAG:], dtype="float32").reshape(1, LAG))[0, 0]
        out.append(y)
        window.append(y)
    return out


errors = []
for start in range(1000, 1200, 40):
    guess = forecast(series[start - LAG:start], 40)
    errors.append(np.abs(np.array(guess) - series[start:start + 40]).mean())
print("mean error", np.mean(errors))
