import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import sys
import random
import time
import numpy as np
import keras
from keras.callbacks import LambdaCallback
from keras.models import Sequential
from keras.layers import Dense, LSTM, Input
from keras.optimizers import RMSprop

random.seed(0)
np.random.seed(0)
keras.utils.set_random_seed(0)

# some nonsense instead of my text file
words = ["".join(random.choice("etaoinshrdlu") for _ in range(random.randint(2, 8))) for _ in range(300)]
text = " ".join(random.choice(words) for _ in range(1700))[:7500]
print('corpus length:', len(text))

chars = sorted(list(set(text)))
print('total chars:', len(chars))
char_indices = dict((c, i) for i, c in enumerate(chars))
indices_char = dict((i, c) for i, c in enumerate(chars))

# cut the text in semi-redundant sequences of maxlen characters
maxlen = 40
step = 3
sentences = []
next_chars = []
for i in range(0, len(text) - maxlen, step):
    sentences.append(text[i: i + maxlen])
    next_chars.append(text[i + maxlen])
print('nb sequences:', len(sentences))

x = np.zeros((len(sentences), maxlen, len(chars)), dtype="float32")
y = np.zeros((len(sentences), len(chars)), dtype="float32")
for i, sentence in enumerate(sentences):
    for t, char in enumerate(sentence):
        x[i, t, char_indices[char]] = 1
    y[i, char_indices[next_chars[i]]] = 1

model = Sequential()
model.add(Input((maxlen, len(chars))))
model.add(LSTM(64))
model.add(Dense(len(chars), activation='softmax'))
model.compile(loss='categorical_crossentropy', optimizer=RMSprop(learning_rate=0.01))


def sample(preds, temperature=1.0):
    # helper function to sample an index from a probability array
    preds = np.asarray(preds).astype('float64')
    preds = np.log(preds + 1e-9) / temperature
    exp_preds = np.exp(preds)
    preds = exp_preds / np.sum(exp_preds)
    return int(np.argmax(np.random.multinomial(1, preds, 1)))


def on_epoch_end(epoch, _):
    # Function invoked at end of each epoch. Prints generated text.
    print('\n----- Generating text after Epoch: %d' % epoch)
    start_index = random.randint(0, len(text) - maxlen - 1)
    for diversity in [0.2, 0.5, 1.0]:
        sentence = text[start_index: start_index + maxlen]
        sys.stdout.write('%.1f "%s" -> ' % (diversity, sentence))
        for i in range(30):
            x_pred = np.zeros((1, maxlen, len(chars)), dtype="float32")
            for t, char in enumerate(sentence):
                x_pred[0, t, char_indices[char]] = 1.
            preds = model.predict(x_pred, verbose=0)[0]
            next_char = indices_char[sample(preds, diversity)]
            sentence = sentence[1:] + next_char
            sys.stdout.write(next_char)
        print()


print_callback = LambdaCallback(on_epoch_end=on_epoch_end)

start = time.time()
model.fit(x, y, batch_size=128, epochs=3, callbacks=[print_callback], verbose=2)
print("train time: %.2f s" % (time.time() - start))
