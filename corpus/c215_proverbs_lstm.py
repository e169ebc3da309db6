'''Character model that writes proverbs. After every epoch it shows what it has learnt.'''
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import random
import sys
import time

import numpy as np
import keras
from keras import layers
from keras.callbacks import LambdaCallback

random.seed(4)
subjects = ["the early bird", "a rolling stone", "an empty vessel", "every cloud", "the wise man", "a silent river"]
verbs = ["gathers", "finds", "makes", "keeps", "forgets", "follows"]
objects_ = ["no moss", "the worm", "much noise", "a silver lining", "deep water", "old friends", "its own road"]
text = " ".join("%s %s %s." % (random.choice(subjects), random.choice(verbs), random.choice(objects_))
                for _ in range(420))
print("corpus length:", len(text))

chars = sorted(set(text))
char_indices = {c: i for i, c in enumerate(chars)}
indices_char = dict(enumerate(chars))

maxlen, step = 32, 3
sentences = [text[i:i + maxlen] for i in range(0, len(text) - maxlen, step)]
next_chars = [text[i + maxlen] for i in range(0, len(text) - maxlen, step)]
x = np.zeros((len(sentences), maxlen, len(chars)), dtype="float32")
y = np.zeros((len(sentences), len(chars)), dtype="float32")
for i, s in enumerate(sentences):
    for t, c in enumerate(s):
        x[i, t, char_indices[c]] = 1
    y[i, char_indices[next_chars[i]]] = 1
print("nb sequences:", len(sentences))

model = keras.Sequential([
    keras.Input((maxlen, len(chars))),
    layers.LSTM(64),
    layers.Dense(len(chars), activation="softmax"),
])
model.compile(loss="categorical_crossentropy", optimizer=keras.optimizers.RMSprop(0.005))


def sample(preds, temperature=1.0):
    preds = np.log(np.asarray(preds).astype("float64") + 1e-12) / temperature
    e = np.exp(preds - preds.max())
    return int(np.argmax(np.random.multinomial(1, e / e.sum() * 0.999999)))


def show_progress(epoch, logs):
    print("\n----- after epoch %d" % (epoch + 1))
    start = random.randint(0, len(text) - maxlen - 1)
    for diversity in (0.3, 0.7, 1.1):
        sentence = text[start:start + maxlen]
        generated = ""
        for _ in range(36):
            x_pred = np.zeros((1, maxlen, len(chars)), dtype="float32")
            for t, c in enumerate(sentence):
                x_pred[0, t, char_indices[c]] = 1.0
            preds = model.predict(x_pred, verbose=0)[0]
            c = indices_char[sample(preds, diversity)]
            generated += c
            sentence = sentence[1:] + c
        sys.stdout.write("[%.1f] %s\n" % (diversity, generated))


began = time.time()
model.fit(x, y, batch_size=128, epochs=4, verbose=2, callbacks=[LambdaCallback(on_epoch_end=show_progress)])
print("train time: %.2f s" % (time.time() - began))
