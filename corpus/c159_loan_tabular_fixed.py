import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
import keras
from keras.layers import BatchNormalization, Dense, Dropout
from keras.models import Sequential

np.random.seed(42)
keras.utils.set_random_seed(42)

n = 60000
X = np.random.lognormal(size=(n, 24))
logit = np.log(X[:, 0]) - 0.7 * np.log(X[:, 1]) + 0.5 * np.log(X[:, 2]) * np.log(X[:, 3])
y = (logit + np.random.logistic(size=n) * 0.5 > 0).astype("float32")
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=1)
sc = StandardScaler()
X_train = sc.fit_transform(np.log(X_train)).astype("float32")
X_test = sc.transform(np.log(X_test)).astype("float32")

classifier = Sequential()
classifier.add(keras.Input((24,)))
classifier.add(Dense(64, activation="relu"))
classifier.add(BatchNormalization())
classifier.add(Dropout(0.1))
classifier.add(Dense(32, activation="relu"))
classifier.add(Dense(1, activation="sigmoid"))
classifier.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])

start = time.time()
classifier.fit(X_train, y_train, batch_size=128, epochs=8, verbose=2)
print("train time: %.2f s" % (time.time() - start))
print("test accuracy: %.3f" % classifier.evaluate(X_test, y_test, batch_size=1000, verbose=0)[1])
