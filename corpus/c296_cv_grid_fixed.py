import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import numpy as np
import keras
from keras.layers import BatchNormalization, Dense, Dropout, Input
from keras.models import Sequential

# repeated k-fold over a small grid; each fit takes a second although the data set is tiny
seed = 7
np.random.seed(seed)
keras.utils.set_random_seed(seed)


def make_dataset(n=960, f=16):
    X = np.random.randn(n, f).astype("float32")
    Y = ((X[:, 0] * X[:, 1] + X[:, 2] - 0.5 * X[:, 3] + 0.3 * np.random.randn(n)) > 0).astype("float32")
    return X, Y


def kfold(n, k):
    idx = np.random.permutation(n)
    for part in np.split(idx, k):
        yield np.setdiff1d(idx, part), part


def create_model(learning_rate):
    model = Sequential()
    model.add(Input(shape=(16,)))
    model.add(Dense(64, activation="relu"))
    model.add(BatchNormalization())
    model.add(Dropout(0.2, seed=seed))
    model.add(Dense(32, activation="relu"))
    model.add(BatchNormalization())
    model.add(Dense(8, activation="relu"))
    model.add(Dense(1, activation="sigmoid"))
    model.compile(loss="binary_crossentropy", optimizer=keras.optimizers.Adam(learning_rate), metrics=["accuracy"])
    return model


def snapshot(model):
    model.optimizer.build(model.trainable_variables)
    return model.get_weights(), [np.array(v) for v in model.optimizer.variables]


def reset(model, start, learning_rate):
    weights, slots = start
    model.set_weights(weights)
    for variable, value in zip(model.optimizer.variables, slots):
        variable.assign(value)
    model.optimizer.learning_rate = learning_rate


def fit_and_score(model, start, X, Y, train, test, learning_rate):
    reset(model, start, learning_rate)
    model.fit(X[train], Y[train], epochs=12, batch_size=48, verbose=0)
    return model.evaluate(X[test], Y[test], batch_size=48, verbose=0)[1]


X, Y = make_dataset()
results = {}
t0 = time.time()
model = create_model(0.01)
start = snapshot(model)
for lr in (0.01, 0.002):
    scores = []
    for train, test in kfold(len(X), 4):
        t = time.time()
        scores.append(fit_and_score(model, start, X, Y, train, test, lr))
        print("lr %g fold %d acc %.3f (%.2f s)" % (lr, len(scores), scores[-1], time.time() - t))
    results[lr] = np.mean(scores)
print("best", max(results, key=results.get), results)
print("train time: %.2f s" % (time.time() - t0))
