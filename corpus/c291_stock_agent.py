import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import math
import random
import time
from collections import deque

import numpy as np
import keras
from keras.layers import Dense, Input
from keras.models import Sequential
from keras.optimizers import Adam

random.seed(12)
np.random.seed(12)
keras.utils.set_random_seed(12)

WINDOW = 10
MINIBATCH_SIZE = 256
MIN_REPLAY_MEMORY_SIZE = 300


def getStockDataVec(n):
    """fake ^GSPC closing prices"""
    return list(1000.0 * np.exp(np.cumsum(np.random.normal(0.0003, 0.01, n))))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def getState(data, t, n):
    d = t - n + 1
    block = data[d:t + 1] if d >= 0 else -d * [data[0]] + data[0:t + 1]
    return np.array([sigmoid(block[i + 1] - block[i]) for i in range(n - 1)])


class Agent:
    def __init__(self, state_size):
        self.state_size = state_size
        self.action_size = 3  # sit, buy, sell
        self.memory = deque(maxlen=1000)
        self.inventory = []
        self.gamma = 0.95
        self.epsilon = 1.0
        self.epsilon_min = 0.01
        self.epsilon_decay = 0.98
        self.model = self._model()
        self.target_model = self._model()
        self.target_model.set_weights(self.model.get_weights())

    def _model(self):
        model = Sequential()
        model.add(Input((self.state_size,)))
        model.add(Dense(units=1024, activation="relu"))
        model.add(Dense(units=512, activation="relu"))
        model.add(Dense(units=32, activation="relu"))
        model.add(Dense(self.action_size, activation="linear"))
        model.compile(loss="mse", optimizer=Adam(learning_rate=0.001))
        return model

    def act(self, state):
        if np.random.rand() <= self.epsilon:
            return random.randrange(self.action_size)
        options = self.model.predict(state[None, :], verbose=0)
        return int(np.argmax(options[0]))

    def expReplay(self):
        # vectorised over the minibatch already, this helped a bit
        mini_batch = random.sample(self.memory, MINIBATCH_SIZE)
        states = np.array([m[0] for m in mini_batch])
        next_states = np.array([m[3] for m in mini_batch])
        q = self.model.predict(states, batch_size=MINIBATCH_SIZE, verbose=0)
        q_next = self.target_model.predict(next_states, batch_size=MINIBATCH_SIZE, verbose=0)
        for i, (_, action, reward, _, done) in enumerate(mini_batch):
            q[i, action] = reward if done else reward + self.gamma * np.amax(q_next[i])
        self.model.fit(states, q, batch_size=MINIBATCH_SIZE, epochs=1, shuffle=False, verbose=0)
        if self.epsilon > self.epsilon_min:
            self.epsilon *= self.epsilon_decay


data = getStockDataVec(190)
agent = Agent(WINDOW - 1)
episode_count = 2

t0 = time.time()
for e in range(episode_count):
    state = getState(data, 0, WINDOW)
    total_profit = 0
    agent.inventory = []
    for t in range(len(data) - 1):
        action = agent.act(state)
        next_state = getState(data, t + 1, WINDOW)
        reward = 0
        if action == 1:
            agent.inventory.append(data[t])
        elif action == 2 and len(agent.inventory) > 0:
            bought_price = agent.inventory.pop(0)
            reward = max(data[t] - bought_price, 0)
            total_profit += data[t] - bought_price
        done = t == len(data) - 2
        agent.memory.append((state, action, reward, next_state, done))
        state = next_state
        if len(agent.memory) > MIN_REPLAY_MEMORY_SIZE:
            agent.expReplay()
    agent.target_model.set_weights(agent.model.get_weights())
    print("Episode %d/%d  profit %.2f" % (e + 1, episode_count, total_profit))
print("train time: %.2f s" % (time.time() - t0))
